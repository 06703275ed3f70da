//! What was left behind: by holders that died, and by the dead that hold their keys.

use postrider_core::layout::Column;

use super::Parts;
use crate::sql::fields::{column, fields_without_payload};
use crate::sql::literal;

impl Parts<'_> {
    pub(super) fn expired(&self) -> String {
        format!("select entry from {} where outbox = ?1 and leased_until <= ?2", self.entries)
    }

    pub(super) fn orphans(&self) -> String {
        format!("select entry from {} where outbox = ?1 and leased_until is not null", self.entries)
    }

    pub(super) fn foreign(&self) -> Option<String> {
        let word = self.words.leased.as_deref()?;
        let at = self.layout.columns.leased_at.as_ref().and_then(Column::name).map_or("null".into(), column);
        Some(format!(
            "select {id}, {at} from {table} as t where {status} = {word} and not exists ( \
             select 1 from {entries} as s where s.outbox = ?1 and s.entry = +{id} and s.leased_until is not null)",
            id = self.id,
            table = self.table,
            status = self.status(),
            word = literal(word),
            entries = self.entries,
        ))
    }

    pub(super) fn reap(&self) -> String {
        format!(
            "update {} set owner = null, leased_until = null, fence = null \
             where outbox = ?1 and entry in (select value from json_each(?2))",
            self.entries
        )
    }

    pub(super) fn reap_table(&self) -> Option<String> {
        let columns = &self.layout.columns;
        let status = self.bare(columns.status.as_ref())?;
        let mut set = Vec::new();
        if let Some(leased) = &self.words.leased {
            let (leased, pending) = (literal(leased), literal(&self.words.pending));
            set.push(format!("{status} = case t.{status} when {leased} then {pending} else t.{status} end"));
        }
        set.extend(self.unheld());
        self.update_listed(&set)
    }

    pub(super) fn holders(&self) -> String {
        format!(
            "select {fields} from {entries} as s join {table} as t on {row} = s.entry \
             where s.outbox = ?1 and s.holds_key = 1 and {status} = {dead}",
            fields = fields_without_payload(self.layout),
            row = self.id,
            entries = self.entries,
            table = self.table,
            status = self.status(),
            dead = literal(self.words.dead.as_deref().unwrap_or_default()),
        )
    }
}
