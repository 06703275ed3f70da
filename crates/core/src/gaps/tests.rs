use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const NOON: Timestamp = Timestamp::UNIX_EPOCH;

fn owner(number: u64) -> Owner {
    Owner { name: Text::from_static("tx"), epoch: number }
}

fn check(ledger: &mut GapLedger, alive: &[u64]) -> Check {
    let look = ledger.look();
    ledger.check(look, alive.iter().map(|number| owner(*number)))
}

#[test]
fn a_gap_stays_open_while_an_owner_lives() {
    let mut ledger = GapLedger::default();
    ledger.note(5..=9);
    let first = check(&mut ledger, &[1, 2]);
    ledger.conclude(first, &[], i64::MAX, NOON);
    let second = check(&mut ledger, &[2, 3]);
    ledger.conclude(second, &[], i64::MAX, NOON);
    assert_eq!(ledger.saved(), [5..=9]);
    let third = check(&mut ledger, &[3]);
    ledger.conclude(third, &[7], i64::MAX, NOON);
    assert_eq!(ledger.saved(), [7..=7], "what the read showed is not closed");
}

#[test]
fn a_gap_noted_after_the_look_gets_no_owners_from_it() {
    let mut ledger = GapLedger::default();
    ledger.note(1..=1);
    let look = ledger.look();
    ledger.note(3..=3);
    let check = ledger.check(look, []);
    ledger.conclude(check, &[], i64::MAX, NOON);
    assert_eq!(ledger.saved(), [3..=3]);
}

#[test]
fn an_incomplete_read_closes_nothing_behind_its_end() {
    let mut ledger = GapLedger::default();
    ledger.note(1..=10);
    let check = check(&mut ledger, &[]);
    ledger.conclude(check, &[], 4, NOON);
    assert_eq!(ledger.saved(), [5..=10]);
}

#[test]
fn after_a_restart_owners_are_noted_anew() {
    let mut ledger = GapLedger::load([4..=4, 5..=6]);
    assert_eq!(ledger.saved(), [4..=6]);
    let again = check(&mut ledger, &[8]);
    ledger.conclude(again, &[], i64::MAX, NOON);
    assert_eq!((ledger.ids_open(), ledger.len()), (3, 1), "one range again once the owners are the same");
}

#[test]
fn a_closed_gap_is_read_again_four_times_and_a_late_row_is_counted() {
    let mut ledger = GapLedger::default();
    ledger.note(1..=3);
    let check = check(&mut ledger, &[]);
    ledger.conclude(check, &[], i64::MAX, NOON);
    let at = |seconds| NOON + Duration::from_secs(seconds);
    assert_eq!(ledger.asked(at(59)), []);
    for seconds in [60, 600, 3_600] {
        assert_eq!(ledger.asked(at(seconds)), [1..=3], "after {seconds} s");
        ledger.looked_again(at(seconds), i64::MAX);
        assert_eq!(ledger.asked(at(seconds)), []);
    }
    assert!(ledger.watches(2) && ledger.seen(2) && !ledger.watches(2));
    assert_eq!(ledger.late_after_close(), 1);
    assert_eq!(ledger.asked(at(86_400)), [1..=1, 3..=3]);
    ledger.looked_again(at(86_400), i64::MAX);
    assert_eq!(ledger.asked(at(1_000_000)), []);
}

/// What was given up outlives a restart; what was due meanwhile is looked at once, and what was found is not found again.
#[test]
fn a_closed_gap_is_watched_across_restarts() {
    let mut ledger = GapLedger::default();
    ledger.note(1..=5);
    let check = check(&mut ledger, &[]);
    ledger.conclude(check, &[], i64::MAX, NOON);
    assert_eq!(ledger.closed_changed().collect::<Vec<_>>(), [1]);
    let closed = ledger.closed_at(1).unwrap();
    assert_eq!(closed, ClosedGap { ids: 1..=5, at: NOON });
    let at = |seconds| NOON + Duration::from_secs(seconds);

    let mut next = GapLedger::default();
    next.watch([closed]);
    assert!(next.watches(3) && next.closed_changed().next().is_none(), "it is there already");
    assert_eq!(next.asked(at(700)), [1..=5], "two looks were missed");
    next.looked_again(at(700), i64::MAX);
    assert_eq!(next.asked(at(700)), [], "one makes up for both");
    assert_eq!(next.asked(at(3_600)), [1..=5]);
    assert!(next.seen(3));
    assert_eq!(next.closed_changed().collect::<Vec<_>>(), [1, 4]);
    let kept: Vec<_> = [1, 3, 4].into_iter().filter_map(|first| next.closed_at(first)).collect();
    assert_eq!(kept, [1..=2, 4..=5].map(|ids| ClosedGap { ids, at: NOON }));
    next.looked_again(at(90_000), i64::MAX);
    assert_eq!(next.closed_changed().collect::<Vec<_>>(), [1, 4], "and after a day they are gone");
    assert!(!next.watches(1) && next.closed_at(4).is_none());
}

#[derive(Clone, Debug)]
enum Step {
    Draw(u64),
    Commit(u64),
    RollBack(u64),
    Reader,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let writer = 0..5_u64;
    let step = prop_oneof![
        4 => writer.clone().prop_map(Step::Draw),
        2 => writer.clone().prop_map(Step::Commit),
        1 => writer.prop_map(Step::RollBack),
        8 => Just(Step::Reader),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

/// What a reader does between two of its statements.
enum Phase {
    Idle,
    Looked(Look),
    Asked(Look, Vec<Owner>),
    Checked(Check),
}

/// A naive database and a reader whose statements interleave with the writers' in any way.
struct World {
    ledger: GapLedger,
    phase: Phase,
    read: i64,
    saved: (i64, Vec<RangeInclusive<i64>>),
    next: i64,
    transactions: u64,
    open: BTreeMap<u64, (u64, Vec<i64>)>,
    committed: BTreeSet<i64>,
    seen: BTreeSet<i64>,
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Draw(writer) => {
                self.transactions += 1;
                let fresh = self.transactions;
                self.open.entry(writer).or_insert((fresh, Vec::new())).1.push(self.next);
                self.next += 1;
            }
            Step::Commit(writer) => {
                let ids = self.open.remove(&writer).map(|(_, ids)| ids);
                self.committed.extend(ids.into_iter().flatten());
            }
            Step::RollBack(writer) => drop(self.open.remove(&writer)),
            Step::Reader => self.read_on(),
            Step::Restart => {
                self.ledger = GapLedger::load(self.saved.1.clone());
                self.read = self.saved.0;
                self.phase = Phase::Idle;
            }
        }
    }

    fn read_on(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Phase::Looked(self.ledger.look()),
            Phase::Looked(look) => {
                Phase::Asked(look, self.open.values().map(|(number, _)| owner(*number)).collect())
            }
            Phase::Asked(look, alive) => Phase::Checked(self.ledger.check(look, alive)),
            Phase::Checked(check) => {
                self.read_rows(check);
                Phase::Idle
            }
        }
    }

    fn read_rows(&mut self, check: Check) {
        let asked = self.ledger.asked(NOON);
        let in_gap = |id: &i64| asked.iter().any(|gap| gap.contains(id));
        let rows: Vec<i64> =
            self.committed.iter().copied().filter(|id| in_gap(id) || *id > self.read).collect();
        for id in &rows {
            self.ledger.seen(*id);
            if *id > self.read {
                if *id > self.read + 1 {
                    self.ledger.note(self.read + 1..=id - 1);
                }
                self.read = *id;
            }
        }
        self.ledger.conclude(check, &rows, i64::MAX, NOON);
        self.seen.extend(rows);
        self.saved = (self.read, self.ledger.saved());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// SRC-03, B10: whatever the interleaving and however often the reader restarts, no committed id is lost.
    #[test]
    fn no_committed_id_is_lost(steps in steps()) {
        let mut world = World {
            ledger: GapLedger::default(), phase: Phase::Idle, read: 0, saved: (0, vec![]), next: 1, transactions: 0,
            open: BTreeMap::new(), committed: BTreeSet::new(), seen: BTreeSet::new(),
        };
        for step in steps {
            world.step(step);
        }
        for writer in 0..5 {
            world.step(Step::Commit(writer));
        }
        for _ in 0..16 {
            world.step(Step::Reader);
        }
        prop_assert_eq!(&world.seen, &world.committed);
        prop_assert_eq!(world.ledger.ids_open(), 0, "what was rolled back is closed in the end");
        prop_assert_eq!(world.ledger.late_after_close(), 0);
    }

    /// Noting, seeing and loading agree with a plain set of ids.
    #[test]
    fn ranges_behave_as_a_set_of_ids(
        steps in proptest::collection::vec((any::<bool>(), 0..40_i64, 0..6_i64), 1..60)
    ) {
        let (mut ledger, mut ids) = (GapLedger::default(), BTreeSet::new());
        for (note, first, len) in steps {
            if note {
                ledger.note(first..=first + len);
                ids.extend(first..=first + len);
            } else {
                prop_assert_eq!(ledger.seen(first), ids.remove(&first));
            }
            let _ = check(&mut ledger, &[1]);
            let open: BTreeSet<i64> = ledger.saved().into_iter().flatten().collect();
            prop_assert_eq!(&open, &ids);
            prop_assert_eq!(ledger.ids_open(), ids.len() as u64);
        }
    }
}
