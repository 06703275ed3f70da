//! What is written for the entries of one settle call, as columns of parameters.

use super::OpenRow;
use crate::layout::{OnDead, Order};
use crate::{Layout, Settlement};

/// A hundred years: no calendar runs out.
const LONGEST_US: i64 = 100 * 365 * 24 * 3_600 * 1_000_000;

/// One kind of settlements, as the parameters of its statement. What was published has entries and versions only.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    /// The rows' ids.
    pub entries: Vec<String>,
    /// The versions that they must still have.
    pub versions: Vec<i64>,
    /// The table's words for what they are now; none where the table has no status.
    pub words: Vec<Option<String>>,
    /// Retries scheduled so far; none leaves the number as it is.
    pub retries: Vec<Option<i32>>,
    /// In how many microseconds they are due; none leaves that as it is.
    pub after_us: Vec<Option<i64>>,
    /// What was wrong, as far as its column takes it; none leaves that as it is.
    pub errors: Vec<Option<String>>,
    /// Whether they hold back their keys from now on.
    pub holds_key: Vec<bool>,
    /// Whether they are given up.
    pub dead: Vec<bool>,
    is_published: bool,
}

impl Settling {
    /// Sorts settlements into what was published and what goes back; an error's text is cut to so many characters.
    #[must_use]
    pub fn sort<'s>(
        layout: &Layout,
        error_chars_max: usize,
        settlements: impl Iterator<Item = (&'s OpenRow, &'s Settlement)>,
    ) -> (Self, Self) {
        let (mut published, mut returned) = (Self { is_published: true, ..Self::default() }, Self::default());
        for (row, settlement) in settlements {
            if *settlement == Settlement::Published {
                published.entries.push(row.entry().to_owned());
                published.versions.push(row.version);
            } else {
                returned.add(layout, error_chars_max, row, settlement);
            }
        }
        (published, returned)
    }

    fn add(&mut self, layout: &Layout, error_chars_max: usize, row: &OpenRow, settlement: &Settlement) {
        let (retries, after, reason, dead) = match settlement {
            Settlement::Published | Settlement::Released => (None, None, None, false),
            Settlement::Postponed { after, reason } => (None, Some(*after), Some(reason), false),
            Settlement::Retried { retries, after, reason } => {
                (Some(*retries), Some(*after), Some(reason), false)
            }
            Settlement::Dead { retries, reason } => (Some(*retries), None, Some(reason), true),
        };
        let tried = retries.unwrap_or(row.retries) > 0;
        let word = layout.status.as_ref().map(|words| match &words.dead {
            Some(word) if dead => word,
            _ if tried => words.waiting(),
            _ => &words.pending,
        });
        self.entries.push(row.entry().to_owned());
        self.versions.push(row.version);
        self.words.push(word.map(str::to_owned));
        self.retries.push(retries.map(|retries| i32::try_from(retries).unwrap_or(i32::MAX)));
        self.after_us.push(
            after.map(|after| i64::try_from(after.as_micros()).unwrap_or(i64::MAX / 1_000).min(LONGEST_US)),
        );
        self.errors.push(reason.map(|reason| written(&reason.0, error_chars_max)));
        self.holds_key.push(dead && layout.order == Order::Key && layout.on_dead == OnDead::Hold);
        self.dead.push(dead);
    }

    /// Which of the two kinds it is.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.is_published
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether something is given up, which is to be durable.
    #[must_use]
    pub fn buries(&self) -> bool {
        self.dead.contains(&true)
    }

    /// What became of the first of them, in a word.
    #[must_use]
    pub fn became(&self) -> &str {
        self.words.first().and_then(Option::as_deref).unwrap_or("published")
    }

    /// Those of them that are listed.
    #[must_use]
    pub fn only(&self, entries: &[String]) -> Self {
        self.pick((0..self.entries.len()).filter(|at| entries.contains(&self.entries[*at])))
    }

    /// The first half and the second.
    #[must_use]
    pub fn split(&self) -> (Self, Self) {
        let (half, all) = (self.entries.len() / 2, self.entries.len());
        (self.pick(0..half), self.pick(half..all))
    }

    /// Those at these places; columns that this kind of settlement does not have stay empty.
    fn pick(&self, places: impl Iterator<Item = usize> + Clone) -> Self {
        fn of<T: Clone>(all: &[T], places: impl Iterator<Item = usize>) -> Vec<T> {
            places.filter_map(|at| all.get(at)).cloned().collect()
        }
        Self {
            entries: of(&self.entries, places.clone()),
            versions: of(&self.versions, places.clone()),
            words: of(&self.words, places.clone()),
            retries: of(&self.retries, places.clone()),
            after_us: of(&self.after_us, places.clone()),
            errors: of(&self.errors, places.clone()),
            holds_key: of(&self.holds_key, places.clone()),
            dead: of(&self.dead, places),
            is_published: self.is_published,
        }
    }
}

/// A text as every database takes it: zero bytes are none.
fn written(reason: &str, chars_max: usize) -> String {
    reason.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::Rank;
    use crate::verdict::Reason;

    fn row(id: i64, retries: u32) -> OpenRow {
        let rank = Rank { leads: Vec::new(), entry: id.to_string() };
        OpenRow { rank, key: None, retries, version: id, settled: false }
    }

    /// D4, C3, E3: each settlement has its word, its count, its time and its error.
    #[test]
    fn settlements_are_sorted() {
        let layout = Layout::built_in("ledger").unwrap();
        let rows = [row(1, 0), row(2, 0), row(3, 1), row(4, 0), row(5, 0)];
        let reason = || Reason("too \0 long".into());
        let all = [
            Settlement::Published,
            Settlement::Released,
            Settlement::Postponed { after: Duration::MAX, reason: reason() },
            Settlement::Retried { retries: 1, after: Duration::from_secs(2), reason: reason() },
            Settlement::Dead { retries: 5, reason: reason() },
        ];
        let (published, returned) = Settling::sort(&layout, 5, rows.iter().zip(&all));
        assert!(published.is_published() && !returned.is_published() && returned.buries());
        assert_eq!((published.entries, published.versions), (vec!["1".to_owned()], vec![1]));
        assert_eq!(returned.entries, ["2", "3", "4", "5"]);
        assert_eq!(returned.retries, [None, None, Some(1), Some(5)]);
        assert_eq!(returned.after_us, [None, Some(LONGEST_US), Some(2_000_000), None]);
        let words: Vec<_> = returned.words.iter().flatten().collect();
        assert_eq!(words, ["PENDING", "PENDING", "PENDING", "FAILED"]);
        assert_eq!(returned.errors[1].as_deref(), Some("too \u{fffd}"));
        assert_eq!((returned.dead[3], returned.holds_key[3], returned.dead[2]), (true, true, false));
        let (first, second) = returned.split();
        assert_eq!((first.entries.len(), second.dead), (2, vec![false, true]));
        assert_eq!(returned.only(&["4".into()]).retries, [Some(1)]);
    }
}
