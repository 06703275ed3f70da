use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::config::secret::scrub;
use crate::exit::{Code, Failure};
use crate::output::{data, json, tell};
use crate::{layout, outbox, sinks};

/// Tests the configuration, the database and the broker, and names each fault with its remedy.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider check
  postrider check --json | jq 'select(.ok | not)'

Exit codes: 0 all is well; 2 the configuration is wrong; 3 the database cannot be reached; 4 a broker cannot be reached;
5 any other fault, such as a column that is missing.")]
pub(crate) struct Args {
    /// Prints JSON, one object per thing that was tested.
    #[arg(long)]
    json: bool,
}

/// One thing that was tested.
#[derive(Serialize)]
struct Tested {
    what: &'static str,
    name: String,
    ok: bool,
    faults: Vec<Told>,
    #[serde(skip)]
    found: Vec<Failure>,
}

#[derive(Serialize)]
struct Told {
    place: String,
    problem: String,
    remedy: String,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    // A layout that cannot be read, or a sink that cannot even be made, is a fault of the configuration.
    let layout = layout::load(config)?;
    let sinks = sinks::open(config, clock)?;
    let mut all = vec![
        tested("layout", layout.name, Vec::new()),
        tested("outbox", config.outbox.url.to_string(), outbox::check(config)),
    ];
    for (sink, (name, opened)) in config.sinks.iter().zip(&sinks) {
        let fault = opened.probe().await.err().map(|fault| Failure::new(Code::Broker, fault));
        all.push(tested("sink", format!("{name} ({})", sink.url), fault.into_iter().collect()));
    }
    for tested in &all {
        if args.json { json(tested)? } else { data(&text(tested))? }
    }
    all.iter().flat_map(|tested| &tested.found).for_each(tell);
    // The database before the broker, and what cannot be reached before what is wrong with it.
    match all.iter().flat_map(|tested| &tested.found).map(|failure| failure.code).min() {
        None => Ok(()),
        Some(code) => Err(Failure::told(code)),
    }
}

fn tested(what: &'static str, name: String, found: Vec<Failure>) -> Tested {
    let faults = found.iter().filter_map(|failure| failure.fault.as_ref()).map(|fault| Told {
        place: scrub(&fault.place),
        problem: scrub(&fault.problem),
        remedy: scrub(&fault.remedy),
    });
    Tested { what, name, ok: found.is_empty(), faults: faults.collect(), found }
}

fn text(tested: &Tested) -> String {
    let word = if tested.ok { "ok" } else { "FAULT" };
    format!("{word:5}  {:6}  {}\n", tested.what, tested.name)
}
