//! Rows that came to be before the mark. Where order is kept, what comes later of their keys must not go before them.

use std::collections::{BTreeSet, HashSet};

use super::{Hands, Page, Rank};

/// Who may still write before the mark is asked so often.
const ASK_EVERY_US: i64 = 100_000;

/// Half of all transactions are older than any, by its 32 bits, and half are younger.
const HALF: i64 = 1 << 31;

/// What is asked after rows were looked at and before any is handed out: whether one came to be before them meanwhile. Whoever
/// was written later than that one was seen later, and so it is found.
///
/// Where ids are drawn by the INSERT, what nobody can write any more is not asked for again: at or below `sealed`, every row
/// that will ever exist was looked at, or is there to be looked at (MEASUREMENTS: whoever has drawn an id is listed among the
/// living transactions until its end is visible).
#[derive(Debug, Default)]
pub struct Watch {
    /// The oldest transaction that was under way when it was asked last: what older ones wrote was seen.
    since: Option<i64>,
    /// Versions that were seen, of those that are not older.
    known: HashSet<(String, i64)>,
    /// Rows that were looked at since it was asked last.
    seen: HashSet<String>,
    sealed: Option<i64>,
    noted: Option<Noted>,
    asked_us: Option<i64>,
}

/// An id that will be sealed when these transactions are gone.
#[derive(Debug)]
struct Noted {
    id: i64,
    at_us: i64,
    /// None as long as not all of them can be told.
    owners: Option<BTreeSet<String>>,
}

/// How a database tells its living transactions.
#[derive(Clone, Copy, Debug)]
pub struct Census {
    /// Whoever has drawn an id is sure to be listed so long after.
    pub grace_us: i64,
    /// Whether a name that was not known before may stand for any that was.
    pub is_renamed: fn(&str) -> bool,
    /// Another name that a transaction may bear by now.
    pub alias: fn(&str) -> Option<String>,
}

/// An open row at or before the mark.
#[derive(Debug)]
pub struct Written<F> {
    /// Its id.
    pub entry: String,
    /// The transaction that wrote it as it is; zero where the database does not tell.
    pub written_by: i64,
    /// Reads what it is ordered by before its id.
    pub leads: F,
}

/// What came to be before the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Late {
    /// Nothing that was not looked at.
    Nothing,
    /// The first of it; none where ranks do not compare on this side.
    From(Rank),
    /// It cannot be told, among so many that are as young: everything is to be looked at in one snapshot.
    Unknown,
}

impl Watch {
    /// Rows that one question may answer, and that are remembered between two.
    pub const ROWS_MAX: usize = 100_000;

    /// At a claim's beginning, before anything is looked at: the oldest transaction that is under way.
    pub fn begin(&mut self, oldest: i64) {
        self.since.get_or_insert(oldest);
    }

    /// Rows that were looked at.
    pub fn saw(&mut self, page: &Page) {
        let since = self.since();
        let young = page.seen.iter().filter(|(_, written_by)| is_as_young(*written_by, since));
        let room = Self::ROWS_MAX.saturating_sub(self.seen.len());
        self.seen.extend(young.map(|(entry, _)| entry.clone()).take(room));
    }

    /// Whether it is worth asking while there is nothing to hand out: until everything up to the mark is sealed.
    #[must_use]
    pub fn is_due(&self, mark: Option<&Rank>, now_us: i64) -> bool {
        mark.is_some_and(|mark| !self.is_sealed(mark)) && self.is_time(now_us)
    }

    /// Whether there is anything to ask for up to this row.
    pub fn asks_for(&mut self, up_to: &Rank) -> bool {
        let is_sealed = self.is_sealed(up_to);
        if is_sealed {
            self.seen.clear();
        }
        !is_sealed
    }

    /// Whether it is time to ask who may still write; then it is done now.
    pub fn asks_who(&mut self, now_us: i64) -> bool {
        let is_time = self.is_time(now_us);
        if is_time {
            self.asked_us = Some(now_us);
        }
        is_time
    }

    /// What older transactions than this one wrote was seen.
    #[must_use]
    pub fn since(&self) -> i64 {
        self.since.unwrap_or(0)
    }

    /// Nobody can write at or below this id any more.
    #[must_use]
    pub fn sealed(&self) -> Option<i64> {
        self.sealed
    }

    fn is_sealed(&self, rank: &Rank) -> bool {
        let id = rank.entry.parse::<i64>();
        self.sealed.is_some_and(|sealed| id.is_ok_and(|id| id <= sealed))
    }

    fn is_time(&self, now_us: i64) -> bool {
        self.asked_us.is_none_or(|at| now_us < at || now_us - at >= ASK_EVERY_US)
    }

    /// These transactions live, and an id has been drawn: the id up to which nobody can write any more. What is read after this
    /// shows all of it; if that finds nothing late, it is to be [sealed](Self::seal).
    #[must_use]
    pub fn note(&mut self, id: i64, owners: BTreeSet<String>, now_us: i64, census: &Census) -> Option<i64> {
        let fresh =
            |owners| Noted { id, at_us: now_us, owners: Some(owners).filter(|_| census.grace_us == 0) };
        let Some(mut noted) = self.noted.take() else {
            if owners.is_empty() && census.grace_us == 0 {
                return Some(id);
            }
            self.noted = Some(fresh(owners));
            return None;
        };
        let Some(waited_for) = &noted.owners else {
            if now_us < noted.at_us {
                // The clock went backwards: nobody knows how long it was.
                noted.at_us = now_us;
            } else if now_us - noted.at_us >= census.grace_us {
                noted.owners = Some(owners);
            }
            self.noted = Some(noted);
            return None;
        };
        // After a restart a prepared transaction goes by another name, which stands for any that was known before.
        if owners.iter().any(|name| (census.is_renamed)(name) && !waited_for.contains(name)) {
            self.noted = Some(fresh(owners));
            return None;
        }
        let lives = |name: &String| {
            owners.contains(name) || (census.alias)(name).is_some_and(|alias| owners.contains(&alias))
        };
        if waited_for.iter().any(lives) {
            self.noted = Some(noted);
            return None;
        }
        // Those who write by now have ids above it.
        self.noted = Some(fresh(owners)).filter(|_| id > noted.id);
        Some(noted.id)
    }

    /// Every row up to here was looked at, or will be.
    pub fn seal(&mut self, id: Option<i64>) {
        self.sealed = self.sealed.max(id);
    }

    /// Which of the open rows up to the mark came late. `oldest` is the oldest transaction that is under way by now.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn sift<E, F: FnOnce() -> Result<Vec<Option<String>>, E>>(
        &mut self,
        oldest: Option<i64>,
        rows: impl Iterator<Item = Result<Written<F>, E>>,
        hands: &Hands,
    ) -> Result<Late, E> {
        let (mut known, mut first, mut came) = (HashSet::new(), None::<Rank>, 0);
        self.since = oldest.or(self.since);
        for row in rows {
            let Written { entry, written_by, leads } = row?;
            came += 1;
            let version = (entry, written_by);
            let is_known =
                self.known.contains(&version) || self.seen.contains(&version.0) || hands.have(&version.0);
            if !is_known {
                let rank = Rank { leads: leads()?, entry: version.0.clone() };
                first = Some(first.filter(|first| first.is_before(&rank)).unwrap_or(rank));
            }
            known.insert(version);
        }
        self.seen.clear();
        if came >= Self::ROWS_MAX {
            self.known.clear();
            return Ok(Late::Unknown);
        }
        self.known = known;
        Ok(first.map_or(Late::Nothing, Late::From))
    }
}

/// Whether a transaction is not older than another.
fn is_as_young(one: i64, other: i64) -> bool {
    (one - other).rem_euclid(HALF * 2) < HALF
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL has it.
    const LOCKS: Census = Census { grace_us: 0, is_renamed: |name| name.starts_with("-1/"), alias: |_| None };
    /// As MySQL has it.
    const LIST: Census = Census {
        grace_us: 200,
        is_renamed: |_| false,
        alias: |name| name.split_once('/').map(|(_, start)| format!("0/{start}")),
    };

    fn owners(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn transactions_wrap_around() {
        assert!(is_as_young(5, 5) && is_as_young(6, 5) && !is_as_young(4, 5));
        assert!(is_as_young(3, (1 << 32) - 1) && !is_as_young((1 << 32) - 1, 3));
    }

    /// SRC-04: an id is sealed when all who could write below it are gone, whoever came since.
    #[test]
    fn an_id_is_sealed_when_its_owners_are_gone() {
        let mut watch = Watch::default();
        let mut note = |id, names: &[&str]| watch.note(id, owners(names), 0, &LOCKS);
        assert_eq!(note(10, &["3/1", "4/1"]), None);
        assert_eq!(note(20, &["4/1", "5/1"]), None);
        assert_eq!(note(30, &["5/1", "6/1"]), Some(10));
        assert_eq!(note(40, &["7/1"]), Some(30));
        assert_eq!(note(50, &[]), Some(40));
        assert_eq!(note(60, &[]), Some(50));
        assert_eq!(note(60, &[]), Some(60));
    }

    #[test]
    fn a_prepared_transaction_may_be_renamed() {
        let mut watch = Watch::default();
        let mut note = |names: &[&str]| watch.note(10, owners(names), 0, &LOCKS);
        assert_eq!(note(&["3/1"]), None);
        assert_eq!(note(&["-1/700"]), None);
        assert_eq!(note(&["-1/700"]), None);
        assert_eq!(note(&[]), Some(10));
    }

    /// SRC-04: a list that is a little old does not show whoever has just begun: who counts is asked later than the id was
    /// noted, and only what is asked after that says who is gone.
    #[test]
    fn owners_of_an_old_list_are_asked_for_later() {
        let mut watch = Watch::default();
        let mut note = |id, at, names: &[&str]| watch.note(id, owners(names), at, &LIST);
        assert_eq!(note(10, 0, &[]), None);
        assert_eq!(note(20, 199, &[]), None);
        assert_eq!(note(20, 200, &["7/a", "8/b"]), None);
        assert_eq!(note(20, 300, &["8/b", "9/c"]), None);
        assert_eq!(note(20, 400, &["9/c"]), Some(10), "9 began later");
        assert_eq!(note(30, 500, &["9/c"]), None, "20 was noted at 400");
        assert_eq!(note(30, 600, &["9/c"]), None);
        assert_eq!(note(30, 700, &[]), Some(20));
    }

    /// A clock that was set back does not make the wait shorter.
    #[test]
    fn a_clock_that_goes_backwards_is_waited_for() {
        let mut watch = Watch::default();
        let mut note = |at, names: &[&str]| watch.note(10, owners(names), at, &LIST);
        assert_eq!([note(1_000, &[]), note(500, &[]), note(699, &[])], [None; 3]);
        assert_eq!([note(700, &["1/a"]), note(800, &["1/a"]), note(900, &[])], [None, None, Some(10)]);
    }

    /// MEASUREMENTS: `XA PREPARE` turns the thread to 0 with the same start, and that is the same owner.
    #[test]
    fn a_prepared_transaction_has_no_thread() {
        let mut watch = Watch::default();
        let mut note = |at, names: &[&str]| watch.note(10, owners(names), at, &LIST);
        assert_eq!([note(0, &[]), note(200, &["7/a"])], [None, None]);
        assert_eq!(note(300, &["0/a"]), None);
        assert_eq!(note(400, &["0/b", "7/c"]), Some(10));
    }

    fn rank(id: i64) -> Rank {
        Rank { leads: Vec::new(), entry: id.to_string() }
    }

    fn sift(watch: &mut Watch, ids: &[i64]) -> Late {
        let leads = || Ok::<_, std::convert::Infallible>(Vec::new());
        let rows = ids.iter().map(|id| Ok(Written { entry: id.to_string(), written_by: 0, leads }));
        let Ok(late) = watch.sift(None, rows, &Hands::default());
        late
    }

    /// SRC-03, SRC-04: what was not looked at is late, once, from its first row on.
    #[test]
    fn what_was_not_looked_at_is_late() {
        let mut watch = Watch::default();
        let seen = [7, 9].map(|id: i64| (id.to_string(), 0)).into();
        watch.saw(&Page { seen, ..Page::default() });
        assert_eq!(sift(&mut watch, &[7, 8, 3, 9]), Late::From(rank(3)));
        assert_eq!(sift(&mut watch, &[3, 7, 8, 9]), Late::Nothing);
        assert_eq!(sift(&mut watch, &[3, 7, 8]), Late::Nothing);
        assert_eq!(sift(&mut watch, &[3, 7, 8, 9]), Late::From(rank(9)), "it is open again");
    }
}
