use postrider_core::Fault;
use postrider_core::finding::{Finding, Weight};
use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::config::secret::scrub;
use crate::exit::{Code, Failure};
use crate::output::{data, json, tell};
use crate::shown::{VALUE_CHARS_MAX, shown};
use crate::sinks::kafka;
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
    findings: Vec<Told>,
    /// Whether nothing is wrong but that `postrider migrate` has yet to be run.
    #[serde(skip)]
    is_new: bool,
    /// What the findings come to, for the exit code.
    #[serde(skip)]
    code: Option<Code>,
}

#[derive(Serialize)]
struct Told {
    weight: &'static str,
    place: String,
    problem: String,
    remedy: String,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    // A layout that cannot be read, or a sink that cannot even be made, is a fault of the configuration.
    let layout = layout::load(config)?;
    let sinks = sinks::open(config, &layout, clock)?;
    let mut all = vec![Tested::new("layout", layout.name.clone()), test_outbox(config).await?];
    for (sink, (name, opened)) in config.sinks.iter().zip(&sinks) {
        let mut tested = Tested::new("sink", format!("{name} ({})", sink.url));
        if let Err(fault) = opened.probe().await {
            tested.found(Weight::Fault, fault, Code::Broker);
        } else if kafka::is_kafka(sink) {
            let findings = kafka::examine(sink, config, &layout).await;
            for Finding { weight, fault } in findings.map_err(|fault| Failure::new(Code::Usage, fault))? {
                tested.found(weight, fault, Code::Found);
            }
        }
        all.push(tested);
    }
    for tested in &all {
        if args.json { json(tested)? } else { data(&tested.text())? }
    }
    // What cannot be reached goes before what is wrong, and the database before the broker.
    match all.iter().filter_map(|tested| tested.code).min() {
        None => Ok(()),
        Some(code) => Err(Failure::told(code)),
    }
}

async fn test_outbox(config: &Config) -> Result<Tested, Failure> {
    let mut tested = Tested::new("outbox", config.outbox.url.to_string());
    match outbox::check(config).await {
        Err(Failure { code: Code::Database, fault: Some(fault) }) => {
            tested.found(Weight::Fault, fault, Code::Database)
        }
        Err(failure) => return Err(failure),
        Ok(findings) => {
            for Finding { weight, fault } in findings {
                let code = if outbox::is_unreachable(&fault) { Code::Database } else { Code::Found };
                tested.found(weight, fault, code);
            }
        }
    }
    Ok(tested)
}

impl Tested {
    fn new(what: &'static str, name: String) -> Self {
        Self { what, name, ok: true, findings: Vec::new(), is_new: true, code: None }
    }

    /// Faults are told at once, on stderr; what is only worth knowing is data.
    fn found(&mut self, weight: Weight, fault: Fault, code: Code) {
        let told = Told {
            weight: match weight {
                Weight::Fault => "fault",
                Weight::Advice => "advice",
                Weight::Note => "note",
            },
            place: scrub(&fault.place),
            problem: scrub(&fault.problem),
            remedy: scrub(&fault.remedy),
        };
        self.findings.push(told);
        if weight == Weight::Fault {
            self.is_new &= fault.remedy.contains("`postrider migrate`");
            tell(&Failure::new(code, fault));
            self.ok = false;
            self.code = Some(self.code.map_or(code, |before| before.min(code)));
        }
    }

    fn text(&self) -> String {
        let word = match (self.ok, self.is_new) {
            (true, _) => "ok",
            (false, true) => "new",
            (false, false) => "FAULT",
        };
        let mut text = format!("{word:5}  {:6}  {}\n", self.what, shown(&self.name, VALUE_CHARS_MAX));
        if word == "new" {
            text.push_str(&format!("{:15}`postrider migrate` has yet to create what is missing\n", ""));
        }
        for Told { weight, problem, remedy, .. } in self.findings.iter().filter(|told| told.weight != "fault")
        {
            let stop = if remedy.is_empty() { "" } else { ". " };
            let told = shown(format_args!("{problem}{stop}{remedy}"), VALUE_CHARS_MAX);
            text.push_str(&format!("{:15}{weight}: {told}\n", ""));
        }
        text
    }
}
