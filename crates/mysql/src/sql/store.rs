//! What operators list and show.

use postrider_core::State;
use postrider_core::layout::{Column, TimeForm};
use postrider_core::rows::Field;

use super::fields::{STATE, column, fields, fields_without_payload, key, text};
use super::seen::Seen;
use super::time::TimeColumn;
use crate::config::Config;
use crate::table::Table;

/// The columns behind the envelope.
pub(crate) mod seen {
    use super::STATE;

    pub(crate) const WORD: usize = STATE;
    pub(crate) const RETRIES: usize = STATE + 1;
    pub(crate) const RETRIES_MAX: usize = STATE + 2;
    pub(crate) const NOT_BEFORE: usize = STATE + 3;
    pub(crate) const ERROR: usize = STATE + 4;
    pub(crate) const HOLDER: usize = STATE + 5;
    pub(crate) const PUBLISHED_AT: usize = STATE + 6;
    /// The table's own word.
    pub(crate) const STATUS: usize = STATE + 7;
    /// What it is ordered by before its id, as a text.
    pub(crate) const LEAD: usize = STATE + 8;
}

/// Rows of one statement: the next is asked for behind the last of them.
pub(crate) const PAGE_ROWS: usize = 1_000;

/// Rows that are tried for somebody's lock when they are counted: more than relays hold at a time.
const LOCKED_ROWS: usize = 10_000;

/// `:outbox` everywhere, and what a cursor takes (`seen_cursor.rs`); a list of rows is asked for by `:older_us` and `:newer_us`, the least and the greatest age (or null),
/// `:keys`, a JSON array of keys' ids (or null), and `:id` and `:lead`, the last row that was seen (or null).
#[derive(Debug)]
pub(crate) struct StoreSql {
    all: String,
    by_state: Vec<(State, String)>,
    /// Rows by their ids, in `:list`.
    pub(crate) listed: String,
    /// One row with its payload, by its id in `:list`.
    pub(crate) shown: String,
    /// The same by its event's id, `:event`.
    pub(crate) shown_by_event: String,
    /// The oldest row that is to be published; of a cursor's table, its id alone.
    pub(crate) oldest: String,
    /// The first rows that could be claimed, as a list has them.
    pub(crate) first_open: String,
    /// Locks those rows of `:list` that nobody has locked, and answers their ids.
    pub(crate) free: String,
    pub(crate) published_at_form: TimeForm,
    pub(crate) has_lead: bool,
}

const STATES: [State; 5] = [State::Pending, State::Leased, State::Published, State::Dead, State::Unknown];

impl StoreSql {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        let rows = Seen::new(config, table);
        let list = |narrowed: &str| {
            let narrowed = format!("{narrowed} and {} and {}", rows.filter(), rows.behind());
            rows.select(false, &rows.from(), &narrowed, PAGE_ROWS)
        };
        let by_ids = format!(
            "{} straight_join {}",
            rows.id.list(":list", ""),
            rows.from().replacen(" left join", &format!(" on {} = g.id left join", rows.id.column), 1)
        );
        let by_event = format!("{} = :event", text(&config.layout, table, Field::EventId));
        Self {
            all: list("true"),
            by_state: STATES.into_iter().map(|state| (state, list(&rows.narrow(state)))).collect(),
            listed: {
                let narrowed = format!("{} and {}", rows.filter(), rows.behind());
                rows.select(false, &by_ids, &narrowed, PAGE_ROWS)
            },
            shown: rows.select(true, &by_ids, "true", 1),
            shown_by_event: rows.select(true, &rows.from(), &by_event, 1),
            oldest: match rows.is_cursor() {
                true => rows.first_unpublished(),
                false => rows.select(false, &rows.from(), &rows.unpublished(), 1),
            },
            first_open: {
                let narrowed =
                    format!("{} and {} and {}", rows.narrow(State::Pending), rows.filter(), rows.behind());
                rows.select(false, &rows.from(), &narrowed, LOCKED_ROWS)
            },
            free: format!(
                "select g.entry from {} {} skip locked",
                rows.id.rows_of(&rows.id.list(":list", ""), &rows.names.table),
                table.server.lock("t")
            ),
            published_at_form: form(config.layout.columns.published_at.as_ref()),
            has_lead: rows.lead.is_some(),
        }
    }

    /// Rows in a state, or all of them, oldest first.
    pub(crate) fn list(&self, state: Option<State>) -> &str {
        let found = self.by_state.iter().find(|(known, _)| Some(*known) == state);
        found.map_or(&self.all, |(_, sql)| sql)
    }
}

fn form(column: Option<&Column>) -> TimeForm {
    match column {
        Some(Column::Named(_, form)) => *form,
        _ => TimeForm::Text,
    }
}

impl Seen<'_> {
    fn select(&self, payload: bool, from: &str, narrowed: &str, rows_max: usize) -> String {
        let (layout, table) = (self.layout, self.table);
        let columns = &layout.columns;
        let fields = if payload { fields(layout, table) } else { fields_without_payload(layout, table) };
        let read = |mapped: &Option<Column>, beside: &str| {
            let name = mapped.as_ref().and_then(Column::name);
            name.map_or(beside.to_owned(), |name| table.kind(name).select(&column(name)))
        };
        let (retries, not_before, error) = if self.is_cursor() {
            ("x.retries".into(), "x.due".into(), "x.error".into())
        } else {
            // What the table did not take is said beside it.
            let error = match columns.error {
                Some(_) => {
                    format!("coalesce(case when s.dead then s.error end, {})", read(&columns.error, "null"))
                }
                None => "s.error".into(),
            };
            (read(&columns.retries, "s.retries"), self.not_before(), error)
        };
        format!(
            "select {fields}, {state}, {retries}, {retries_max}, {not_before}, {error}, {holder}, {published_at}, {status}, {lead} \
             from {from} where {narrowed} order by {order} limit {rows_max}",
            state = self.state(),
            retries_max = read(&columns.retries_max, "null"),
            holder = self.holder(),
            published_at = read(&columns.published_at, "null"),
            status = self.status().map_or("null".into(), |status| {
                format!("cast({} as char character set utf8mb4)", status.column)
            }),
            lead = self.lead.as_ref().map_or("null", |lead| lead.text.as_str()),
            order = self.order(),
        )
    }

    /// Who holds a row: a lease of its own says so, or the table itself.
    fn holder(&self) -> String {
        if self.is_cursor() {
            return "null".into();
        }
        let owner = self.layout.columns.lease_owner.as_ref().and_then(Column::name);
        let is_leased = self.status().and_then(|status| status.is_leased());
        let theirs = owner.zip(is_leased).map_or(String::new(), |(owner, is_leased)| {
            format!("when {is_leased} and s.leased_until is null then {} ", column(owner))
        });
        format!("case when s.leased_until > {} then s.owner {theirs}end", self.names.now)
    }

    /// What the database can tell of a filter. The decoder has the last word: a second more or less is left to it.
    fn filter(&self) -> String {
        let time = TimeColumn::readable(self.layout.columns.time.as_ref(), self.table, self.layout.zone);
        let now = &self.names.now;
        let age = time.map_or("true".into(), |time| {
            let moment = time.moment();
            format!(
                "(:older_us is null or coalesce({moment} < {now} - interval :older_us microsecond + interval 1 second, true)) \
                 and (:newer_us is null or coalesce({moment} > {now} - interval :newer_us microsecond - interval 1 second, true))"
            )
        });
        let (_, id) = key(self.layout, self.table);
        format!("{age} and (:keys is null or json_contains(:keys, json_quote({id})))")
    }

    /// A row that is to be published some day.
    fn unpublished(&self) -> String {
        let open = self.status().map_or("true".into(), |status| status.is_open());
        format!("{open} and not coalesce(s.dead, false)")
    }
}
