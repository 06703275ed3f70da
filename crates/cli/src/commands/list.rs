use jiff::Timestamp;
use postrider_core::store::Listed;
use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::filter::FilterArgs;
use crate::output::{data, json, note};
use crate::{human, outbox, table};

/// So many lines without `--limit`: a screen or two, not a table with a million entries.
const LIMIT: u64 = 100;

/// Lists entries, oldest first.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider list                                what is in the outbox
  postrider list --state dead                   what was given up
  postrider list --state unknown                what has a status that is none of the layout's words
  postrider list --type 'shop.order.*' --older-than 5m
  postrider list --key 17 --json | jq .id       one JSON object per line")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,

    /// Prints JSON, one object per line.
    #[arg(long)]
    json: bool,
}

/// One entry as `--json` shows it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    id: String,
    event_id: &'a str,
    r#type: &'a str,
    key: Option<String>,
    state: &'static str,
    retries: u32,
    time: Option<String>,
    not_before: Option<String>,
    error: Option<&'a str>,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let mut filter = args.filter.filter();
    let limit = *filter.limit.get_or_insert(LIMIT);
    let listed = outbox::store(config, clock).await?.list(&filter).await?;
    if args.json {
        listed.iter().try_for_each(|listed| json(&line(listed)))?;
    } else if listed.is_empty() {
        note("No entry matches.");
    } else {
        data(&text(&listed, clock.now()))?;
    }
    if listed.len() as u64 == limit && args.filter.limit.is_none() {
        note(&format!("These are the first {limit}; --limit shows more."));
    }
    Ok(())
}

pub(crate) fn line(listed: &Listed) -> Line<'_> {
    Line {
        id: listed.id.to_string(),
        event_id: &listed.event_id,
        r#type: &listed.event_type,
        key: listed.key.as_ref().map(ToString::to_string),
        state: listed.state.word(),
        retries: listed.retries,
        time: listed.time.map(|time| time.to_string()),
        not_before: listed.not_before.map(|time| time.to_string()),
        error: listed.error.as_deref(),
    }
}

fn text(listed: &[Listed], now: Timestamp) -> String {
    let rows: Vec<[String; 7]> = listed
        .iter()
        .map(|entry| {
            [
                entry.id.to_string(),
                entry.state.word().to_owned(),
                entry.event_type.to_string(),
                entry.key.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                entry.time.map_or_else(|| "-".to_owned(), |time| human::span(human::age(time, now))),
                entry.retries.to_string(),
                entry.error.as_deref().unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    table::table(["ID", "STATE", "TYPE", "KEY", "AGE", "RETRIES", "ERROR"], &rows)
}
