use jiff::Timestamp;
use postrider_core::store::Shown;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{SharedClock, list};
use crate::config::Config;
use crate::exit::Failure;
use crate::filter::entry_id;
use crate::output::{data, json};
use crate::{human, outbox, table};

/// Shows one entry with its history.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider show 17
  postrider show 17 --payload | jq .            the payload alone, as it was written
  postrider show 17 --json
  postrider show 0198c0de-7a11-7000-8000-000000000000      the event's id will do, too")]
pub(crate) struct Args {
    /// The entry's id, as `postrider list` shows it, or its event's.
    #[arg(value_name = "ID")]
    id: String,

    /// Prints the payload alone.
    #[arg(long, conflicts_with = "json")]
    payload: bool,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    line: list::Line<'a>,
    source: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    content_type: &'a str,
    traceparent: Option<&'a str>,
    sequence: Option<i64>,
    holder: Option<&'a str>,
    published_at: Option<String>,
    flaw: Option<&'a str>,
    payload_bytes: usize,
    payload: Option<&'a RawValue>,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let shown = outbox::store(config, clock).await?.show(&entry_id(&args.id)).await?.ok_or_else(|| {
        Failure::failed(
            format!("entry {}", args.id),
            "there is none with this id",
            "`postrider list` shows the ids; a published one may have been pruned",
        )
    })?;
    if args.payload {
        return data(&(String::from_utf8_lossy(&shown.entry.envelope.data) + "\n"));
    }
    if args.json { json(&whole(&shown)) } else { data(&text(&shown, clock.now())) }
}

fn whole(shown: &Shown) -> Whole<'_> {
    let envelope = &shown.entry.envelope;
    let payload = if envelope.is_json() { serde_json::from_slice(&envelope.data).ok() } else { None };
    Whole {
        line: list::line(&shown.listed),
        source: &envelope.source,
        aggregate_type: &envelope.aggregate_type,
        aggregate_id: &envelope.aggregate_id,
        content_type: envelope.content_type(),
        traceparent: envelope.trace.as_ref().map(|trace| &*trace.parent),
        sequence: envelope.sequence,
        holder: shown.holder.as_deref(),
        published_at: shown.published_at.map(|time| time.to_string()),
        flaw: shown.entry.flaw.as_ref().map(|flaw| flaw.0.as_str()),
        payload_bytes: envelope.data.len(),
        payload,
    }
}

fn text(shown: &Shown, now: Timestamp) -> String {
    let (listed, envelope) = (&shown.listed, &shown.entry.envelope);
    let ago = |time| format!("{time} ({} ago)", human::span(human::age(time, now)));
    let mut pairs = vec![
        ("entry", listed.id.to_string()),
        ("state", listed.state.word().to_owned()),
        ("event", listed.event_id.to_string()),
        ("type", listed.event_type.to_string()),
        ("source", envelope.source.to_string()),
        ("aggregate", format!("{} {}", envelope.aggregate_type, envelope.aggregate_id)),
    ];
    let mut also = |name, value: Option<String>| pairs.extend(value.map(|value| (name, value)));
    also("key", listed.key.as_ref().map(ToString::to_string));
    also("sequence", envelope.sequence.map(|number| number.to_string()));
    also("traceparent", envelope.trace.as_ref().map(|trace| trace.parent.to_string()));
    also("written", listed.time.map(ago));
    also("retries", (listed.retries > 0).then(|| listed.retries.to_string()));
    also("not before", listed.not_before.map(|time| time.to_string()));
    also("error", listed.error.as_ref().map(ToString::to_string));
    also("flaw", shown.entry.flaw.as_ref().map(|flaw| flaw.0.clone()));
    also("holder", shown.holder.as_ref().map(ToString::to_string));
    also("published", shown.published_at.map(ago));
    let bytes = human::count(envelope.data.len() as u64);
    also("payload", Some(format!("{bytes} bytes of {} (--payload prints it)", envelope.content_type())));
    table::pairs(&pairs)
}
