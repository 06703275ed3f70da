//! Locking rows for as long as a transaction is open.

use super::settle::LISTED;
use super::{Parts, listed};
use crate::sql::fields::fields;
use crate::sql::time::NOW;

/// $1 is the outbox everywhere.
#[derive(Debug)]
pub(crate) struct HoldSql {
    /// Locks rows and answers them whole, with the columns of [`super::taken`]: $2 entries, $3 rows at most.
    pub(crate) lock: String,
    /// What is kept beside rows that are locked, where that decides anything: $2 entries. Another relay may have written it
    /// after the rows were chosen and before they were locked.
    pub(crate) beside: Option<String>,
}

/// The columns of [`HoldSql::beside`].
pub(crate) mod beside {
    pub(crate) const ENTRY: usize = 0;
    pub(crate) const RETRIES: usize = 1;
    /// Whether it may be handed out.
    pub(crate) const IS_FREE: usize = 2;
}

impl HoldSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        let columns = &parts.layout.columns;
        let all_here = parts.layout.shows_dead() && columns.retries.is_some() && columns.not_before.is_some();
        Self { lock: parts.lock(), beside: (!all_here).then(|| parts.beside()) }
    }
}

impl Parts<'_> {
    fn lock(&self) -> String {
        let columns = &self.layout.columns;
        let own = |name: Option<String>| name.map_or("null::int".into(), |name| format!("t.{name}"));
        let due = self.not_before.as_ref().map(|due| {
            let column = due.column();
            format!(" and ({column} is null or ({}))", due.has_come())
        });
        format!(
            "select {fields}, {retries}, {retries_max}, {version}, t.{id}::text, 0::bigint from {table} as t \
             where t.{id} = any($2::text[]::{id_type}[]) and {open} and $1::text is not null \
             order by {order} limit $3 for update of t skip locked",
            fields = fields(self.layout, self.live),
            retries = own(self.bare(columns.retries.as_ref())),
            retries_max = own(self.bare(columns.retries_max.as_ref())),
            version = self.version(),
            id = self.id,
            table = self.names.table,
            id_type = self.id_type,
            open = self.by_id_alone(&format!("{}{}", self.is_open(), due.unwrap_or_default())),
            order = self.in_order(),
        )
    }

    fn beside(&self) -> String {
        format!(
            "select e.entry, e.retries, not e.dead and (e.not_before is null or e.not_before <= {NOW}) \
             from {} as e join {} on {LISTED}",
            self.names.entries,
            listed("$2::text[]", "entry")
        )
    }
}
