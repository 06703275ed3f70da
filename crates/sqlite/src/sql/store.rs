//! What operators see: every row with the state that a source would treat it as.

use postrider_core::Layout;
use postrider_core::State;
use postrider_core::layout::{Column, TimeForm, Way};

use super::fields::{STATE, column, fields, fields_without_payload, key, kind};
use super::lease::{form, kept, next_version};
use super::{Names, literal};
use postrider_core::rows::Field;

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
}

/// ?1 outbox, ?2 now, ?3 position, ?4 how far the holder has claimed, ?5 what it gave back of that, ?6 whether its lease is
/// good, ?7 ids.
#[derive(Debug)]
pub(crate) struct StoreSql {
    all: String,
    pending: String,
    leased: String,
    published: String,
    dead: String,
    unknown: String,
    /// Rows by their ids.
    pub(crate) listed: String,
    /// The same with their payload.
    pub(crate) shown: String,
    /// One row by its event's id, as text, in ?7.
    pub(crate) shown_by_event: String,
    pub(crate) not_before_form: TimeForm,
    pub(crate) published_at_form: TimeForm,
    /// What verbs change.
    pub(crate) verbs: VerbSql,
}

/// ?1 outbox, ?2 ids; for `bury`, ?3 the reason.
#[derive(Debug)]
pub(crate) struct VerbSql {
    pub(crate) revive: Vec<String>,
    pub(crate) bury: Vec<String>,
    pub(crate) prune: Vec<String>,
    pub(crate) bump_epoch: String,
}

impl StoreSql {
    pub(crate) fn new(layout: &Layout, names: &Names, id_counts: bool) -> Self {
        let view = View::new(layout, names, id_counts);
        let columns = &layout.columns;
        Self {
            all: view.select(false, "true"),
            pending: view.select(false, &view.narrow(State::Pending)),
            leased: view.select(false, &view.narrow(State::Leased)),
            published: view.select(false, &view.narrow(State::Published)),
            dead: view.select(false, &view.narrow(State::Dead)),
            unknown: view.select(false, &view.narrow(State::Unknown)),
            listed: view.select(false, &view.by_ids()),
            shown: view.select(true, &view.by_ids()),
            shown_by_event: view.select(true, &view.by_event()),
            not_before_form: match layout.way {
                Way::Cursor => TimeForm::UnixUs,
                _ => columns.not_before.as_ref().map_or(TimeForm::UnixUs, form),
            },
            published_at_form: columns.published_at.as_ref().map_or(TimeForm::Text, form),
            verbs: if layout.way == Way::Cursor { cursor_verbs(&view) } else { status_verbs(&view) },
        }
    }

    /// Rows in a state, or all of them, oldest first.
    pub(crate) fn list(&self, state: Option<State>) -> &str {
        match state {
            None => &self.all,
            Some(State::Pending) => &self.pending,
            Some(State::Leased) => &self.leased,
            Some(State::Published) => &self.published,
            Some(State::Dead) => &self.dead,
            Some(State::Unknown) => &self.unknown,
        }
    }
}

pub(super) struct View<'a> {
    pub(super) layout: &'a Layout,
    pub(super) names: &'a Names,
    pub(super) id: String,
    id_counts: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(layout: &'a Layout, names: &'a Names, id_counts: bool) -> Self {
        let id = layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id");
        Self { layout, names, id: column(id), id_counts }
    }

    fn select(&self, payload: bool, narrowed: &str) -> String {
        let columns = &self.layout.columns;
        let fields = if payload { fields(self.layout) } else { fields_without_payload(self.layout) };
        let (retries, not_before, error, holder) = match self.layout.way {
            Way::Cursor => ("x.retries".into(), "x.due".into(), "x.error".into(), "null"),
            _ => (
                kept(columns.retries.as_ref(), "s.retries"),
                kept(columns.not_before.as_ref(), "s.not_before"),
                kept(columns.error.as_ref(), "s.error"),
                "case when s.leased_until > ?2 then s.owner end",
            ),
        };
        let named =
            |mapped: &Option<Column>| mapped.as_ref().and_then(Column::name).map_or("null".into(), column);
        format!(
            "select {fields}, {state}, {retries}, {retries_max}, {not_before}, {error}, {holder}, {published_at}, {status} \
             from {from} where {narrowed} order by {order}",
            state = self.state(),
            retries_max = named(&columns.retries_max),
            published_at = named(&columns.published_at),
            status = named(&columns.status),
            from = self.from(),
            order = self.order(),
        )
    }

    fn order(&self) -> String {
        let time = self.layout.columns.time.as_ref().and_then(Column::name).filter(|_| !self.id_counts);
        time.map_or(self.id.clone(), |time| format!("{}, {}", column(time), self.id))
    }

    pub(super) fn from(&self) -> String {
        let (table, id) = (&self.names.table, &self.id);
        match self.layout.way {
            Way::Cursor => format!(
                "{table} as t left join {} as x on x.outbox = ?1 and x.entry = {id} \
                 left join {} as c on c.outbox = ?1 and c.entry = {id}",
                self.names.exceptions, self.names.claims
            ),
            // The plus takes the id's affinity away: with it the index on the entry, which has none, would not be used.
            _ => format!(
                "{table} as t left join {} as s on s.outbox = ?1 and s.entry = +{id}",
                self.names.entries
            ),
        }
    }

    /// The state's word.
    fn state(&self) -> String {
        if self.layout.way == Way::Cursor {
            return format!(
                "case when ?6 and c.entry is not null then 'leased' \
                 when x.shelf = 'dead' then 'dead' when x.entry is not null then 'pending' \
                 when {id} > ?3 and ?6 and {id} <= ?4 and {id} not in (select value from json_each(?5)) then 'leased' \
                 when {id} > ?3 or {parked} then 'pending' else 'published' end",
                id = self.id,
                parked = self.parked(),
            );
        }
        let words = self.layout.status.as_ref().expect("a status table has its words");
        let status = kept(self.layout.columns.status.as_ref(), "null");
        let leased = words.leased.as_deref().map_or(String::new(), |word| {
            format!("when {status} = {} and s.leased_until is null then 'leased' ", literal(word))
        });
        let published = words
            .published
            .as_deref()
            .map_or(String::new(), |word| format!("when {status} = {} then 'published' ", literal(word)));
        format!(
            "case {published}when {status} = {dead} then 'dead' when s.leased_until > ?2 then 'leased' {leased}\
             when {status} in ({open}) then 'pending' else 'unknown' end",
            dead = literal(words.dead.as_deref().unwrap_or_default()),
            open = self.open_words(),
        )
    }

    /// Whether a row's kind is parked as a whole.
    fn parked(&self) -> String {
        format!(
            "exists (select 1 from {} as r where r.outbox = ?1 and r.first <= {} and r.event_type = {} and r.aggregate_type = {})",
            self.names.ranges,
            self.id,
            kind(self.layout, Field::Type),
            kind(self.layout, Field::AggregateType),
        )
    }

    fn open_words(&self) -> String {
        let words = self.layout.status.as_ref().expect("a status table has its words");
        words.open().chain(words.leased.as_deref()).map(literal).collect::<Vec<_>>().join(", ")
    }

    /// A status that is none of the layout's words, or none at all.
    pub(super) fn is_unknown(&self) -> String {
        let words = self.layout.status.as_ref().expect("a status table has its words");
        let status = kept(self.layout.columns.status.as_ref(), "null");
        let closed: Vec<String> =
            words.published.iter().chain(&words.dead).map(|word| literal(word)).collect();
        format!("({status} in ({}, {})) is not true", self.open_words(), closed.join(", "))
    }

    /// Rows of a state, by what an index knows before the state itself is worked out.
    fn narrow(&self, state: State) -> String {
        let is = format!("({}) = {}", self.state(), literal(state.word()));
        let (id, exceptions) = (&self.id, &self.names.exceptions);
        let first = match (self.layout.way, state) {
            (Way::Cursor, State::Dead) => {
                format!("{id} in (select entry from {exceptions} where outbox = ?1 and shelf = 'dead')")
            }
            (Way::Cursor, State::Published) => format!("{id} <= ?3"),
            (Way::Cursor, State::Leased) => {
                format!("({id} > ?3 or {id} in (select entry from {} where outbox = ?1))", self.names.claims)
            }
            // Where no kind is parked, nothing below the position is pending but the exceptions.
            (Way::Cursor, State::Pending) => format!(
                "({id} > ?3 or {id} in (select entry from {exceptions} where outbox = ?1) \
                 or {id} >= (select min(first) from {} where outbox = ?1))",
                self.names.ranges
            ),
            // It has no status.
            (Way::Cursor, State::Unknown) => "false".into(),
            (_, state) => {
                let words = self.layout.status.as_ref().expect("a status table has its words");
                let status = kept(self.layout.columns.status.as_ref(), "null");
                match state {
                    State::Dead => {
                        format!("{status} = {}", literal(words.dead.as_deref().unwrap_or_default()))
                    }
                    State::Published => {
                        format!("{status} = {}", literal(words.published.as_deref().unwrap_or_default()))
                    }
                    State::Pending | State::Leased => format!("{status} in ({})", self.open_words()),
                    State::Unknown => self.is_unknown(),
                }
            }
        };
        format!("{first} and {is}")
    }

    fn by_ids(&self) -> String {
        format!("{} in (select value from json_each(?7))", self.id)
    }

    fn by_event(&self) -> String {
        format!("{} = ?7", kind(self.layout, Field::EventId))
    }

    pub(super) fn id_counts(&self) -> bool {
        self.id_counts
    }

    fn bump_epoch(&self) -> String {
        format!("update {} set epoch = epoch + 1 where outbox = ?1", self.names.position)
    }
}

fn cursor_verbs(view: &View<'_>) -> VerbSql {
    let Names { table, exceptions, .. } = view.names;
    let (scope, id) = key(view.layout);
    let row = &view.id;
    VerbSql {
        revive: vec![format!(
            "update {exceptions} set shelf = 'parked', due = null, retries = 0, error = null \
             where outbox = ?1 and entry in (select value from json_each(?2))"
        )],
        bury: vec![format!(
            "insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, retries, error) \
             select ?1, {row}, {scope}, {id}, 'dead', 0, ?3 from {table} as t \
             where {row} in (select value from json_each(?2)) \
             on conflict (outbox, entry) do update set shelf = 'dead', due = null, error = excluded.error"
        )],
        prune: vec![format!("delete from {table} as t where {row} in (select value from json_each(?2))")],
        bump_epoch: view.bump_epoch(),
    }
}

fn status_verbs(view: &View<'_>) -> VerbSql {
    let columns = &view.layout.columns;
    let words = view.layout.status.as_ref().expect("a status table has its words");
    let (table, entries, row) = (&view.names.table, &view.names.entries, &view.id);
    let bare = |mapped: &Option<Column>| mapped.as_ref().and_then(Column::name).map(|name| name.quoted());
    let set = |word: &str, others: Vec<Option<String>>| {
        let status = bare(&columns.status).map(|status| format!("{status} = {}", literal(word)));
        let version = bare(&columns.version)
            .map(|version| format!("{version} = {}", next_version(&format!("t.{version}"))));
        let all: Vec<String> = std::iter::once(status).chain(others).chain([version]).flatten().collect();
        format!("update {table} as t set {} where {row} in (select value from json_each(?2))", all.join(", "))
    };
    let to = |mapped: &Option<Column>, value: &str| bare(mapped).map(|name| format!("{name} = {value}"));
    let holds = u8::from(
        view.layout.order == postrider_core::layout::Order::Key
            && view.layout.on_dead == postrider_core::layout::OnDead::Hold,
    );
    VerbSql {
        revive: vec![
            set(
                &words.pending,
                vec![to(&columns.retries, "0"), to(&columns.not_before, "null"), to(&columns.error, "null")],
            ),
            format!("delete from {entries} where outbox = ?1 and entry in (select value from json_each(?2))"),
        ],
        bury: vec![
            set(words.dead.as_deref().unwrap_or_default(), vec![to(&columns.error, "?3")]),
            format!(
                "insert into {entries} (outbox, entry, error, holds_key) \
                 select ?1, value, ?3, {holds} from json_each(?2) where true on conflict (outbox, entry) do update \
                 set error = excluded.error, holds_key = excluded.holds_key, owner = null, leased_until = null, fence = null"
            ),
        ],
        prune: vec![
            format!("delete from {table} as t where {row} in (select value from json_each(?2))"),
            format!("delete from {entries} where outbox = ?1 and entry in (select value from json_each(?2))"),
        ],
        bump_epoch: view.bump_epoch(),
    }
}
