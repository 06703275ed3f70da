//! Quiet in normal running (B18): what goes wrong is a WARN, what is given up an ERROR, each step a DEBUG.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::breaker::Circuit;
use postrider_core::source::SourceError;
use postrider_core::verdict::Scope;
use postrider_core::{EntryId, Layout, Refusal, Settlement, limits};
use postrider_relay::{Observer, Step};
use tracing::{debug, error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::commands::SharedClock;
use crate::config::secret::scrub;
use crate::human::span;
use crate::outage::Outage;
use crate::output::{colours, note};
use crate::shown::{logged, shown};

/// Logs go to stderr; `RUST_LOG` rules where it is set.
pub(crate) fn install(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "warn,postrider=debug",
        _ => "warn,postrider=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Scrubbed)
        .with_ansi(colours(&io::stderr()))
        .with_target(false)
        .init();
}

/// Writes the relay's steps into the log. Never a payload.
#[derive(Default)]
pub(crate) struct Steps {
    /// Somebody waits for the relay to end, and should know what it waits for.
    awaited: bool,
    /// The circuits that are not closed: a failed trial opens one again, and says nothing of the rate.
    tripped: Mutex<HashSet<(String, Option<String>)>>,
    /// What has been said of parts of a topic, and of which entry: said again only after that one is published.
    parts: Mutex<HashMap<String, EntryId>>,
    outage: Outage,
    /// Without one, every failure is told.
    clock: Option<SharedClock>,
    /// Where dead letters are written down, where the layout has a table for them.
    letters: Option<String>,
}

impl Steps {
    /// For whoever waits for the relay's end, or for nobody.
    pub(crate) fn new(awaited: bool, clock: &SharedClock, layout: &Layout) -> Self {
        let letters = layout.sides.dead.as_ref().map(|table| table.name.to_string());
        Self { awaited, clock: Some(clock.clone()), letters, ..Self::default() }
    }

    /// Whether something is news: nobody has said it of an entry that still waits.
    fn is_news(&self, reason: &str, id: &EntryId) -> bool {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let room = parts.len() < limits::REPORT_CIRCUITS_MAX;
        let news = room && !parts.contains_key(reason);
        if news {
            parts.insert(reason.to_owned(), id.clone());
        }
        news
    }

    fn is_published(&self, id: &EntryId) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, held| held != id);
    }

    /// Whether a circuit opens because too much failed.
    fn opens(&self, sink: &str, topic: Option<&str>, circuit: Circuit) -> bool {
        let mut tripped = self.tripped.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (sink.to_owned(), topic.map(str::to_owned));
        match circuit {
            Circuit::Closed => {
                tripped.remove(&name);
                false
            }
            Circuit::HalfOpen => false,
            Circuit::Open => tripped.insert(name),
        }
    }
}

impl Steps {
    /// Said at once, then ever more rarely: it is tried again every few seconds, for as long as it takes.
    fn away(&self, error: &SourceError) {
        let text = shown(error, limits::REASON_CHARS_MAX);
        let fault = match error {
            SourceError::Unfit(fault) => Some(shown(&fault.problem, limits::REASON_CHARS_MAX)),
            _ => None,
        };
        let lasted = match &self.clock {
            Some(clock) => self.outage.tells(&text, fault.as_deref(), clock.instant()),
            None => Some(Duration::ZERO),
        };
        let Some(lasted) = lasted else { return };
        let away_for = (!lasted.is_zero()).then(|| span(lasted));
        match error {
            SourceError::Unfit(_) => {
                error!(error = %text, away_for, "the outbox cannot be used as it is: nothing is lost, and it goes on once this is mended")
            }
            _ => {
                warn!(error = %text, away_for, "the database cannot be used now: nothing is lost, and it is tried again until it can")
            }
        }
    }
}

impl Steps {
    /// What was away is back; where somebody had to mend something, it is said what.
    fn back(&self) {
        let over = self.clock.as_ref().and_then(|clock| self.outage.ends(clock.instant()));
        let away_for = over.as_ref().map(|over| span(over.lasted));
        match over.map(|over| over.mended.join("; ")).filter(|mended| !mended.is_empty()) {
            Some(mended) => {
                warn!(away_for, mended, "the outbox can be used again: what was wrong with it is mended")
            }
            None => warn!(away_for, "the database answers again"),
        }
    }
}

impl Observer for Steps {
    fn saw(&self, step: &Step<'_>) {
        match step {
            Step::Claimed { entries, bytes_held } => debug!(entries, bytes_held, "claimed"),
            Step::Settled { entries } => debug!(entries, "settled"),
            Step::Published { entry, to } => {
                self.is_published(&entry.id);
                let (id, event) = (&entry.id, &entry.envelope.id);
                debug!(id = %logged(id), event = %logged(event), sink = %to.sink, topic = %logged(&to.topic), "published");
            }
            Step::Refused {
                entry, to, refusal: Refusal::Busy { scope: Scope::Partition, reason }, ..
            } if self.is_news(&reason.0, &entry.id) => {
                let (id, topic) = (logged(&entry.id), logged(&to.topic));
                let reason = shown(reason, limits::REASON_CHARS_MAX);
                warn!(%id, sink = %to.sink, topic, reason, "what goes there waits, the rest flows on");
            }
            Step::Refused { entry, to, refusal, settlement } => {
                refused(&entry.id, &to.sink, &to.topic, refusal, settlement);
            }
            Step::Buried { entry, reason } => {
                let (event, r#type) = (&entry.envelope.id, &entry.envelope.event_type);
                let reason = shown(reason, limits::REASON_CHARS_MAX);
                let (id, event, r#type) = (logged(&entry.id), logged(event), logged(r#type));
                match &self.letters {
                    // A net has caught it (A10).
                    Some(table) => {
                        warn!(%id, %event, %r#type, reason, table, "dead letter: given up until it is revived");
                    }
                    None => error!(%id, %event, %r#type, reason, "dead: given up until it is revived"),
                }
            }
            Step::Circuit { sink, topic, circuit, reason } => {
                let opens = self.opens(sink, *topic, *circuit);
                // A field that is none is left away.
                let topic = topic.map(logged);
                let reason = reason.map(|reason| shown(reason, limits::REASON_CHARS_MAX));
                if opens {
                    error!(sink, topic, reason, "failure rate over the threshold");
                }
                warn!(sink, topic, circuit = circuit.word(), reason, "circuit changed");
            }
            Step::Full(true) => {
                warn!(
                    "too much is parked: nothing further is read until a held key is revived, buried or pruned; `postrider status` names it"
                );
            }
            Step::Full(false) => warn!("there is room for what is parked again: reading on"),
            Step::WaitsForCommits(waits) => debug!(waits, "nothing is left but ids that may still commit"),
            Step::WaitsForOthers(waits) => debug!(waits, "nothing is left but what is in other hands"),
            Step::Halted { sink, at } => warn!(sink, at = %logged(at), "batch stopped by an open circuit"),
            Step::Overdue { sink, entries } => {
                warn!(sink, entries, "no answer before the publish deadline; they are sent again");
            }
            Step::Standby(true) if self.awaited => {
                note("Another relay holds the lease: waiting until it has emptied the outbox, ends or dies.");
            }
            Step::Standby(true) => info!("another relay holds the lease: standing by"),
            Step::Standby(false) => info!("this relay holds the lease"),
            Step::Fenced { entries } => warn!(entries, "a claim was lost to another relay"),
            Step::SourceAway { error, .. } => self.away(error),
            Step::SourceBack => self.back(),
        }
    }
}

fn refused(id: &EntryId, sink: &str, topic: &str, refusal: &Refusal, settlement: &Settlement) {
    let (id, topic) = (|| logged(id), || logged(topic));
    let reason = || shown(refusal.reason().0, limits::REASON_CHARS_MAX);
    match settlement {
        Settlement::Retried { retries, after, .. } => {
            warn!(id = %id(), sink, topic = topic(), attempt = retries, ?after, reason = reason(), "failed try, to be retried");
        }
        Settlement::Dead { .. } => {
            debug!(id = %id(), sink, topic = topic(), reason = reason(), "refused for good")
        }
        _ => debug!(id = %id(), sink, topic = topic(), reason = reason(), "not published yet"),
    }
}

/// Stderr without secrets.
struct Scrubbed;

impl Write for Scrubbed {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(scrub(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
