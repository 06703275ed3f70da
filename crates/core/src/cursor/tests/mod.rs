mod examples;
mod ops;
mod world;

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::Settings;
use crate::{Entry, Envelope, Key, Text};
use ops::{Op, ops};
use world::World;

const KEYS: u8 = 4;
const KINDS: u8 = 3;

fn kind_name(kind: u8) -> Text {
    Text::from(format!("kind{kind}"))
}

fn entry(id: i64, key: u8, kind: u8) -> Entry {
    let envelope = Envelope {
        id: Text::from(id.to_string()),
        source: Text::from_static("/test"),
        event_type: kind_name(kind),
        time: Timestamp::UNIX_EPOCH,
        content_type: None,
        aggregate_type: Text::from_static("Order"),
        aggregate_id: Text::from(key.to_string()),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: bytes::Bytes::new(),
    };
    let key = Some(Key::new("Order", key.to_string()));
    Entry { id: id.into(), envelope, key, retries: 0, retries_max: None, flaw: None }
}

/// `POSTRIDER_CASES` sets how many, for a soak.
fn cases() -> u32 {
    std::env::var("POSTRIDER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

fn run(settings: Settings, one_kind_per_key: bool, ops: Vec<Op>) {
    let mut world = World::new(settings, one_kind_per_key);
    for op in ops {
        world.step(op);
    }
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// F8, SRC-01, SRC-03, SRC-04, SRC-05, SRC-06: nothing lost, each key in order, no duplicate without a crash.
    #[test]
    fn nothing_is_lost_repeated_or_overtaken(ops in ops(true), hold_dead in any::<bool>(), gaps in any::<bool>()) {
        run(Settings { hold_dead, gaps, ..Settings::default() }, true, ops);
    }

    /// A key whose events go to several topics keeps its order within each of them.
    #[test]
    fn a_broken_topic_holds_back_what_goes_there_only(ops in ops(false), hold_dead in any::<bool>()) {
        run(Settings { hold_dead, ..Settings::default() }, false, ops);
    }

    /// At its limits the cursor stops reading on; nothing is lost, and it goes on when there is room again.
    #[test]
    fn limits_stop_the_reading_and_lose_nothing(
        ops in ops(false), hold_dead in any::<bool>(), exceptions_max in 1..5_usize, ranges_max in 1..3_usize,
        gaps_max in 1..3_usize,
    ) {
        let limits = Settings { exceptions_max, ranges_max, gaps_max, ..Settings::default() };
        run(Settings { hold_dead, gaps: true, ..limits }, false, ops);
    }
}
