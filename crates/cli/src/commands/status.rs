use jiff::Timestamp;
use postrider_core::layout::Order;
use postrider_core::report::Reported;
use postrider_core::store::Depth;
use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::human::{self, count};
use crate::output::{data, json};
use crate::{layout, outbox, relays, table};

/// Shows how much waits in the outbox, since when, who relays it, how fast, and what stands in the way.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider status
  postrider status --json | jq .pending
  postrider status --json | jq '.relays[].events_per_second'
  watch -n 1 postrider status")]
pub(crate) struct Args {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Depth as `--json` shows it; its names are stable.
#[derive(Serialize)]
pub(crate) struct Status<'a> {
    outbox: String,
    layout: &'a str,
    pending: u64,
    waiting: u64,
    parked: u64,
    leased: u64,
    dead: u64,
    published: u64,
    unknown: u64,
    gaps_open: u64,
    gap_writers: &'a [String],
    oldest: Option<String>,
    oldest_age_seconds: Option<f64>,
    holder: Option<&'a str>,
    culprit: Option<Culprit>,
    relays: Vec<relays::Line<'a>>,
}

#[derive(Serialize)]
struct Culprit {
    key: String,
    held_back: u64,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let store = outbox::store(config, clock).await?;
    let order = layout::load(config)?.order;
    let (depth, reports) = (store.depth().await?, store.reports().await?);
    let now = clock.now();
    if args.json {
        json(&status(config, &depth, &reports, now))
    } else {
        data(&text(config, order, &depth, &reports, now))
    }
}

fn status<'a>(config: &'a Config, depth: &'a Depth, reports: &'a [Reported], now: Timestamp) -> Status<'a> {
    let open = depth.pending + depth.waiting + depth.parked + depth.leased;
    let oldest = depth.oldest.filter(|_| open > 0);
    Status {
        outbox: config.outbox.url.to_string(),
        layout: &config.outbox.layout,
        pending: depth.pending,
        waiting: depth.waiting,
        parked: depth.parked,
        leased: depth.leased,
        dead: depth.dead,
        published: depth.published,
        unknown: depth.unknown,
        gaps_open: depth.gaps_open,
        gap_writers: &depth.gap_writers,
        oldest: oldest.map(|oldest| oldest.to_string()),
        oldest_age_seconds: oldest.map(|oldest| human::age(oldest, now).as_secs_f64()),
        holder: depth.holder.as_deref(),
        culprit: depth
            .culprit
            .as_ref()
            .map(|(key, held_back)| Culprit { key: key.to_string(), held_back: *held_back }),
        relays: relays::lines(reports),
    }
}

fn text(config: &Config, order: Order, depth: &Depth, reports: &[Reported], now: Timestamp) -> String {
    let oldest = depth.oldest.filter(|_| depth.pending > 0);
    let oldest = oldest.map(|oldest| format!("  (oldest {})", human::span(human::age(oldest, now))));
    let mut pairs = vec![
        ("outbox", format!("{} (layout {})", config.outbox.url, config.outbox.layout)),
        ("pending", count(depth.pending) + &oldest.unwrap_or_default()),
    ];
    let mut also = |name, number: u64, what: String| {
        if number > 0 {
            pairs.push((name, format!("{}  ({what})", count(number))));
        }
    };
    let behind = depth.culprit.as_ref().map(|(key, held)| format!("; {} behind {key}", count(*held)));
    also("waiting", depth.waiting, "for their next try".to_owned());
    also("parked", depth.parked, format!("held back by their key or topic{}", behind.unwrap_or_default()));
    also("leased", depth.leased, "in a relay's hands".to_owned());
    let writers = depth.gap_writers.first().map(|writer| format!(": {writer}"));
    also("gaps", depth.gaps_open, format!("ids that may still commit{}", writers.unwrap_or_default()));
    also(
        "dead",
        depth.dead,
        "`postrider list --state dead` shows them, `postrider revive` tries them again".to_owned(),
    );
    also(
        "unknown",
        depth.unknown,
        "their status is none of the layout's words: `postrider list --state unknown` shows them".to_owned(),
    );
    pairs.push(("published", count(depth.published)));
    pairs.extend(relays::pairs(depth.holder.as_deref(), order, depth.culprit.as_ref(), reports, now));
    table::pairs(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::Surroundings;

    /// What is dead or published has an age of its own, and is not what waits.
    #[test]
    fn where_nothing_is_pending_nothing_has_an_age() {
        let config = Config::parse("postrider.toml", "", &Surroundings).unwrap();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut depth = Depth { dead: 3, oldest: Some(Timestamp::UNIX_EPOCH), ..Depth::default() };
        assert!(!text(&config, Order::Key, &depth, &[], now).contains("oldest"));
        assert_eq!(status(&config, &depth, &[], now).oldest, None);
        depth.pending = 1;
        assert!(text(&config, Order::Key, &depth, &[], now).contains("pending    1  (oldest 11d 13h)"));
        assert!(status(&config, &depth, &[], now).oldest.is_some());
    }
}
