//! Where a row stands in the order of its table.

use std::cmp::Ordering;

/// What a row is ordered by before its id, and its id, as texts that the database can read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// What it is ordered by before its id: times, written so that they sort as texts. NULL sorts last.
    pub leads: Vec<Option<String>>,
    /// The row's id.
    pub entry: String,
}

impl Rank {
    /// Whether this row comes before another.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        let leads = self.leads.iter().zip(&other.leads).map(|(one, other)| match (one, other) {
            (Some(one), Some(other)) => compare(one, other),
            // NULL sorts last.
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        let order = leads.fold(Ordering::Equal, Ordering::then);
        order.then_with(|| compare(&self.entry, &other.entry)) == Ordering::Less
    }

    /// Whether what it is ordered by first is there.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.leads.first().is_some_and(Option::is_some)
    }

    /// Whether what it is ordered by first is later than this.
    #[must_use]
    pub fn is_later_than(&self, lead: &str) -> bool {
        let own = self.leads.first().and_then(Option::as_ref);
        own.is_some_and(|own| compare(own, lead) == Ordering::Greater)
    }
}

/// Numbers as numbers; times are written so that they sort as texts.
fn compare(one: &str, other: &str) -> Ordering {
    match (one.parse::<i64>(), other.parse::<i64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(lead: Option<&str>, entry: &str) -> Rank {
        Rank { leads: vec![lead.map(str::to_owned)], entry: entry.to_owned() }
    }

    #[test]
    fn ranks_sort_as_a_database_does() {
        let sorted = [
            rank(Some("-infinity"), "7"),
            rank(Some("2026-01-02 03:04:05.000000+00"), "9"),
            rank(Some("2026-01-02 03:04:05.000000+00"), "10"),
            rank(Some("2026-01-02 03:04:05.000001+00"), "1"),
            rank(Some("infinity"), "1"),
            rank(None, "1"),
            rank(None, "2"),
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(one.is_before(other), at < other_at, "{one:?} {other:?}");
            }
        }
    }
}
