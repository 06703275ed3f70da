use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::layout::Layout;
use postrider_core::report::{Reported, Role};
use postrider_core::source::SourceError;
use postrider_core::store::{Depth, Store};
use postrider_relay::{Chance, Chore, Ended, Relay, Stop, Summary, Tend};

use super::SharedClock;
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::human::{count, entries, events, span};
use crate::log::Steps;
use crate::output::note;
use crate::report::{Pulse, Watched};
use crate::shown::{CELL_CHARS_MAX, shown};
use crate::{layout, outbox, relays, settings, signals, sinks};

/// How often what a dead relay left is looked for, and what is published is pruned.
const REAP_EVERY: Duration = Duration::from_secs(10);
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// How often a relay that stands by, and is to end with the outbox, looks at it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Relays events until it is stopped.
///
/// SIGTERM or Ctrl-C stops it gracefully: what was claimed is settled or given back within stop_timeout; a second one
/// ends it at once. A broker that is down never ends it, nor does a database that goes away after the start, nor a table or
/// a right that is changed meanwhile: it says what is wrong, and goes on once that is mended.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider run                                 until Ctrl-C
  postrider run -v                              says each step on stderr
  postrider run --until-empty --timeout 1m      publishes what is there, for scripts and jobs

Exit codes:
  0  stopped or emptied; or, for all of --timeout, another relay was at work, or nothing was left but what is not committed
  1  failed: going on would lose or repeat events, what was claimed could not be given back within stop_timeout, a
     second signal ended it at once, or with --until-empty, the table or a right was changed meanwhile
  2  bad usage or configuration, a table that does not fit its layout, or a right that is missing
  3  the database could not be reached at the start
  4  with --until-empty, the broker stayed away for --timeout")]
pub(crate) struct Args {
    /// Stops when nothing is left that it could do, and says what is waiting, held back or dead.
    #[arg(long)]
    until_empty: bool,

    /// With --until-empty: gives up when the broker stays away, another relay is at work, or nothing is left but ids that
    /// may still commit, for this long; 0s never does.
    #[arg(long, value_name = "TIME", requires = "until_empty", default_value = "30s")]
    #[arg(value_parser = postrider_core::span::parse)]
    timeout: Duration,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let layout = layout::load(config)?;
    let mut settings = settings::settings(config, &layout);
    settings.until_empty = args.until_empty.then_some(args.timeout);
    let sinks = sinks::open(config, &layout, clock)?;
    let source = outbox::source(config, clock).await?;
    let store = outbox::store(config, clock).await?;
    let pulse = Arc::new(Pulse::new(outbox::holder(), clock));
    let relay = Relay {
        source,
        sinks,
        router: settings::router(config, &layout),
        settings,
        clock: clock.clone(),
        chance: chance(),
        observer: Arc::new(Watched {
            steps: Steps::new(args.until_empty, clock, &layout),
            pulse: pulse.clone(),
        }),
    };
    let tend = Tend { store: store.clone(), chores: chores(config, &layout), clock: clock.clone() };
    welcome(config);
    let summary = until_stopped(&relay, &tend, &pulse).await?;
    conclude(args, &summary, &pulse, &*store).await
}

/// A person at a terminal sees that it runs; a log stays quiet.
fn welcome(config: &Config) {
    if std::io::stderr().is_terminal() {
        let sinks: Vec<String> = config.sinks.iter().map(|sink| sink.url.to_string()).collect();
        note(&format!("Relaying {} to {}. Ctrl-C stops, -v says more.", config.outbox.url, sinks.join(", ")));
    }
}

/// Runs both until the relay ends. A second signal drops them where they stand.
async fn until_stopped<S: postrider_core::source::Source>(
    relay: &Relay<S>,
    tend: &Tend,
    pulse: &Pulse,
) -> Result<Summary, Failure> {
    let (stop, store) = (Stop::new(), &*tend.store);
    let both = async {
        let relayed = async {
            let summary = relay.run(&stop).await;
            stop.stop();
            summary
        };
        tokio::join!(relayed, tend.run(&stop)).0
    };
    let beside = async {
        let looking = stop_when_emptied(relay, store, pulse, &stop);
        tokio::join!(pulse.keep_reporting(store), looking).0
    };
    let to_the_end = async {
        let summary = tokio::select! {
            summary = both => summary,
            never = beside => match never {},
        };
        pulse.say_stopped(store).await;
        summary
    };
    tokio::select! {
        summary = to_the_end => summary.map_err(|fault| Failure::new(Code::Failed, fault)),
        () = signals::stop_twice(&stop, relay.settings.stop_timeout) => Err(Failure::told(Code::Failed)),
    }
}

/// Beside a healthy relay there is nothing to wait for, once that one has emptied the outbox.
async fn stop_when_emptied<S: postrider_core::source::Source>(
    relay: &Relay<S>,
    store: &dyn Store,
    pulse: &Pulse,
    stop: &Stop,
) {
    let Some(patience) = relay.settings.until_empty else { return };
    let mut since = None;
    let mut commits_since = None;
    while !stop.asked() {
        relay.clock.sleep(if patience.is_zero() { LOOK_EVERY } else { LOOK_EVERY.min(patience) }).await;
        let now = relay.clock.instant();
        since = (pulse.stands_by() || pulse.waits_for_others()).then(|| since.unwrap_or(now));
        if since.is_some_and(|since| !patience.is_zero() && now.since(since) >= patience) {
            let who = if pulse.stands_by() {
                "is active, and was"
            } else {
                "or transaction has what is left, and did"
            };
            note(&format!("Another relay {who} for {}: the rest is left to it.", span(patience)));
            stop.stop();
        }
        let waited = commits_since.is_some();
        commits_since = pulse.waits_for_commits().then(|| commits_since.unwrap_or(now));
        if commits_since.is_some() && !waited {
            waiting_for_commits(store).await;
        }
        if commits_since.is_some_and(|since| !patience.is_zero() && now.since(since) >= patience) {
            note(&format!(
                "They were waited for, for {}: what they commit is left to the next run.",
                span(patience)
            ));
            stop.stop();
        }
        // A database that does not answer is asked again; the relay itself says so.
        if pulse.stands_by() && is_emptied(store).await.unwrap_or(false) {
            stop.stop();
        }
    }
}

/// Says what an outbox that is empty otherwise waits for.
async fn waiting_for_commits(store: &dyn Store) {
    let Ok(depth) = store.depth().await else { return };
    if depth.gaps_open > 0 {
        note(&format!("Waiting for {} that may still commit{}.", ids(depth.gaps_open), writers(&depth)));
    }
}

fn ids(number: u64) -> String {
    if number == 1 { "1 id".to_owned() } else { format!("{} ids", count(number)) }
}

fn writers(depth: &Depth) -> String {
    if depth.gap_writers.is_empty() { String::new() } else { format!(": {}", depth.gap_writers.join("; ")) }
}

/// Whether the active relay has nothing left that it would not leave as well, if it ran until empty.
async fn is_emptied(store: &dyn Store) -> Result<bool, SourceError> {
    let depth = store.depth().await?;
    if depth.pending + depth.leased + depth.gaps_open > 0 {
        return Ok(false);
    }
    if depth.parked == 0 {
        return Ok(true);
    }
    // What is behind a dead or waiting entry stays; what is behind a topic that is away goes when that comes back.
    let reports = store.reports().await?;
    let is_calm = |said: &Reported| said.report.role == Role::Active && said.report.circuits.is_empty();
    Ok(reports.iter().any(|reported| is_calm(reported) && !relays::is_gone(reported)))
}

pub(crate) fn chance() -> Chance {
    let mut rng = fastrand::Rng::new();
    Mutex::new(Box::new(move || rng.f64()))
}

fn chores(config: &Config, layout: &Layout) -> Vec<(Chore, Duration)> {
    let prune = settings::retention(config, layout).map(|keep| (Chore::Prune { keep }, PRUNE_EVERY));
    // As often as the team has it: what is dead for shorter is not taken back by it anyway (A9).
    let reap_every = layout.stalled.unwrap_or(REAP_EVERY);
    std::iter::once((Chore::Reap, reap_every)).chain(prune).collect()
}

async fn conclude(args: &Args, summary: &Summary, pulse: &Pulse, store: &dyn Store) -> Result<(), Failure> {
    if summary.abandoned > 0 {
        return Err(Failure::failed(
            "postrider run",
            format!(
                "{} could not be settled or given back within stop_timeout",
                entries(summary.abandoned as u64)
            ),
            "They come again when the lease expires; raise [relay] stop_timeout if this happens often",
        ));
    }
    if !args.until_empty {
        return Ok(());
    }
    note(&format!("Published {}.", events(summary.published)));
    let depth = store.depth().await?;
    let full = pulse
        .is_full()
        .then(|| relays::full_up(depth.culprit.as_ref(), pulse.leaves_alone().then_some(relays::AWAY)));
    for line in left(&depth).into_iter().chain(full) {
        note(&line);
    }
    if summary.ended == Ended::BrokerAway {
        let (sink, why) = match pulse.away() {
            Some((sink, reason)) => (format!("sink \"{sink}\""), format!(": {reason}")),
            None => ("sink".to_owned(), String::new()),
        };
        let problem = format!("the broker stayed away for {}{why}", span(args.timeout));
        let remedy = "Nothing is lost: run it again when the broker is back, or give it more --timeout";
        return Err(Failure::new(Code::Broker, postrider_core::Fault::new(sink, problem, remedy)));
    }
    Ok(())
}

fn left(depth: &Depth) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |number: u64, what: &str| {
        if number > 0 {
            lines.push(format!("{} {what}", count(number)));
        }
    };
    line(depth.pending, "pending");
    line(depth.waiting, "waiting for their next try");
    line(depth.parked, "held back behind another entry of their key, or behind a topic that is away");
    line(depth.gaps_open, &format!("ids that may still commit{}", writers(depth)));
    line(depth.dead, "dead: `postrider list --state dead` shows them");
    line(
        depth.unknown,
        "with a status that is none of the layout's words: `postrider list --state unknown` shows them",
    );
    if let Some((key, held)) = &depth.culprit {
        lines.push(format!("{} of them behind key {}", count(*held), shown(key, CELL_CHARS_MAX)));
    }
    lines
}
