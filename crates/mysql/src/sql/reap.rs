//! What was left behind by holders that died.

use super::seen::Seen;
use super::{Names, literal};
use crate::config::Config;
use crate::table::Table;

/// `:outbox` everywhere; `:list` are entries.
#[derive(Debug)]
pub(crate) enum ReapSql {
    /// Nothing is in anybody's hands any more.
    Cursor([String; 2]),
    Status(LeftSql),
}

#[derive(Debug)]
pub(crate) struct LeftSql {
    /// Entries whose lease has run out.
    pub(crate) expired: String,
    /// Rows that are in somebody's hands by their word, and not in Postrider's, for too long.
    pub(crate) stalled: Option<String>,
    /// Locks rows of the list and answers their entries. Whoever is at one right now is alive: nobody waits for anybody here.
    pub(crate) hold: String,
    /// Gives the rows of the list back.
    pub(crate) give_back: Option<String>,
    /// Takes the lease from the entries of the list.
    pub(crate) take_back: String,
    /// Forgets entries whose row is gone.
    pub(crate) forget: String,
}

impl ReapSql {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        let rows = Seen::new(config, table);
        if rows.is_cursor() {
            let Names { position, claims, .. } = &rows.names;
            let unclaim = format!(
                "update {position} set claimed = coalesce(position, 0), returned = null where outbox = :outbox"
            );
            return Self::Cursor([unclaim, format!("delete from {claims} where outbox = :outbox")]);
        }
        let list = rows.id.list(":list", "");
        let listed = rows.id.rows_of(&list, &rows.names.table);
        let beside = rows.id.beside(&list, &rows.names.entries);
        let (entries, now) = (&rows.names.entries, &rows.names.now);
        Self::Status(LeftSql {
            expired: format!("select entry from {entries} where outbox = :outbox and leased_until <= {now}"),
            stalled: rows
                .stalled()
                .map(|stalled| format!("select {} from {} where {stalled}", rows.id.text(), rows.from())),
            hold: format!("select g.entry from {listed} {} skip locked", table.server.lock("t")),
            give_back: rows.give_back(&listed),
            take_back: format!(
                "update {beside} set e.owner = null, e.leased_until = null, e.fence = null where e.leased_until <= {now}"
            ),
            forget: format!(
                "delete s from {entries} as s left join {} as t on {} \
                 where s.outbox = :outbox and (s.leased_until is null or s.leased_until <= {now}) and {} is null",
                rows.names.table,
                rows.id.of_entry(),
                rows.id.column
            ),
        })
    }
}

impl Seen<'_> {
    /// What a row looks like that nobody holds (A9).
    fn give_back(&self, listed: &str) -> Option<String> {
        let (columns, words) = (&self.layout.columns, self.layout.status.as_ref()?);
        let is_leased = self.status()?.is_leased();
        let nullable = |column: &Option<postrider_core::layout::Column>| {
            self.table.mapped(column.as_ref()).is_some_and(|live| !live.not_null)
        };
        let mut set: Vec<String> = Vec::new();
        set.extend(is_leased.as_ref().and_then(|_| self.to(&columns.status, |_| literal(&words.pending))));
        // One that takes no NULL keeps its value: the row's word says that nobody has it.
        for column in [&columns.lease_owner, &columns.leased_at] {
            set.extend(self.to(column, |_| "null".into()).filter(|_| nullable(column)));
        }
        if set.is_empty() {
            return None;
        }
        set.extend(self.next_version());
        let only = is_leased.map_or(String::new(), |is_leased| format!(" where {is_leased}"));
        Some(format!("update {listed} set {}{only}", set.join(", ")))
    }
}
