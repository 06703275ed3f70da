use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal};

use bytes::Bytes;
use postrider_core::append::Appended;
use postrider_core::envelope::Trace;
use postrider_core::{Envelope, Fault, Text, limits};
use serde::Serialize;
use uuid::{NoContext, Uuid};

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::human::count;
use crate::output::{data, json, note};
use crate::payload;
use crate::writer::{Rules, Writer};

/// Appends an event from a script; its payload is read from stdin.
///
/// Prints the event's id.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  echo '{\"total\": 42}' | postrider append --type shop.order.created.v1 --aggregate-type Order --aggregate-id 17
  postrider append --type shop.price.changed.v1 --aggregate-type Product --aggregate-id 3 --lines < prices.jsonl
With --lines all events are written in one transaction: all of them, or none.")]
pub(crate) struct Args {
    /// What happened.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,

    /// What kind of thing it happened to.
    #[arg(long, value_name = "TYPE")]
    aggregate_type: String,

    /// Which one it happened to.
    #[arg(long, value_name = "ID")]
    aggregate_id: String,

    /// What it stays in order with, when that is not the aggregate.
    #[arg(long)]
    key: Option<String>,

    /// The event's own id; by default a new UUID.
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    id: Option<String>,

    /// Who says so.
    #[arg(long, value_name = "URI", default_value = "/postrider/append")]
    source: String,

    /// Appends once, however often this is repeated with the same key.
    #[arg(long, value_name = "KEY", conflicts_with = "lines")]
    idempotency_key: Option<String>,

    /// The W3C trace context that the event belongs to.
    #[arg(long, value_name = "CONTEXT")]
    traceparent: Option<String>,

    /// What the payload is, when it is not JSON.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Takes each line of stdin as the payload of an event, and writes all in one transaction.
    #[arg(long)]
    lines: bool,

    /// Prints JSON, one object per event.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    id: String,
    event_id: &'a str,
    repeated: bool,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let mut writer = Writer::open(config).await?;
    if io::stdin().is_terminal() {
        note("Type the payload and end it with Ctrl-D.");
    }
    let mut script = Script { args, clock, stdin: io::stdin().lock(), line: 0 };
    let appended =
        if args.lines { script.lines(&mut writer).await? } else { script.one(&mut writer).await? };
    for appended in &appended {
        let line =
            Line { id: appended.id.to_string(), event_id: &appended.event_id, repeated: appended.repeated };
        if args.json { json(&line)? } else { data(&format!("{}\n", appended.event_id))? }
    }
    Ok(())
}

/// What a script gives: arguments, and payloads on stdin.
struct Script<'a, R> {
    args: &'a Args,
    clock: &'a SharedClock,
    stdin: R,
    /// Lines read so far.
    line: u64,
}

impl<R: BufRead> Script<'_, R> {
    async fn one(&mut self, writer: &mut Writer) -> Result<Vec<Appended>, Failure> {
        let here = |fault| refused("stdin", fault);
        let payload = payload::whole(&mut self.stdin, writer.payload_bytes_max).map_err(here)?;
        let envelope = self.envelope(payload);
        writer.accept(&envelope).map_err(here)?;
        match &self.args.idempotency_key {
            Some(key) => Ok(vec![writer.append_once(&envelope, key).await?]),
            None => writer.append_all(&[envelope]).await,
        }
    }

    /// Reads everything before it writes anything: whoever waits for stdin must not keep the other writers waiting.
    async fn lines(&mut self, writer: &mut Writer) -> Result<Vec<Appended>, Failure> {
        let envelopes = self.read_lines(writer)?;
        if envelopes.is_empty() {
            note("Nothing was appended: stdin has no line.");
            return Ok(Vec::new());
        }
        writer.append_all(&envelopes).await
    }

    fn read_lines(&mut self, rules: &Rules) -> Result<Vec<Envelope>, Failure> {
        let (mut envelopes, mut bytes) = (Vec::new(), 0);
        loop {
            self.line += 1;
            let here = |fault| refused(&format!("stdin:{}", self.line), fault);
            let Some(payload) = payload::line(&mut self.stdin, rules.payload_bytes_max).map_err(here)? else {
                return Ok(envelopes);
            };
            if payload.is_empty() {
                continue;
            }
            bytes += payload.len();
            if envelopes.len() == limits::APPEND_ENTRIES_MAX || bytes > limits::APPEND_BYTES_MAX {
                return Err(here(too_many()));
            }
            let envelope = self.envelope(payload);
            rules.accept(&envelope).map_err(here)?;
            envelopes.push(envelope);
        }
    }

    fn envelope(&self, payload: Vec<u8>) -> Envelope {
        let (args, time) = (self.args, self.clock.now());
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        let nanos = u32::try_from(time.subsec_nanosecond()).unwrap_or(0);
        let id = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, nanos));
        let text = |text: &String| Text::from(text.as_str());
        Envelope {
            id: args.id.as_ref().map_or_else(|| Text::from(id.to_string()), text),
            source: text(&args.source),
            event_type: text(&args.event_type),
            time,
            content_type: args.content_type.as_ref().map(text),
            aggregate_type: text(&args.aggregate_type),
            aggregate_id: text(&args.aggregate_id),
            partition_key: args.key.as_ref().map(text),
            sequence: None,
            trace: args.traceparent.as_ref().map(|parent| Trace { parent: text(parent), state: None }),
            extensions: BTreeMap::new(),
            data: Bytes::from(payload),
        }
    }
}

fn refused(place: &str, fault: Fault) -> Failure {
    Failure::usage(format!("{place}: {}", fault.place), fault.problem, fault.remedy)
}

fn too_many() -> Fault {
    let (events, bytes) = (limits::APPEND_ENTRIES_MAX, limits::APPEND_BYTES_MAX);
    Fault::new(
        "--lines",
        format!(
            "one transaction takes at most {} events with {} bytes of payload, and nothing was written",
            count(events as u64),
            count(bytes as u64)
        ),
        format!("Split the input, for example with `split -l {events}`, and append each part by itself"),
    )
}
