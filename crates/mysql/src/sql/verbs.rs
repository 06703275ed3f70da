//! What operators' verbs write.

use postrider_core::layout::{Column, OnDead, Order};

use super::seen::Seen;
use super::time::TimeColumn;
use super::{Names, literal, write_down};
use crate::config::Config;
use crate::table::Table;

/// `:outbox` and `:list`; for `bury`, `:reason`. Each statement names what it takes.
#[derive(Debug)]
pub(crate) struct VerbSql {
    /// Keeps a cursor's relay from writing until the verb has ended: `:outbox` alone.
    pub(crate) hold_position: Option<String>,
    /// Keeps rows from being claimed until the verb has ended, and answers which: those that a relay has are left.
    pub(crate) hold_rows: Option<String>,
    pub(crate) revive: Vec<Statement>,
    pub(crate) bury: Vec<Statement>,
    pub(crate) prune: Vec<Statement>,
    /// `:outbox`, `:age_us`, `:most`: idempotency keys that are older.
    pub(crate) forget_keys: String,
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
        if rows.is_cursor() { rows.cursor_verbs() } else { rows.status_verbs(config) }
    }
}

impl Seen<'_> {
    fn status_verbs(&self, config: &Config) -> VerbSql {
        let list = self.id.list(":list", "");
        let listed = self.id.rows_of(&list, &self.names.table);
        let forget = || Statement::Beside {
            sql: format!("delete e from {}", self.id.beside(&list, &self.names.entries)),
            has_reason: false,
        };
        VerbSql {
            hold_position: None,
            hold_rows: Some(format!(
                "select {} from {listed} {} skip locked",
                self.id.column,
                self.table.server.lock("t")
            )),
            revive: self.revive(&listed).into_iter().chain([forget()]).collect(),
            bury: {
                let down = write_down(config, &listed, ":reason", "true");
                let down = down.map(|sql| Statement::Rows { sql, has_reason: true });
                self.bury(&listed).into_iter().chain(down).chain([self.keep(&list)]).collect()
            },
            prune: vec![self.delete(&listed), forget()],
            forget_keys: self.forget_keys(),
            bump_epoch: self.bump_epoch(),
        }
    }

    fn cursor_verbs(&self) -> VerbSql {
        let Names { exceptions, position, .. } = &self.names;
        let list = self.id.list(":list", "");
        let listed = self.id.rows_of(&list, &self.names.table);
        let (scope, id) = self.key();
        VerbSql {
            hold_position: Some(format!("select 1 from {position} where outbox = :outbox for update")),
            hold_rows: None,
            revive: vec![Statement::Beside {
                sql: format!(
                    "update {list} straight_join {exceptions} as x force index (primary) on x.outbox = :outbox and x.entry = g.id \
                     set x.shelf = 'parked', x.due = null, x.retries = 0, x.error = null"
                ),
                has_reason: false,
            }],
            bury: vec![Statement::Beside {
                sql: format!(
                    "insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, retries, error) \
                     select :outbox, {}, case when {id} is not null then {scope} end, {id}, 'dead', 0, :reason from {listed} \
                     on duplicate key update shelf = 'dead', due = null, error = values(error)",
                    self.id.column
                ),
                has_reason: true,
            }],
            prune: vec![self.delete(&listed)],
            forget_keys: self.forget_keys(),
            bump_epoch: self.bump_epoch(),
        }
    }

    fn delete(&self, listed: &str) -> Statement {
        Statement::Rows { sql: format!("delete t from {listed}"), has_reason: false }
    }

    fn forget_keys(&self) -> String {
        let Names { idempotency, now, .. } = &self.names;
        format!(
            "delete from {idempotency} where outbox = :outbox and written_at < {now} - interval :age_us microsecond limit :most"
        )
    }

    /// A table has no position until a relay has opened it.
    fn bump_epoch(&self) -> String {
        format!(
            "insert into {} (outbox, epoch) values (:outbox, 1) on duplicate key update epoch = epoch + 1",
            self.names.position
        )
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
