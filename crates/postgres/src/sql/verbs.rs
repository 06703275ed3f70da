//! What operators' verbs write.

use postrider_core::layout::{Column, OnDead, Order};

use super::fields::{column, key};
use super::seen::Seen;
use super::time::{TimeColumn, interval};
use super::{Names, in_schema, literal};
use crate::table::Kind;

/// $1 outbox, $2 ids; for `bury`, $3 the reason.
#[derive(Debug)]
pub(crate) struct VerbSql {
    /// Keeps a cursor's relay from writing until the verb has ended: $1 alone.
    pub(crate) hold_position: Option<String>,
    /// Keeps rows from being claimed until the verb has ended, and answers which: those that a relay has are left.
    pub(crate) hold_rows: Option<String>,
    pub(crate) revive: Vec<String>,
    pub(crate) bury: Vec<String>,
    pub(crate) prune: Vec<String>,
    /// $1 outbox, $2 microseconds, $3 at most: idempotency keys that are older.
    pub(crate) forget_keys: String,
    /// $1 alone: a running relay looks again.
    pub(crate) bump_epoch: String,
}

fn forget_keys(names: &Names) -> String {
    let Names { idempotency, .. } = names;
    format!(
        "delete from {idempotency} where outbox = $1 and key in (select key from {idempotency} where outbox = $1 \
         and written_at < clock_timestamp() - {} limit $3)",
        interval("$2::int8")
    )
}

impl VerbSql {
    pub(super) fn new(rows: &Seen<'_>) -> Self {
        if rows.is_cursor() { of_cursor(rows) } else { of_status(rows) }
    }
}

fn of_cursor(rows: &Seen<'_>) -> VerbSql {
    let Names { table, exceptions, position, .. } = rows.names;
    let (scope, id) = key(rows.layout, rows.table);
    let (row, among) = (&rows.id.column, rows.id.among(2));
    // Only where a team's own table keeps what is given up may the outbox be cleaned of it.
    let copy = if rows.layout.sides.failed.is_some() { "row_to_json(t)" } else { "null::json" };
    let mut verbs = VerbSql {
        hold_position: Some(format!("select 1 from {position} where outbox = $1 for update")),
        hold_rows: None,
        revive: vec![format!(
            "update {exceptions} set shelf = 'parked', due = null, retries = 0, error = null \
             where outbox = $1 and entry = any($2::int8[])"
        )],
        bury: vec![format!(
            "insert into {exceptions} as e (outbox, entry, key_scope, key_id, shelf, retries, error, copy) \
             select $1, {row}, case when {id} is not null then {scope} end, {id}, 'dead', 0, $3, {copy} from {} as t where {among} \
             on conflict (outbox, entry) do update set shelf = 'dead', due = null, error = excluded.error, \
             copy = coalesce(e.copy, excluded.copy)",
            rows.rows()
        )],
        prune: vec![format!("delete from {table} as t where {among}")],
        forget_keys: forget_keys(rows.names),
        bump_epoch: format!("update {position} set epoch = epoch + 1 where outbox = $1"),
    };
    // A team's own table says the same, or the relay would take it for a person's change.
    if let Some(failed) = &rows.layout.sides.failed {
        let columns = &failed.columns;
        let (table, id) = (in_schema(rows.layout, &failed.name.quoted()), columns.id.quoted());
        let (retries, due) = (columns.retries.quoted(), columns.not_before.quoted());
        let kept = format!(
            "where {id} in (select failed from {exceptions} where outbox = $1 and entry = any($2::int8[]))"
        );
        verbs.revive.push(format!("update {table} set {retries} = 0, {due} = clock_timestamp() {kept}"));
        let most = rows.layout.retry.retries_max;
        verbs.bury.push(format!("update {table} set {retries} = {most} {kept}"));
    }
    verbs
}

fn of_status(rows: &Seen<'_>) -> VerbSql {
    let Names { table, entries, position, .. } = rows.names;
    let (columns, layout) = (&rows.layout.columns, rows.layout);
    let (among, texts) = (rows.id.among(2), rows.id.as_texts(2));
    let forget = format!("delete from {entries} where outbox = $1 and entry = any({texts})");
    let holds = layout.order == Order::Key && layout.on_dead == OnDead::Hold;
    let dead = !layout.shows_dead();
    let keep = format!(
        "insert into {entries} (outbox, entry, error, holds_key, dead) select $1, id, $3, {holds}, {dead} \
         from unnest({texts}) as id on conflict (outbox, entry) do update set error = excluded.error, \
         holds_key = excluded.holds_key, dead = excluded.dead, owner = null, leased_until = null, fence = null"
    );
    let words = layout.status.as_ref();
    let pending = rows.set(
        words.map(|words| &*words.pending),
        vec![
            rows.to(&columns.retries, |_| "0".into()),
            rows.to(&columns.not_before, |live| rows.no_time(live, &columns.not_before)),
            rows.to(&columns.error, |live| if live { "''".into() } else { "null".into() }),
        ],
    );
    let buried = rows.set(
        words.map(|words| words.dead.as_deref().unwrap_or(&words.pending)),
        vec![rows.to(&columns.error, |_| rows.reason())],
    );
    VerbSql {
        hold_position: None,
        hold_rows: Some(rows.hold()),
        revive: pending.into_iter().chain([forget.clone()]).collect(),
        bury: buried.into_iter().chain([keep]).collect(),
        prune: vec![format!("delete from {table} as t where {among}"), forget],
        forget_keys: forget_keys(rows.names),
        bump_epoch: bump(position),
    }
}

/// A status table has no position until a relay has opened it.
fn bump(position: &str) -> String {
    format!(
        "insert into {position} as p (outbox, position, epoch, start) values ($1, 0, 1, 'status') \
         on conflict (outbox) do update set epoch = p.epoch + 1"
    )
}

impl Seen<'_> {
    fn hold(&self) -> String {
        format!(
            "select {} from {} as t where {} for update skip locked",
            self.table.id_kind(self.layout).select(&self.id.column),
            self.names.table,
            self.id.among(2)
        )
    }

    /// Writes a status word, where the table has any, and more to the rows in $2.
    fn set(&self, word: Option<&str>, others: Vec<Option<String>>) -> Option<String> {
        let status = word.and_then(|word| self.to(&self.layout.columns.status, |_| literal(word)));
        let all: Vec<String> =
            std::iter::once(status).chain(others).chain([self.next_version()]).flatten().collect();
        let (table, among) = (&self.names.table, self.id.among(2));
        (!all.is_empty()).then(|| format!("update {table} as t set {} where {among}", all.join(", ")))
    }

    pub(super) fn next_version(&self) -> Option<String> {
        let version = self.layout.columns.version.as_ref().and_then(Column::name)?;
        let most = match self.table.column(version.as_str()).map(|live| live.declared.as_str()) {
            Some("smallint") => i64::from(i16::MAX),
            Some("integer") => i64::from(i32::MAX),
            _ => i64::MAX,
        };
        Some(format!("{} = coalesce({}, 0) % {most} + 1", version.quoted(), column(version)))
    }

    /// What a mapped column becomes; the value is told whether the column takes no NULL.
    pub(super) fn to(&self, mapped: &Option<Column>, value: impl FnOnce(bool) -> String) -> Option<String> {
        let name = mapped.as_ref().and_then(Column::name)?;
        Some(format!("{} = {}", name.quoted(), value(self.takes_no_null(mapped))))
    }

    pub(super) fn takes_no_null(&self, mapped: &Option<Column>) -> bool {
        let name = mapped.as_ref().and_then(Column::name);
        name.and_then(|name| self.table.column(name.as_str())).is_some_and(|live| live.not_null)
    }

    /// No time: now, where the column has to have one.
    fn no_time(&self, not_null: bool, mapped: &Option<Column>) -> String {
        let time = TimeColumn::new(mapped.as_ref(), self.table, self.layout.zone);
        time.filter(|_| not_null).map_or("null".into(), |time| time.at("clock_timestamp()"))
    }

    /// The reason in $3, cut to its column.
    fn reason(&self) -> String {
        let name = self.layout.columns.error.as_ref().and_then(Column::name);
        let live = name.and_then(|name| self.table.column(name.as_str()));
        match live.and_then(|live| live.characters_max) {
            Some(most) => format!("left($3::text, {most})"),
            None if live.is_some_and(|live| matches!(live.kind, Kind::Json | Kind::Jsonb)) => {
                "to_json($3::text)".into()
            }
            None => "$3::text".into(),
        }
    }
}
