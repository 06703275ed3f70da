//! Adoption: where reading a table begins that had rows before Postrider came.

use std::ops::RangeInclusive;

use crate::{Fault, Start};

/// Ids below the first position that are looked through for missing ones: transactions that were open when reading began.
const LOOK_BACK_IDS: i64 = 100_000;

/// What to do about ids that went backwards.
pub const BACKWARDS: &str = "The table was restored or truncated, or its sequence was reset: compare it with what was \
    published. Then set a start that is not the one that was used before, and start the relay again: start = 0 or \"beginning\" \
    publishes all that it holds now, start = \"now\" only what comes.";

/// What is known of a table before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The position, and how the first one was chosen, where reading began before.
    pub known: Option<(i64, String)>,
    /// The highest id that was ever drawn, or that a row has.
    pub highest: i64,
    /// The lowest id that a row has.
    pub lowest: Option<i64>,
    /// Where the relay before this one has come to, by a team's own table.
    pub team: Option<TeamPosition>,
}

/// Where a relay has come to, by a team's own table of positions: the row with the highest id, never by clock (B4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamPosition {
    /// What the row says.
    pub position: i64,
    /// The row's own id.
    pub seen: i64,
    /// The table's name.
    pub name: String,
}

/// Where reading stands before it begins.
#[derive(Debug)]
pub enum Standing {
    /// It goes on where it was.
    Known,
    /// It begins.
    Begins(Begin),
    /// It does not.
    Refused(Fault),
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Rows up to here are dealt with.
    pub position: i64,
    /// What was chosen.
    pub word: String,
    /// No row has an id below it.
    pub before_all: i64,
    /// The latest row of a team's own table of positions.
    pub seen: Option<i64>,
    /// Whether it began before.
    pub is_known: bool,
}

impl Begin {
    /// From where ids are looked through for missing ones, up to the position.
    #[must_use]
    pub fn look_back_from(&self) -> i64 {
        self.position.saturating_sub(LOOK_BACK_IDS).max(self.before_all).saturating_add(1)
    }
}

impl Standing {
    /// Decides where reading begins. `place` is what faults call the table.
    #[must_use]
    pub fn decide(place: &str, start: Option<Start>, found: Found) -> Self {
        let Found { known, highest, lowest, team } = found;
        let is_known = known.is_some();
        if let Some((position, first)) = known {
            if position <= highest {
                return Self::Known;
            }
            // A start that was left in the configuration must neither skip what was written since nor repeat what was published.
            if start.is_none_or(|chosen| word(chosen) == first) {
                return backwards(place, position, highest, &first);
            }
        }
        // Somebody may have given rows ids below one.
        let before_all = lowest.map_or(0, |lowest| lowest.saturating_sub(1).min(0));
        let seen = team.as_ref().map(|team| team.seen);
        let (position, word) = match (start, team) {
            (Some(Start::Beginning), _) => (before_all, word(Start::Beginning)),
            (Some(Start::Now), _) => (highest, word(Start::Now)),
            (Some(Start::After(id)), _) => (id.min(highest), word(Start::After(id))),
            (None, Some(team)) if team.position > highest => {
                return backwards(place, team.position, highest, &team.name);
            }
            (None, Some(team)) => (team.position, team.name),
            (None, None) if lowest.is_none() => (before_all, word(Start::Beginning)),
            (None, None) => return no_start(place),
        };
        Self::Begins(Begin { position, word, before_all, seen, is_known })
    }
}

fn no_start(place: &str) -> Standing {
    Standing::Refused(Fault::new(
        place,
        "the table has rows already, and where to begin is not said",
        "Set start = \"beginning\" to publish all of them, \"now\" to publish only what comes, or the id after which to begin.",
    ))
}

fn backwards(place: &str, position: i64, highest: i64, start: &str) -> Standing {
    Standing::Refused(Fault::new(
        place,
        format!(
            "ids went backwards: rows up to id {position} were dealt with, the table is at {highest} (reading began with \
             start = {start})"
        ),
        BACKWARDS,
    ))
}

/// A start as the configuration spells it.
fn word(start: Start) -> String {
    match start {
        Start::Beginning => "beginning".into(),
        Start::Now => "now".into(),
        Start::After(id) => id.to_string(),
    }
}

/// The ranges of ids that none of these sorted ones is in.
#[must_use]
pub fn missing(ids: impl IntoIterator<Item = i64>, among: RangeInclusive<i64>) -> Vec<RangeInclusive<i64>> {
    let (mut next, last) = (*among.start(), *among.end());
    let mut ranges = Vec::new();
    for id in ids {
        if id > next {
            ranges.push(next..=id - 1);
        }
        next = id.saturating_add(1);
    }
    if next <= last {
        ranges.push(next..=last);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(known: Option<i64>, highest: i64, lowest: Option<i64>) -> Found {
        Found { known: known.map(|position| (position, "now".into())), highest, lowest, team: None }
    }

    fn position(start: Option<Start>, found: Found) -> Option<i64> {
        match Standing::decide("here", start, found) {
            Standing::Begins(begin) => Some(begin.position),
            Standing::Known | Standing::Refused(_) => None,
        }
    }

    /// F10: a table with rows is not read before somebody has said from where; an empty one is.
    #[test]
    fn where_to_begin_is_said_where_there_are_rows() {
        assert_eq!(position(None, found(None, 0, None)), Some(0));
        assert!(matches!(Standing::decide("here", None, found(None, 9, Some(1))), Standing::Refused(_)));
        assert_eq!(position(Some(Start::Now), found(None, 9, Some(1))), Some(9));
        assert_eq!(position(Some(Start::After(99)), found(None, 9, Some(1))), Some(9));
        assert_eq!(position(Some(Start::Beginning), found(None, 9, Some(-3))), Some(-4));
    }

    /// Ids that went backwards are told, and a start that was used before is not honoured again.
    #[test]
    fn a_start_that_was_used_before_is_not_honoured_again() {
        assert!(matches!(Standing::decide("here", None, found(Some(9), 9, None)), Standing::Known));
        let again = Standing::decide("here", Some(Start::Now), found(Some(9), 5, Some(1)));
        assert!(matches!(again, Standing::Refused(_)));
        assert_eq!(position(Some(Start::Beginning), found(Some(9), 5, Some(1))), Some(0));
    }

    #[test]
    fn what_no_row_has_is_missing() {
        assert_eq!(missing([3, 4, 7], 2..=9), [2..=2, 5..=6, 8..=9]);
        #[allow(clippy::reversed_empty_ranges, reason = "a table without a row has such a one")]
        let none = 1..=0;
        assert_eq!(missing([], none), []);
        assert_eq!(missing([1, 2], 1..=2), []);
    }
}
