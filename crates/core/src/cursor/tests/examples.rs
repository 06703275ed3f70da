use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{entry, kind_name};
use crate::cursor::{Cursor, Exception, Offer, Saved, Settings, Shelf};
use crate::layout::RetryRuns;
use crate::route::{Destination, Gate, Holds, Router};
use crate::verdict::Reason;
use crate::{Entry, Settlement};

const NOON: Timestamp = Timestamp::UNIX_EPOCH;

/// Rows 1, 2, 3 … with these keys, all of one kind unless it says otherwise.
fn rows(keys: &[u8]) -> Vec<(i64, Entry)> {
    (1..).zip(keys).map(|(id, key)| (id, entry(id, *key, 0))).collect()
}

/// One claim over a table; what it handed out.
fn claim(cursor: &mut Cursor, table: &[(i64, Entry)], holds: &Holds, now: Timestamp) -> (u64, Vec<i64>) {
    let router = Router::new(vec![], "sink", "{type}");
    let mut gate = Gate::new(holds, &router);
    let reading = cursor.reading(now, 1_000, &gate, None);
    let of_range = |id: i64| reading.ranges.iter().any(|range| (range.first..=range.last).contains(&id));
    let wanted = |id: i64| id > reading.after || reading.ids.contains(&id) || of_range(id);
    let read: Vec<_> = table.iter().filter(|(id, _)| wanted(*id)).collect();
    let number = cursor.open_claim();
    let mut scan = cursor.scan(number, reading, &mut gate);
    let (mut taken, mut complete) = (Vec::new(), true);
    for (id, entry) in read {
        match scan.offer(*id, entry) {
            Offer::Take { .. } => taken.push(*id),
            Offer::Pass => {}
            Offer::Stop => {
                complete = false;
                break;
            }
        }
    }
    scan.finish(complete);
    (number, taken)
}

fn fresh() -> Cursor {
    Cursor::load(Saved::default(), Settings { gaps: false, ..Settings::default() })
}

#[test]
fn a_batch_that_went_through_costs_one_number() {
    let mut cursor = fresh();
    let table = rows(&[1, 2, 1]);
    let (number, taken) = claim(&mut cursor, &table, &Holds::default(), NOON);
    assert_eq!(taken, [1, 2, 3]);
    cursor.settle(number, NOON, [(3, &Settlement::Published)]);
    assert_eq!(cursor.write(), None, "the position waits for the first");
    cursor.settle(number, NOON, [(1, &Settlement::Published), (2, &Settlement::Published)]);
    let write = cursor.write().unwrap();
    assert_eq!((write.position, write.upserts.len(), write.deletes.len()), (3, 0, 0));
    assert!(write.gaps.is_none() && write.ranges.is_none());
}

/// SRC-13: the cursor stays before what was never attempted.
#[test]
fn what_is_released_costs_no_write() {
    let mut cursor = fresh();
    let table = rows(&[1, 2, 3, 4]);
    let (number, taken) = claim(&mut cursor, &table, &Holds::default(), NOON);
    cursor.release(number);
    assert_eq!(cursor.write(), None);
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, taken);
}

/// F2: an outage of a topic is one line in the database, however much waits for it.
#[test]
fn a_topic_that_is_away_is_parked_as_one_range() {
    let mut cursor = fresh();
    let mut table = rows(&[1; 500]);
    table.push((501, entry(501, 2, 1)));
    let away = Destination { sink: "sink".into(), topic: kind_name(0) };
    let holds = Holds { allowances: HashMap::from([(away, 0)]), ..Holds::default() };
    let (number, taken) = claim(&mut cursor, &table, &holds, NOON);
    assert_eq!(taken, [501]);
    cursor.settle(number, NOON, [(501, &Settlement::Published)]);
    let write = cursor.write().unwrap();
    assert_eq!((write.position, write.upserts.len()), (501, 0));
    assert_eq!(write.ranges.as_deref().map(|ranges| ranges[0].first), Some(1));
    cursor.applied(write);
    let (number, taken) = claim(&mut cursor, &table[..500], &Holds::default(), NOON);
    assert_eq!(taken, (1..=500).collect::<Vec<_>>());
    let published: Vec<_> = taken.iter().map(|id| (*id, &Settlement::Published)).collect();
    cursor.settle(number, NOON, published);
    claim(&mut cursor, &[], &Holds::default(), NOON);
    assert_eq!(cursor.write().unwrap().ranges, Some(vec![]), "and it leaves nothing behind");
}

/// F2: what was tried when a topic went away stands before every key; what comes behind it is the topic's range all the same,
/// however much it is, while it is away and while it is tried, and goes out in order.
#[test]
fn rows_behind_what_an_outage_left_are_one_range() {
    let settings = Settings { gaps: false, exceptions_max: 10, ..Settings::default() };
    let mut cursor = Cursor::load(Saved::default(), settings);
    let keys: Vec<u8> = (0..5).cycle().take(500).collect();
    let mut table = rows(&keys);
    let (number, taken) = claim(&mut cursor, &table[..5], &Holds::default(), NOON);
    let away = Settlement::Postponed { after: Duration::ZERO, reason: Reason::new("away") };
    cursor.settle(number, NOON, taken.iter().map(|id| (*id, &away)));
    table.push((501, entry(501, 9, 1)));
    let topic = || Destination { sink: "sink".into(), topic: kind_name(0) };
    let allowed = |most| Holds { allowances: HashMap::from([(topic(), most)]), ..Holds::default() };
    let (number, taken) = claim(&mut cursor, &table, &allowed(0), NOON);
    assert_eq!(taken, [501], "the other topic flows on");
    cursor.settle(number, NOON, [(501, &Settlement::Published)]);
    for _ in 0..3 {
        let (number, taken) = claim(&mut cursor, &table, &allowed(3), NOON);
        assert_eq!(taken, [1, 2, 3], "the trials");
        cursor.settle(number, NOON, taken.iter().map(|id| (*id, &away)));
    }
    let write = cursor.write().unwrap();
    assert_eq!((write.position, write.upserts.len()), (501, 5));
    assert_eq!(write.ranges.as_deref().map(|ranges| ranges[0].first), Some(6));
    assert!(!cursor.idle(NOON).full);
    let (_, taken) = claim(&mut cursor, &table, &Holds::default(), NOON);
    assert_eq!(taken, (1..=500).collect::<Vec<_>>());
}

/// B7, B8: while the only sink is tried, and what it left waits for the next run of the retries, nothing is read further:
/// neither parked one by one, nor passed by.
#[test]
fn while_the_sink_is_tried_nothing_is_read_behind_what_it_left() {
    let every = Duration::from_secs(5);
    let runs = RetryRuns { every, entries: 1 };
    let settings = Settings { gaps: false, retry_runs: Some(runs), ..Settings::default() };
    let mut cursor = Cursor::load(Saved::default(), settings);
    let table = rows(&[1, 2, 3, 2, 1, 3]);
    let (number, _) = claim(&mut cursor, &table[..2], &Holds::default(), NOON);
    let away = Settlement::Postponed { after: Duration::ZERO, reason: Reason::new("away") };
    cursor.settle(number, NOON, [(1, &away), (2, &away)]);
    let trial = Holds { all_on_trial: true, ..Holds::default() };
    let (number, taken) = claim(&mut cursor, &table, &trial, NOON);
    assert_eq!(taken, [1, 3], "the first run, and a key that is free");
    assert!(cursor.idle(NOON).due, "the second waits for its run");
    cursor.settle(number, NOON, [(1, &Settlement::Published), (3, &Settlement::Published)]);
    let write = cursor.write().unwrap();
    assert_eq!((write.position, write.upserts.len()), (3, 1), "{write:?}");
    assert!(!cursor.idle(NOON).full);
    let (_, taken) = claim(&mut cursor, &table, &trial, NOON + every);
    assert_eq!(taken, [2, 4, 5, 6]);
    assert!(!cursor.idle(NOON + every).due);
}

/// B6: later rows of a key that waits are parked by id, written with the cursor.
#[test]
fn later_rows_of_a_waiting_key_are_parked_with_the_position() {
    let mut cursor = fresh();
    let mut table = rows(&[1, 2]);
    let (number, _) = claim(&mut cursor, &table, &Holds::default(), NOON);
    let after = Duration::from_secs(60);
    let failed = Settlement::Retried { retries: 1, after, reason: Reason::new("no") };
    cursor.settle(number, NOON, [(1, &failed), (2, &Settlement::Published)]);
    table.push((3, entry(3, 1, 0)));
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, [0; 0]);
    let write = cursor.write().unwrap();
    let shelves: Vec<_> = write.upserts.iter().map(|exception| (exception.id, exception.shelf)).collect();
    assert_eq!(shelves, [(1, Shelf::Waiting { due: NOON + after }), (3, Shelf::Parked)]);
    assert_eq!(write.position, 3);
    assert_eq!(cursor.idle(NOON).due_in, Some(after));
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON + after).1, [1, 3]);
}

/// B8: every 5 s, so many retries that are due and no more; the rest waits for the next run.
#[test]
fn retries_are_a_job_of_their_own() {
    let every = Duration::from_secs(5);
    let runs = RetryRuns { every, entries: 2 };
    let settings = Settings { gaps: false, retry_runs: Some(runs), ..Settings::default() };
    let mut cursor = Cursor::load(Saved::default(), settings);
    let mut table = rows(&[1, 2, 3]);
    let (number, _) = claim(&mut cursor, &table, &Holds::default(), NOON);
    let failed = Settlement::Retried { retries: 1, after: Duration::ZERO, reason: Reason::new("no") };
    cursor.settle(number, NOON, [(1, &failed), (2, &failed), (3, &failed)]);
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, [1, 2]);
    table.push((4, entry(4, 4, 0)));
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, [4], "new rows wait for no run");
    assert_eq!(cursor.idle(NOON).due_in, Some(every));
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON + every).1, [3]);
}

/// SRC-10: a write whose reply was lost is made again, the same.
#[test]
fn a_write_that_failed_is_made_again() {
    let mut cursor = fresh();
    let (number, _) = claim(&mut cursor, &rows(&[1, 1]), &Holds::default(), NOON);
    let dead = Settlement::Dead { retries: 3, reason: Reason::new("no") };
    cursor.settle(number, NOON, [(1, &dead)]);
    let first = cursor.write().unwrap();
    cursor.settle(number, NOON + Duration::from_secs(9), [(1, &dead)]);
    let second = cursor.write().unwrap();
    assert_eq!((first.position, &first.upserts), (second.position, &second.upserts));
    cursor.applied(second);
    assert_eq!(cursor.write(), None);
}

#[test]
fn ids_that_go_backwards_stop_the_relay() {
    let cursor = Cursor::load(Saved { position: 10, ..Saved::default() }, Settings::default());
    assert!(cursor.verify(10).is_ok());
    let broken = cursor.verify(9).unwrap_err().to_string();
    assert!(broken.contains("restored") && broken.contains("start ="), "{broken}");
}

/// STO-09: an operator's verb shows at the next reading, and what is not written yet wins.
#[test]
fn a_verb_shows_at_the_next_reading() {
    let dead = Exception { id: 1, key: None, shelf: Shelf::Dead, retries: 5, reason: None };
    let saved = Saved { position: 1, exceptions: vec![dead.clone()], ..Saved::default() };
    let mut cursor = Cursor::load(saved, Settings { gaps: false, ..Settings::default() });
    let table = rows(&[1]);
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, [0; 0]);
    cursor.reload(vec![Exception { shelf: Shelf::Parked, retries: 0, ..dead.clone() }]);
    let (number, taken) = claim(&mut cursor, &table, &Holds::default(), NOON);
    assert_eq!(taken, [1]);
    cursor.settle(number, NOON, [(1, &Settlement::Published)]);
    cursor.reload(vec![dead]);
    assert_eq!(cursor.write().unwrap().deletes, [1]);
}

/// STO-09: what a scan has parked and nobody has written is still the operator's to bury.
#[test]
fn a_row_that_a_scan_has_just_parked_can_be_buried() {
    let mut cursor = fresh();
    let table = rows(&[1, 1]);
    let (number, _) = claim(&mut cursor, &table[..1], &Holds::default(), NOON);
    let failed = Settlement::Postponed { after: Duration::from_secs(60), reason: Reason::new("no") };
    cursor.settle(number, NOON, [(1, &failed)]);
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), NOON).1, [0; 0], "the second is parked");
    let key = table[1].1.key.clone();
    let buried = Exception { id: 2, key, shelf: Shelf::Dead, retries: 0, reason: Some("by hand".into()) };
    cursor.reload(vec![buried.clone()]);
    let write = cursor.write().unwrap();
    assert!(write.upserts.iter().all(|exception| exception.id == 1 || *exception == buried), "{write:?}");
    cursor.applied(write);
    let later = NOON + Duration::from_secs(60);
    assert_eq!(claim(&mut cursor, &table, &Holds::default(), later).1, [1]);
}
