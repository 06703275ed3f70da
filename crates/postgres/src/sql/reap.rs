//! What was left behind by holders that died.

use postrider_core::Layout;
use postrider_core::layout::Way;

use super::seen::{NOW, Seen, Status};
use super::time::TimeColumn;
use super::{Names, literal};
use crate::table::Table;

/// $1 is the outbox, $2 ids.
#[derive(Debug)]
pub(crate) enum ReapSql {
    /// One lease covers all that a cursor's holder has: $1 alone.
    Cursor {
        unclaim: [String; 2],
        /// Dead entries whose row somebody has deleted: nothing can become of them, and no key is to wait for them.
        forget: String,
    },
    /// Each row has its own.
    Lease(Box<LeftSql>),
    /// The end of a holder's session gives its rows back.
    Hold,
}

/// Rows of a status table whose holder is gone.
#[derive(Debug)]
pub(crate) struct LeftSql {
    /// Entries whose lease has run out: $1.
    pub(crate) expired: String,
    /// Rows that are in somebody's hands by their word, and not in Postrider's: ids and since when. $1.
    pub(crate) foreign: Option<String>,
    /// Takes the lease from entries in $2 where it is still run out, and answers which.
    pub(crate) take_back: String,
    /// Gives the rows in $2 back.
    pub(crate) give_back: Option<String>,
    /// Forgets entries whose row is gone: $1.
    pub(crate) forget: String,
}

impl ReapSql {
    pub(crate) fn new(layout: &Layout, names: &Names, table: &Table, ttl_us: i64) -> Self {
        match layout.way {
            Way::Cursor | Way::Log => Self::Cursor {
                unclaim: [
                    format!("delete from {} where outbox = $1", names.claims),
                    format!(
                        "update {} set claimed = position, returned = '{{}}' where outbox = $1 and claimed > position",
                        names.position
                    ),
                ],
                forget: format!(
                    "delete from {} as e where e.outbox = $1 and e.shelf = 'dead' and e.copy is null \
                     and not exists (select 1 from {} as t where {} = e.entry)",
                    names.exceptions,
                    names.table,
                    Seen::new(layout, names, table, ttl_us).id.column
                ),
            },
            Way::Hold => Self::Hold,
            Way::Lease => Self::Lease(Box::new(LeftSql::new(&Seen::new(layout, names, table, ttl_us)))),
        }
    }
}

impl LeftSql {
    fn new(rows: &Seen<'_>) -> Self {
        let Names { table, entries, .. } = rows.names;
        let texts = rows.id.as_texts(2);
        // Whoever is at a row or its entry right now is alive: nobody waits for anybody here.
        Self {
            expired: format!("select entry from {entries} where outbox = $1 and leased_until <= {NOW}"),
            foreign: foreign(rows),
            take_back: format!(
                "update {entries} as s set owner = null, leased_until = null, fence = null from ( \
                 select entry from {entries} where outbox = $1 and entry = any({texts}) and leased_until <= {NOW} \
                 for update skip locked) as left_behind \
                 where s.outbox = $1 and s.entry = left_behind.entry returning s.entry"
            ),
            give_back: give_back(rows),
            forget: format!(
                "delete from {entries} as s where s.outbox = $1 and (s.leased_until is null or s.leased_until <= {NOW}) \
                 and not exists (select 1 from {table} as t where {})",
                rows.id.is("s.entry")
            ),
        }
    }
}

fn foreign(rows: &Seen<'_>) -> Option<String> {
    let is_leased = Status::new(rows.layout, rows.table)?.is_leased()?;
    let at = TimeColumn::new(rows.layout.columns.leased_at.as_ref(), rows.table, rows.layout.zone);
    let at = at.map_or("null::timestamptz".into(), |at| at.select());
    Some(format!(
        "select {id}, {at} from {from} where {is_leased} and s.leased_until is null",
        id = rows.table.id_kind(rows.layout).select(&rows.id.column),
        from = rows.from(),
    ))
}

/// What a row looks like that nobody holds.
fn give_back(rows: &Seen<'_>) -> Option<String> {
    let columns = &rows.layout.columns;
    let pending = rows.layout.status.as_ref().map(|words| words.pending.as_str());
    let is_leased = Status::new(rows.layout, rows.table).and_then(|status| status.is_leased());
    let mut set: Vec<String> = Vec::new();
    let pending = pending.filter(|_| is_leased.is_some());
    set.extend(pending.and_then(|pending| rows.to(&columns.status, |_| literal(pending))));
    set.extend(rows.to(&columns.lease_owner, |not_null| if not_null { "''".into() } else { "null".into() }));
    // One that takes no NULL keeps its time: its owner and its word say that nobody has it.
    set.extend(
        rows.to(&columns.leased_at, |_| "null".into()).filter(|_| !rows.takes_no_null(&columns.leased_at)),
    );
    if set.is_empty() {
        return None;
    }
    set.extend(rows.next_version());
    let only = is_leased.map_or(String::new(), |is_leased| format!(" and {is_leased}"));
    Some(format!("update {} as t set {} where {}{only}", rows.names.table, set.join(", "), rows.id.among(2)))
}
