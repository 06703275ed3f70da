//! Holding rows by their locks.

use super::Parts;
use super::settle::RETURNED;

/// The columns of [`HoldSql::beside`].
pub(crate) mod beside {
    /// Its place in the list.
    pub(crate) const PLACE: usize = 0;
    pub(crate) const RETRIES: usize = 1;
    /// Whether it may be handed out, as far as is known here.
    pub(crate) const IS_FREE: usize = 2;
}

/// `:outbox` everywhere; `:list` is a list of entries.
#[derive(Debug)]
pub(crate) struct HoldSql {
    /// Locks rows of the list that are still available, and answers them whole: `:rows` at most. Those that somebody else
    /// has locked are passed by.
    pub(crate) lock: String,
    /// Locks those that are still available once more, waiting for whoever has them, and answers their places and versions.
    pub(crate) lock_again: String,
    /// What is kept beside rows of the list.
    pub(crate) beside: String,
    /// Makes room beside the table for what it has no columns for; none where it has all of them.
    pub(crate) make_room: Option<String>,
    /// Keeps rows of the list beside the table, whatever it says: `:wait_us`, `:why`.
    pub(crate) set_aside: String,
}

impl HoldSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        let (list, given) = (parts.id.list(":list", ""), parts.id.list(":list", RETURNED));
        let (columns, now, entries) = (&parts.layout.columns, &parts.names.now, &parts.names.entries);
        let rows = parts.id.rows_of(&list, &parts.names.table);
        let has_all = columns.retries.is_some()
            && columns.not_before.is_some()
            && columns.error.is_some()
            && parts.layout.shows_dead();
        Self {
            lock: parts.lock(&rows),
            lock_again: format!(
                "select g.n, {} from {rows} where {} {}",
                parts.version(),
                parts.is_available(),
                parts.live.server.lock("t")
            ),
            beside: format!(
                "select g.n, e.retries, not e.dead and (e.not_before is null or e.not_before <= {now}) \
                 and (e.leased_until is null or e.leased_until <= {now}) from {}",
                parts.id.beside(&list, entries)
            ),
            make_room: (!has_all).then(|| {
                format!(
                    "insert ignore into {entries} (outbox, entry) select :outbox, g.entry from {given} \
                     where g.retries is not null or g.after_us is not null or g.error is not null or g.dead"
                )
            }),
            set_aside: format!(
                "insert into {entries} (outbox, entry, not_before, error, dead) \
                 select :outbox, g.entry, if(g.dead, null, {due}), :why, g.dead from {given} \
                 on duplicate key update not_before = values(not_before), error = values(error), dead = values(dead)",
                due = parts.names.after(":wait_us"),
            ),
        }
    }
}
