//! The same database seen by chores and operators: the cold path.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::BoxFuture;
use crate::report::{Report, Reported};
use crate::source::SourceError;
use crate::{Entry, EntryId, Key, State, Text};

/// Chores and operators' verbs. All of them commit synchronously, but for reports.
///
/// # Contract
/// - **STO-01** `depth` counts each entry once, in the state that a source would treat it as.
/// - **STO-02** `list` and the verbs choose the same entries for the same [`Filter`], and no other.
/// - **STO-03** A dry run writes nothing and answers what the real one would.
/// - **STO-04** `revive` makes dead entries pending with no retries counted, and only dead ones.
/// - **STO-05** `bury` makes pending entries dead with the operator's reason; what a relay holds or has published stays.
///   Entries whose status is none of the layout's words are listed, and revived or buried where they are asked for by id or
///   state ([`Filter::for_verb`]).
/// - **STO-06** `prune` deletes published entries older than its age and nothing else, in batches.
/// - **STO-07** `reap` makes available what a dead holder left, once, and touches nothing that is held or waiting.
/// - **STO-08** A job is run by one holder at a time; a dead one's turn ends after its at-most time; a late holder's end of
///   turn changes nothing.
/// - **STO-09** A running source sees what a verb changed at its next claim.
/// - **STO-10** A holder's newest report replaces its older one and leaves those of others; a day after its last it is
///   forgotten.
pub trait Store: Send + Sync {
    /// How much there is in each state.
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>>;

    /// Entries that match, oldest first.
    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>>;

    /// One entry with all that is known of it, by its row's id or else by its event's.
    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>>;

    /// Dead entries that match become pending; answers how many.
    fn revive<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>>;

    /// Pending entries that match become dead; answers how many.
    fn bury<'a>(
        &'a self,
        filter: &'a Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>>;

    /// Deletes one batch of published entries that match; answers how many, zero when none is left. A dry run counts all of
    /// them, not one batch.
    fn prune<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>>;

    /// Gives back what dead holders left; answers how many.
    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>>;

    /// Takes a turn at a job if it is due and nobody has it.
    fn take_turn<'a>(
        &'a self,
        job: &'a str,
        at_most: Duration,
    ) -> BoxFuture<'a, Result<Option<Turn>, SourceError>>;

    /// Ends a turn: the job is due again after a while.
    fn end_turn<'a>(&'a self, turn: Turn, next: Duration) -> BoxFuture<'a, Result<(), SourceError>>;

    /// Keeps what a relay says about itself.
    fn report<'a>(&'a self, report: &'a Report) -> BoxFuture<'a, Result<(), SourceError>>;

    /// What relays said about themselves, the newest first.
    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>>;
}

/// A turn at a job, fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The job's name.
    pub job: String,
    /// Whoever comes later has a higher one.
    pub fence: i64,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// To be published and due.
    pub pending: u64,
    /// Of these or beside them, waiting for their next try.
    pub waiting: u64,
    /// Held back behind another entry of their key, or behind a topic that is away.
    pub parked: u64,
    /// In a relay's hands.
    pub leased: u64,
    /// Given up.
    pub dead: u64,
    /// Published and still in the table.
    pub published: u64,
    /// With a status that is none of the layout's words: no relay touches them.
    pub unknown: u64,
    /// When the oldest unpublished entry was written.
    pub oldest: Option<Timestamp>,
    /// Ids that may still commit.
    pub gaps_open: u64,
    /// Who may still commit them, as the database tells: a few of them, the oldest first.
    pub gap_writers: Vec<String>,
    /// Who holds the lease, if anybody.
    pub holder: Option<String>,
    /// The key with the most entries held back behind it, and how many.
    pub culprit: Option<(Key, u64)>,
}

impl Depth {
    /// Of what a cursor's database counts, each by its word: rows behind the position and before it, and of these those that are
    /// exceptions, in somebody's hands, parked with their kind, or were passed before they were committed.
    pub fn of_cursor(count: impl Fn(&str) -> u64) -> Self {
        let plain_behind = count("behind").saturating_sub(count("exceptions behind"));
        let plain_before = count("before").saturating_sub(count("exceptions before"));
        let held_behind = count("leased") + count("ranged behind");
        Self {
            pending: plain_behind.saturating_sub(held_behind) + count("due") + count("passed"),
            waiting: count("waiting"),
            parked: count("parked") + count("ranged") + count("ranged behind"),
            leased: count("leased") + count("again"),
            dead: count("dead"),
            published: plain_before.saturating_sub(count("ranged") + count("passed") + count("again before")),
            gaps_open: count("gap ids").saturating_sub(count("gap rows")),
            ..Self::default()
        }
    }
}

/// Which entries; everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these rows.
    pub ids: Vec<EntryId>,
    /// Event types, with `*`.
    pub event_type: Option<String>,
    /// A key, by its id or as it is shown: `7`, `Order/7`.
    pub key: Option<Text>,
    /// A state.
    pub state: Option<State>,
    /// Written longer ago than this.
    pub older_than: Option<Duration>,
    /// Written more recently than this.
    pub newer_than: Option<Duration>,
    /// At most so many; none means all.
    pub limit: Option<u64>,
}

impl Filter {
    /// Whether a key is the one that is asked for, if any is.
    #[must_use]
    pub fn is_of_key(&self, key: Option<&Key>) -> bool {
        let is = |asked: &Text, key: &Key| {
            let scoped = asked.strip_suffix(&*key.id).and_then(|before| before.strip_suffix('/'));
            *asked == key.id || (!key.scope.is_empty() && scoped == Some(&*key.scope))
        };
        self.key.as_ref().is_none_or(|asked| key.is_some_and(|key| is(asked, key)))
    }

    /// What a verb chooses by that changes entries of one state: those of an unknown status as well, but for `prune`, where
    /// they are asked for by id or by state.
    #[must_use]
    pub fn for_verb(&self, of: State) -> Vec<Self> {
        let takes_unknown = of != State::Published;
        let states = match self.state {
            None if takes_unknown && !self.ids.is_empty() => vec![of, State::Unknown],
            None => vec![of],
            Some(State::Unknown) if takes_unknown => vec![State::Unknown],
            Some(state) if state == of => vec![of],
            Some(_) => vec![],
        };
        states.into_iter().map(|state| Self { state: Some(state), ..self.clone() }).collect()
    }

    /// Every id that a key could have that is asked for: an id may hold a slash itself.
    #[must_use]
    pub fn key_ids(&self) -> Option<Vec<&str>> {
        let asked = self.key.as_deref()?;
        Some(std::iter::once(asked).chain(asked.match_indices('/').map(|(at, _)| &asked[at + 1..])).collect())
    }
}

/// One line of a list: no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The row's id.
    pub id: EntryId,
    /// The event's id.
    pub event_id: Text,
    /// The event's type.
    pub event_type: Text,
    /// Its key.
    pub key: Option<Key>,
    /// Its state.
    pub state: State,
    /// Retries scheduled so far.
    pub retries: u32,
    /// When the event happened, if that is known.
    pub time: Option<Timestamp>,
    /// When it is due, if it waits.
    pub not_before: Option<Timestamp>,
    /// What was last wrong.
    pub error: Option<Text>,
}

/// What is wrong with an entry whose status is none of the layout's words, and what to do.
#[must_use]
pub fn unknown_status(word: Option<&str>) -> Text {
    let word = word.map_or_else(|| "NULL".to_owned(), |word| format!("\"{word}\""));
    Text::from(format!(
        "its status is {word}, none of the layout's words: correct the row, give the word its place in [status], or revive or \
         bury the entry"
    ))
}

/// One entry with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The line that a list would show.
    pub listed: Listed,
    /// The entry itself.
    pub entry: Entry,
    /// Who holds it.
    pub holder: Option<Text>,
    /// When it was published, where the table says so.
    pub published_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// STO-02: a key is found by its id, and as a list shows it.
    #[test]
    fn a_key_is_asked_for_by_its_id_or_as_it_is_shown() {
        let filter = |key: &'static str| Filter { key: Some(key.into()), ..Filter::default() };
        let (order, bare) = (Key::new("Order", "7/a"), Key::new("", "7/a"));
        for (asked, is_order, is_bare) in [
            ("7/a", true, true),
            ("Order/7/a", true, false),
            ("a", false, false),
            ("/7/a", false, false),
            ("Order", false, false),
            ("order/7/a", false, false),
        ] {
            let filter = filter(asked);
            assert_eq!(
                (filter.is_of_key(Some(&order)), filter.is_of_key(Some(&bare))),
                (is_order, is_bare),
                "{asked}"
            );
            assert!(!filter.is_of_key(None));
            assert!(!is_order || filter.key_ids().unwrap().contains(&"7/a"), "{asked}");
        }
        assert!(Filter::default().is_of_key(None) && Filter::default().key_ids().is_none());
    }
}
