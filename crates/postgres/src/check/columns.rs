//! Columns: whether they are there, and whether their types can hold what they are mapped for.

use postrider_core::layout::{Column, Columns, Order, Payload, TimeForm, Way};
use postrider_core::limits;
use postrider_core::nearest::nearest;

use super::Found;
use crate::sql::{Names, quoted};
use crate::table::{Kind, LiveColumn, Table};

/// Without one of these an event is none.
const REQUIRED: [&str; 5] = ["type", "source", "aggregate_type", "aggregate_id", "event_id"];
/// Postrider empties these when a row is given back.
const EMPTIED: [&str; 2] = ["lease_owner", "leased_at"];

impl Found<'_> {
    pub(super) fn columns(&mut self, table: &Table) {
        let layout = self.config.layout.clone();
        for (key, column) in layout.columns.given() {
            match column {
                Column::Named(name, form) => match table.column(name.as_str()) {
                    Some(live) => self.column(key, live, *form),
                    None => self.missing(key, name.as_str(), table),
                },
                Column::Constant(constant) if constant.trim().is_empty() => self.empty_constant(key),
                Column::Constant(_) | Column::Json(_) | Column::Absent => {}
            }
        }
        self.mark(table);
        self.id(table);
        self.topics();
    }

    fn missing(&mut self, key: &str, name: &str, table: &Table) {
        let near = nearest(name, table.columns.iter().map(|column| column.name.as_str()));
        let near = near.map_or(String::new(), |near| format!(" The table has \"{near}\": is it that?"));
        self.fault(
            format!(
                "layout \"{}\" maps {} to \"{name}\", which the table does not have",
                self.layout().name,
                Columns::spelled(key)
            ),
            format!("Correct {} in the layout, or add the column.{near}", Columns::spelled(key)),
        );
    }

    fn empty_constant(&mut self, key: &str) {
        let remedy = format!("Give columns.{key} a value, a column or a JSON path.");
        if REQUIRED.contains(&key) {
            self.fault(format!("columns.{key} is an empty constant, and no event is one without it"), remedy);
        } else {
            self.advise(format!("columns.{key} is an empty constant"), remedy);
        }
    }

    fn column(&mut self, key: &str, live: &LiveColumn, form: TimeForm) {
        match key {
            "time" | "not_before" | "published_at" | "leased_at" => self.time(key, live, form),
            "retries" | "retries_max" | "version" => {
                self.of_kind(key, live, &[Kind::Integer], "an integer");
            }
            "sequence" => self.of_kind(key, live, &[Kind::Integer, Kind::Text], "an integer"),
            "payload" => self.payload(live),
            "error" | "lease_owner" => {
                self.of_kind(key, live, &[Kind::Text], "a text");
                self.width(key, live);
            }
            "extensions" => self.of_kind(key, live, &[Kind::Text, Kind::Json, Kind::Jsonb], "a text or JSON"),
            // Looked at by themselves.
            "status" | "id" | "published" => {}
            _ if live.kind == Kind::Bytes => self.fault(
                format!(
                    "columns.{key} is \"{}\" of type {}, and a text is expected",
                    live.name,
                    live.shown()
                ),
                format!("Map a column of text, or change its type: {}", self.retype(live, "text")),
            ),
            _ => {}
        }
        if EMPTIED.contains(&key) && live.not_null && self.layout().way == Way::Lease {
            self.fault(
                format!(
                    "columns.{key} is \"{}\", which takes no NULL, and a row that is given back has none",
                    live.name
                ),
                format!(
                    "alter table {} alter column {} drop not null;",
                    Names::new(self.layout()).table,
                    quoted(&live.name)
                ),
            );
        }
    }

    fn of_kind(&mut self, key: &str, live: &LiveColumn, kinds: &[Kind], what: &str) {
        if kinds.contains(&live.kind) {
            return;
        }
        self.fault(
            format!("columns.{key} is \"{}\" of type {}, and {what} is expected", live.name, live.shown()),
            format!(
                "Map another column, or leave columns.{key} out of the layout: what the table has no column for is kept beside it."
            ),
        );
    }

    fn time(&mut self, key: &str, live: &LiveColumn, form: TimeForm) {
        let column = format!("columns.{key} is \"{}\" of type {}", live.name, live.shown());
        match (live.kind, form) {
            (Kind::Moment | Kind::Local, _) | (Kind::Text, TimeForm::Text) => {}
            (Kind::Date, _) if key == "not_before" => self.advise(
                format!("{column}, which knows days only: retries would wait until midnight or not at all"),
                format!("Change its type: {}", self.retype(live, "timestamptz")),
            ),
            (Kind::Date, _) => {}
            (Kind::Integer | Kind::Real, TimeForm::Text) => self.fault(
                format!("{column}, and the layout does not say what the number counts"),
                format!(
                    "Write columns.{key} = {{ column = \"{}\", as = \"unix_ms\" }} (or unix_s, unix_us).",
                    live.name
                ),
            ),
            (Kind::Integer, TimeForm::UnixMs | TimeForm::UnixUs)
                if matches!(&*live.declared, "integer" | "smallint") =>
            {
                self.fault(
                    format!("{column}, which is too small for milliseconds since 1970"),
                    format!("Change its type: {}", self.retype(live, "bigint")),
                );
            }
            (Kind::Integer | Kind::Real, _) => {}
            _ => self.fault(
                format!("{column}, which is no time"),
                format!("Map another column, or change its type: {}", self.retype(live, "timestamptz")),
            ),
        }
    }

    fn payload(&mut self, live: &LiveColumn) {
        let column = format!("columns.payload is \"{}\" of type {}", live.name, live.shown());
        match live.kind {
            Kind::Text | Kind::Bytes | Kind::Json => {}
            Kind::Jsonb if self.layout().payload == Payload::Json => {}
            Kind::Jsonb => self.note(
                format!(
                    "{column}: the database writes it anew, so consumers get other bytes than were stored"
                ),
                "Use text or bytea where the bytes matter, for signatures or hashes.",
            ),
            Kind::Other => {
                self.advise(format!("{column}, which is read as its text"), "Use text, bytea, json or jsonb.")
            }
            _ => self.fault(
                format!("{column}, which is no payload"),
                "Map the column that holds the event's data: of text, bytea, json or jsonb.",
            ),
        }
    }

    /// What is written is cut to fit: somebody may miss the end of it.
    fn width(&mut self, key: &str, live: &LiveColumn) {
        let wanted = if key == "error" { limits::REASON_CHARS_MAX } else { 64 };
        let Some(most) =
            live.characters_max.filter(|most| usize::try_from(*most).is_ok_and(|most| most < wanted))
        else {
            return;
        };
        self.advise(
            format!(
                "columns.{key} is \"{}\", which holds {most} characters: what is longer is cut",
                live.name
            ),
            format!("For {wanted} characters: {}", self.retype(live, &format!("varchar({wanted})"))),
        );
    }

    fn id(&mut self, table: &Table) {
        let Some(name) = self.layout().columns.id.as_ref().and_then(Column::name).cloned() else { return };
        let Some(live) = table.column(name.as_str()) else { return };
        if !matches!(live.kind, Kind::Integer | Kind::Text | Kind::Uuid | Kind::Other) {
            self.fault(
                format!(
                    "columns.id is \"{}\" of type {}, by which no row can be found again",
                    live.name,
                    live.shown()
                ),
                "Map the primary key: a number, a UUID or a text.",
            );
        }
        if !is_unique(table, name.as_str()) {
            self.fault(
                format!("columns.id is \"{name}\", which is neither the primary key nor unique: a row is settled by its id"),
                format!(
                    "Map the primary key, or: create unique index concurrently on {} ({});",
                    Names::new(self.layout()).table,
                    name.quoted()
                ),
            );
        } else if !live.not_null {
            self.advise(
                format!("columns.id is \"{name}\", which may be NULL: such a row is never published"),
                format!(
                    "alter table {} alter column {} set not null;",
                    Names::new(self.layout()).table,
                    name.quoted()
                ),
            );
        }
    }

    fn topics(&mut self) {
        let layout = self.config.layout.clone();
        let columns = &layout.columns;
        let patterns = std::iter::once(&layout.topic).chain(layout.topics.values());
        if columns.aggregate_type.is_none()
            && let Some(pattern) = patterns.into_iter().find(|pattern| pattern.contains("{aggregate_type"))
        {
            self.fault(
                format!("topic = \"{pattern}\" asks for the aggregate's type, and columns.aggregate_type is not mapped"),
                "Map columns.aggregate_type (a constant will do), or name the topic without it.",
            );
        }
        if layout.order == Order::Key && columns.key.is_none() && columns.aggregate_id.is_none() {
            self.advise(
                "order = \"key\" is set, and neither columns.key nor columns.aggregate_id is mapped: no entry has a key, and nothing is kept in order",
                "Map the column (or a JSON path into the payload) that says what belongs together.",
            );
        }
    }

    fn retype(&self, live: &LiveColumn, kind: &str) -> String {
        let table = Names::new(self.layout()).table;
        format!("alter table {table} alter column {} type {kind} using …;", quoted(&live.name))
    }
}

/// On a partitioned table that is as unique as PostgreSQL can make it.
fn is_unique(table: &Table, id: &str) -> bool {
    table.indexes.iter().filter(|index| index.unique && index.condition.is_none()).any(|index| {
        match index.columns.as_slice() {
            [only] => only == id,
            [first, ..] => table.relation == 'p' && first == id,
            [] => false,
        }
    })
}
