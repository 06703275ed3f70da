//! Rows that came to be before the mark. Where order is kept, what comes later of their keys must not go before them.

use std::collections::{BTreeSet, HashSet};

use tokio_postgres::types::Type;

use super::{Page, Pulse, Rank, Scanner};
use crate::fault::Error;
use crate::fitness::Sequence;
use crate::sql::cursor::OWNERS;
use crate::sql::status::late;

/// Who may still write before the mark is asked so often.
const ASK_EVERY_US: i64 = 100_000;
/// Rows that one question may answer, and that are remembered between two.
const ROWS_MAX: usize = 100_000;

/// Half of all transactions are older than any, by its 32 bits, and half are younger.
const HALF: i64 = 1 << 31;

/// What is asked after rows were looked at and before any is handed out: whether one came to be before them meanwhile. Whoever
/// was written later than that one was seen later, and so it is found.
///
/// Where ids are drawn by the INSERT, what nobody can write any more is not asked for again: at or below `sealed`, every row
/// that will ever exist was looked at (MEASUREMENTS: an insert locks the table before its id is drawn, until its end is visible).
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The oldest transaction that was under way when it was asked last: what older ones wrote was seen.
    since: Option<i64>,
    /// Versions that were seen, of those that are not older.
    known: HashSet<(String, i64)>,
    /// Rows that were looked at since it was asked last.
    seen: HashSet<String>,
    sealed: Option<i64>,
    /// An id that will be sealed when these transactions are gone.
    noted: Option<(i64, BTreeSet<String>)>,
    asked_us: Option<i64>,
}

/// What came to be before the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    Nothing,
    /// The first of it; none where ranks do not compare on this side.
    From(Rank),
    /// It cannot be told, among so many that are as young: everything is to be looked at in one snapshot.
    Unknown,
}

/// The table and the sequence whose ids its rows get, one by one.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) table: u32,
    /// Its last value, null where that must not be read.
    last: String,
}

impl Drawn {
    pub(crate) fn new(table: u32, sequence: &Sequence) -> Option<Self> {
        let counts = sequence.cache == 1 && sequence.increment > 0 && !sequence.cycles;
        let name = sequence.name.replace('\'', "''");
        let last = format!(
            "select last_value from pg_sequences where format('%I.%I', schemaname, sequencename) = '{name}'"
        );
        counts.then_some(Self { table, last })
    }
}

impl Watch {
    /// At a claim's beginning, before anything is looked at.
    pub(crate) fn begin(&mut self, pulse: &Pulse) {
        self.since.get_or_insert(pulse.oldest);
    }

    pub(crate) fn saw(&mut self, page: &Page) {
        let since = self.since.unwrap_or(0);
        let young = page.rows.iter().filter(|(_, written_by)| is_as_young(*written_by, since));
        let room = ROWS_MAX.saturating_sub(self.seen.len());
        self.seen.extend(young.map(|(entry, _)| entry.clone()).take(room));
    }

    /// Whether it is worth asking while there is nothing to hand out: until everything up to the mark is sealed.
    pub(crate) fn is_due(&self, mark: Option<&Rank>, now_us: i64) -> bool {
        mark.is_some_and(|mark| !self.is_sealed(mark)) && self.is_time(now_us)
    }

    /// What came to be at or before a row that was looked at.
    pub(crate) async fn look(
        &mut self,
        scanner: &Scanner<'_>,
        drawn: Option<&Drawn>,
        up_to: &Rank,
        now_us: i64,
    ) -> Result<Late, Error> {
        if self.is_sealed(up_to) {
            self.seen.clear();
            return Ok(Late::Nothing);
        }
        let sealing = match drawn.filter(|_| self.is_time(now_us)) {
            Some(drawn) => self.ask(scanner, drawn, up_to, now_us).await?,
            None => None,
        };
        let found = self.found(scanner, up_to).await?;
        if found == Late::Nothing {
            self.sealed = self.sealed.max(sealing);
        }
        Ok(found)
    }

    fn is_sealed(&self, rank: &Rank) -> bool {
        let id = rank.entry.parse::<i64>();
        self.sealed.is_some_and(|sealed| id.is_ok_and(|id| id <= sealed))
    }

    fn is_time(&self, now_us: i64) -> bool {
        self.asked_us.is_none_or(|at| now_us < at || now_us - at >= ASK_EVERY_US)
    }

    /// The id up to which nobody can write any more: what is read after this shows all of it.
    async fn ask(
        &mut self,
        scanner: &Scanner<'_>,
        drawn: &Drawn,
        up_to: &Rank,
        now_us: i64,
    ) -> Result<Option<i64>, Error> {
        self.asked_us = Some(now_us);
        // In this order: whoever draws an id in between is among the owners. Ids above all that was drawn are somebody's own.
        let last = scanner.session.first(&drawn.last, &[]).await?;
        let last: Option<i64> = last.map(|row| row.try_get(0)).transpose()?.flatten();
        let rows = scanner.session.query(OWNERS, &[(&drawn.table, Type::OID)]).await?;
        let owners: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let Ok(id) = up_to.entry.parse::<i64>() else { return Ok(None) };
        Ok(self.note(last.map_or(id, |last| id.min(last)), owners))
    }

    fn note(&mut self, id: i64, owners: BTreeSet<String>) -> Option<i64> {
        if let Some((noted, waited_for)) = self.noted.take() {
            // After a restart a prepared transaction goes by another name, which stands for any that was known before.
            let is_renamed = owners.iter().any(|name| name.starts_with("-1/") && !waited_for.contains(name));
            if !is_renamed && waited_for.is_disjoint(&owners) {
                // Those who write by now have ids above it.
                self.noted = Some((id, owners)).filter(|_| id > noted);
                return Some(noted);
            }
            if !is_renamed {
                self.noted = Some((noted, waited_for));
                return None;
            }
        }
        if owners.is_empty() {
            return Some(id);
        }
        self.noted = Some((id, owners));
        None
    }

    async fn found(&mut self, scanner: &Scanner<'_>, up_to: &Rank) -> Result<Late, Error> {
        let (limit, since) = (i64::try_from(ROWS_MAX).unwrap_or(i64::MAX), self.since.unwrap_or(0));
        let above = self.sealed.map(|sealed| sealed.to_string());
        let mut params = vec![
            (&scanner.outbox as _, Type::TEXT),
            (&up_to.leads as _, Type::TEXT_ARRAY),
            (&up_to.entry as _, Type::TEXT),
            (&limit as _, Type::INT8),
            (&since as _, Type::INT8),
        ];
        let mut sql = &scanner.sql.late;
        if above.is_some() {
            params.push((&above as _, Type::TEXT));
            sql = &scanner.sql.late_behind;
        }
        let rows = scanner.session.query(sql, &params).await?;
        let (mut known, mut first) = (HashSet::new(), None::<Rank>);
        for row in &rows {
            self.since = Some(row.try_get(late::OLDEST)?);
            let Some(entry) = row.try_get::<_, Option<String>>(late::ENTRY)? else { continue };
            let version = (entry, row.try_get::<_, i64>(late::WRITTEN_BY)?);
            let is_known = self.known.contains(&version)
                || self.seen.contains(&version.0)
                || scanner.hands.have(&version.0);
            if !is_known {
                let rank = Rank { leads: row.try_get(late::LEADS)?, entry: version.0.clone() };
                first = Some(first.filter(|first| first.is_before(&rank)).unwrap_or(rank));
            }
            known.insert(version);
        }
        self.seen.clear();
        if rows.len() >= ROWS_MAX {
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
        assert_eq!(watch.note(10, owners(&["3/1", "4/1"])), None);
        assert_eq!(watch.note(20, owners(&["4/1", "5/1"])), None);
        assert_eq!(watch.note(30, owners(&["5/1", "6/1"])), Some(10));
        assert_eq!(watch.note(40, owners(&["7/1"])), Some(30));
        assert_eq!(watch.note(50, owners(&[])), Some(40));
        assert_eq!(watch.note(60, owners(&[])), Some(50));
        assert_eq!(watch.note(60, owners(&[])), Some(60));
    }

    #[test]
    fn a_prepared_transaction_may_be_renamed() {
        let mut watch = Watch::default();
        assert_eq!(watch.note(10, owners(&["3/1"])), None);
        assert_eq!(watch.note(10, owners(&["-1/700"])), None);
        assert_eq!(watch.note(10, owners(&["-1/700"])), None);
        assert_eq!(watch.note(10, owners(&[])), Some(10));
    }
}
