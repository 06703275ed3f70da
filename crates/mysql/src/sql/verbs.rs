//! What operators' verbs write.

use postrider_core::layout::{Column, OnDead, Order};

use super::seen::Seen;
use super::time::TimeColumn;
use super::{literal, write_down};
use crate::config::Config;
use crate::table::Table;

/// `:outbox` and `:list`; for `bury`, `:reason`. Each statement names what it takes.
#[derive(Debug)]
pub(crate) struct VerbSql {
    /// Keeps rows from being claimed until the verb has ended, and answers which: those that a relay has are left.
    pub(crate) hold_rows: String,
    pub(crate) revive: Vec<Statement>,
    pub(crate) bury: Vec<Statement>,
    pub(crate) prune: Vec<Statement>,
    /// A running relay looks again.
    pub(crate) bump_epoch: String,
}

/// One statement of a verb, and what it is about.
#[derive(Debug)]
pub(crate) enum Statement {
    /// The table: `:list`, and `:reason` where it has a place for it.
    Rows { sql: String, has_reason: bool },
    /// What is kept beside it: `:outbox`, `:list`, and `:reason` likewise.
    Beside { sql: String, has_reason: bool },
}

impl VerbSql {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        let rows = Seen::new(config, table);
        let list = rows.id.list(":list", "");
        let listed = rows.id.rows_of(&list, &rows.names.table);
        let forget = || Statement::Beside {
            sql: format!("delete e from {}", rows.id.beside(&list, &rows.names.entries)),
            has_reason: false,
        };
        let position = &rows.names.position;
        Self {
            hold_rows: format!(
                "select {} from {listed} {} skip locked",
                rows.id.column,
                table.server.lock("t")
            ),
            revive: rows.revive(&listed).into_iter().chain([forget()]).collect(),
            bury: {
                let down = write_down(config, &listed, ":reason", "true");
                let down = down.map(|sql| Statement::Rows { sql, has_reason: true });
                rows.bury(&listed).into_iter().chain(down).chain([rows.keep(&list)]).collect()
            },
            prune: vec![
                Statement::Rows { sql: format!("delete t from {listed}"), has_reason: false },
                forget(),
            ],
            bump_epoch: format!(
                "insert into {position} (outbox, epoch) values (:outbox, 1) on duplicate key update epoch = epoch + 1"
            ),
        }
    }
}

impl Seen<'_> {
    fn revive(&self, listed: &str) -> Option<Statement> {
        let (columns, words) = (&self.layout.columns, self.layout.status.as_ref()?);
        let no_time = |not_null| {
            let time = TimeColumn::new(columns.not_before.as_ref(), self.table, self.layout.zone);
            time.filter(|_| not_null).map_or("null".into(), |time| time.at(&self.names.now))
        };
        let set = [
            self.to(&columns.status, |_| literal(&words.pending)),
            self.to(&columns.retries, |_| "0".into()),
            self.to(&columns.not_before, no_time),
            self.to(&columns.error, |not_null| if not_null { "''".into() } else { "null".into() }),
            self.next_version(),
        ];
        Some(Statement::Rows { sql: update(listed, set), has_reason: false })
    }

    fn bury(&self, listed: &str) -> Option<Statement> {
        let (columns, words) = (&self.layout.columns, self.layout.status.as_ref()?);
        let most = self.table.mapped(columns.error.as_ref()).and_then(|live| live.characters_max);
        let reason = most.map_or(":reason".into(), |most| format!("left(:reason, {most})"));
        let set = [
            self.to(&columns.status, |_| literal(words.dead.as_ref().unwrap_or(&words.pending))),
            self.to(&columns.error, |_| reason),
            self.next_version(),
        ];
        let has_reason = columns.error.as_ref().and_then(Column::name).is_some();
        Some(Statement::Rows { sql: update(listed, set), has_reason })
    }

    fn keep(&self, list: &str) -> Statement {
        let layout = self.layout;
        let holds = layout.order == Order::Key && layout.on_dead == OnDead::Hold;
        let dead = !layout.shows_dead();
        let sql = format!(
            "insert into {} (outbox, entry, error, holds_key, dead) select :outbox, g.entry, :reason, {holds}, {dead} \
             from {list} on duplicate key update error = values(error), holds_key = values(holds_key), \
             dead = values(dead), owner = null, leased_until = null, fence = null",
            self.names.entries
        );
        Statement::Beside { sql, has_reason: true }
    }
}

fn update<const N: usize>(listed: &str, set: [Option<String>; N]) -> String {
    let set: Vec<String> = set.into_iter().flatten().collect();
    format!("update {listed} set {}", set.join(", "))
}
