//! What cases do again and again, in short notation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::route::{Destination, Holds, Router};
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError};
use postrider_core::verdict::Reason;
use postrider_core::{Entry, EntryId, Envelope, Key, Settlement, Text};

use super::SourceHarness;

type ClaimOf<S> = Claim<<S as Source>::Hold>;

/// Events written down: `"a1 a2 b1@x"` are a1 and a2 of key a, and b1 of key b, which is of kind x.
pub(crate) fn envelopes<H: SourceHarness>(harness: &H, words: &str) -> Vec<Envelope> {
    let time = harness.clock().now();
    let envelope = |word: &str| {
        let (id, kind) = word.split_once('@').unwrap_or((word, "letter"));
        Envelope {
            id: id.to_owned().into(),
            source: "/conformance".into(),
            event_type: event_type(kind),
            time,
            content_type: None,
            aggregate_type: "Letter".into(),
            aggregate_id: id[..1].to_owned().into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: BTreeMap::new(),
            data: Bytes::from(format!("{{\"says\":\"{id}\"}}")),
        }
    };
    words.split_whitespace().map(envelope).collect()
}

pub(crate) fn event_type(kind: &str) -> Text {
    Text::from(format!("acme.{kind}.written.v1"))
}

pub(crate) async fn append<H: SourceHarness>(harness: &H, words: &str) -> Vec<EntryId> {
    harness.append(envelopes(harness, words)).await
}

/// Asks for everything.
pub(crate) fn ask() -> Ask {
    let router = Arc::new(Router::new(vec![], "sink", "{type}"));
    Ask { entries_max: 100, bytes_max: 1 << 20, holds: Arc::default(), router }
}

pub(crate) fn ask_for(entries_max: usize) -> Ask {
    Ask { entries_max, ..ask() }
}

pub(crate) fn holding_key(key: &str) -> Ask {
    let keys = [Key::new("Letter", key.to_owned())].into();
    Ask { holds: Arc::new(Holds { keys, ..Holds::default() }), ..ask() }
}

/// Only so many of a kind may pass.
pub(crate) fn allowing(kind: &str, most: u32) -> Ask {
    let to = Destination { sink: "sink".into(), topic: event_type(kind) };
    let allowances = HashMap::from([(to, most)]);
    Ask { holds: Arc::new(Holds { allowances, ..Holds::default() }), ..ask() }
}

/// One claim, asked for until it is clear that there is something or nothing.
pub(crate) async fn claim<S: Source>(source: &S, ask: &Ask) -> Option<ClaimOf<S>> {
    const ENOUGH: usize = 1_000;
    for _ in 0..ENOUGH {
        match source.claim(ask).await.expect("nothing is wrong") {
            Claimed::Batch(claim) => {
                assert!(!claim.entries.is_empty(), "a claim brings something");
                return Some(claim);
            }
            Claimed::Nothing(idle) if idle.more => {}
            Claimed::Nothing(_) | Claimed::Standby => return None,
        }
    }
    panic!("there is always more and never anything")
}

/// One claim that brings something.
pub(crate) async fn take<S: Source>(source: &S) -> ClaimOf<S> {
    claim(source, &ask()).await.expect("there is something to claim")
}

/// Asserts that nothing is to be had.
pub(crate) async fn assert_nothing<S: Source>(source: &S, why: &str) {
    if let Some(claim) = claim(source, &ask()).await {
        panic!("{why}, and got {:?}", ids(&claim.entries));
    }
}

/// Settles a whole claim and ends it.
pub(crate) async fn settle_all<S: Source>(
    source: &S,
    claim: ClaimOf<S>,
    settlement: impl Fn(&str) -> Settlement,
) -> Result<(), SourceError> {
    let Claim { mut hold, entries, .. } = claim;
    let settlements: Vec<_> =
        entries.iter().map(|entry| settlement(&entry.envelope.id)).enumerate().collect();
    source.settle(&mut hold, &settlements).await?;
    source.release(hold).await
}

/// Publishes a whole claim.
pub(crate) async fn publish<S: Source>(source: &S, claim: ClaimOf<S>) {
    settle_all(source, claim, |_| Settlement::Published).await.expect("nothing is wrong");
}

/// Publishes everything there is, claim by claim, and says what came.
pub(crate) async fn drain<S: Source>(source: &S, ask: &Ask) -> Vec<String> {
    let mut came = Vec::new();
    while let Some(claim) = claim(source, ask).await {
        came.extend(ids(&claim.entries));
        publish(source, claim).await;
    }
    came
}

/// Kills a holder and lets its lease run out.
pub(crate) async fn kill<H: SourceHarness>(harness: &H, source: H::Source) {
    let lease_ttl = source.features().lease_ttl;
    harness.kill(source).await;
    harness.pass(lease_ttl + Duration::from_millis(1)).await;
}

pub(crate) fn ids(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.envelope.id.to_string()).collect()
}

/// Of these ids, those of one key.
pub(crate) fn of_key(ids: &[String], key: &str) -> Vec<String> {
    ids.iter().filter(|id| id.starts_with(key)).cloned().collect()
}

pub(crate) fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

pub(crate) fn retried(retries: u32, after: Duration) -> Settlement {
    Settlement::Retried { retries, after, reason: reason() }
}

pub(crate) fn postponed(after: Duration) -> Settlement {
    Settlement::Postponed { after, reason: reason() }
}

pub(crate) fn dead() -> Settlement {
    Settlement::Dead { retries: 0, reason: reason() }
}

pub(crate) fn reason() -> Reason {
    Reason::new("the broker said no")
}

/// Longer than any lease, so that a takeover does not make anything due.
pub(crate) fn long<S: Source>(source: &S) -> Duration {
    source.features().lease_ttl * 10
}

/// The cases in a file, in order.
#[cfg(test)]
pub(crate) fn cases(file: &str) -> Vec<String> {
    let name = |line: &str| line.strip_prefix("pub async fn ")?.split(['<', '(']).next().map(str::to_owned);
    file.lines().filter_map(name).collect()
}
