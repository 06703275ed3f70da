//! Quiet in normal running (B18): what goes wrong is a WARN, what is given up an ERROR, each step a DEBUG.

use std::io::{self, Write};

use postrider_core::{EntryId, Refusal, Settlement, limits};
use postrider_relay::{Observer, Step};
use tracing::{debug, error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::config::secret::scrub;
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
    pub(crate) awaited: bool,
}

impl Observer for Steps {
    fn saw(&self, step: &Step<'_>) {
        match step {
            Step::Claimed { entries, bytes_held } => debug!(entries, bytes_held, "claimed"),
            Step::Settled { entries } => debug!(entries, "settled"),
            Step::Published { entry, to } => {
                let (id, event) = (&entry.id, &entry.envelope.id);
                debug!(id = %logged(id), event = %logged(event), sink = %to.sink, topic = %logged(&to.topic), "published");
            }
            Step::Refused { entry, to, refusal, settlement } => {
                refused(&entry.id, &to.sink, &to.topic, refusal, settlement);
            }
            Step::Buried { entry, reason } => {
                let (event, r#type) = (&entry.envelope.id, &entry.envelope.event_type);
                let reason = shown(reason, limits::REASON_CHARS_MAX);
                error!(id = %logged(&entry.id), event = %logged(event), r#type = %logged(r#type), reason, "dead: given up until it is revived");
            }
            Step::Circuit { sink, topic, circuit, reason } => {
                // A field that is none is left away.
                let topic = topic.map(logged);
                let reason = reason.map(|reason| shown(reason, limits::REASON_CHARS_MAX));
                warn!(sink, topic, circuit = circuit.word(), reason, "circuit changed");
            }
            Step::Full(true) => {
                warn!(
                    "too much is parked: nothing further is read until a held key is revived, buried or pruned; `postrider status` names it"
                );
            }
            Step::Full(false) => warn!("there is room for what is parked again: reading on"),
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
            Step::SourceAway { error, again_in } => {
                warn!(error = %shown(error, limits::REASON_CHARS_MAX), ?again_in, "the database does not answer")
            }
            Step::SourceBack => warn!("the database answers again"),
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
