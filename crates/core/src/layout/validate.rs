//! What a layout must be: an impossible mapping is named before any table is touched.

mod sides;

use super::{Column, Identifier, Layout, MessageForm, Numbers, Published, Shape, TimeForm, Way};
use crate::route::check_topic;
use crate::{Fault, Names, limits, name};

/// The parts of an entry that are times.
const TIMES: [&str; 5] = ["time", "not_before", "published_at", "leased_at", "published"];
/// The parts that Postrider writes, or finds rows by: only a column can hold them.
const WRITTEN: [&str; 12] = [
    "id",
    "payload",
    "hash",
    "status",
    "retries",
    "retries_max",
    "not_before",
    "error",
    "published_at",
    "lease_owner",
    "leased_at",
    "version",
];

/// Where a person is to write a status word: nobody but the table's owner knows it.
pub const TO_FILL_IN: &str = "?";

/// Columns that become attributes: a database's function takes so many, twice.
const EXTRA_MAX: usize = 32;

impl Layout {
    /// Whether the mapping is possible. Run by [`Layout::parse`], and again where a field was overridden.
    ///
    /// # Errors
    /// The first thing that is impossible, with its remedy.
    pub fn validate(&self, place: &str) -> Result<(), Fault> {
        let checks = [
            Self::names_are_sound,
            Self::columns_are_possible,
            Self::numbers_have_a_place,
            Self::topics_are_sound,
            Self::message_is_possible,
            Self::words_are_sound,
            Self::way_has_its_columns,
            Self::sides_are_possible,
        ];
        let fault = |(problem, remedy): Problem| {
            Fault::new(format!("{place}: layout \"{}\"", self.name), problem, remedy)
        };
        checks.into_iter().try_for_each(|check| check(self)).map_err(fault)
    }

    fn names_are_sound(&self) -> Result<(), Problem> {
        const NAME_BYTES_MAX: usize = 100;
        // Postrider's own tables have up to 16 more characters after the prefix.
        const SIDE_BYTES_MAX: usize = 40;
        let plain = |text: &str| {
            !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control)
        };
        require(plain(&self.name), || {
            ("its name is empty, too long or has control characters".into(), "Give it a short name.".into())
        })?;
        require(plain(&self.topic), || {
            (
                "its topic is empty, too long or has control characters".into(),
                "Name a topic, for example topic = \"{domain}-events\".".into(),
            )
        })?;
        let position = self.sides.position.as_ref().map(|table| ("position.table.name", &table.name));
        let failed = self.sides.failed.as_ref().map(|table| ("retry.table.name", &table.name));
        for (key, table) in [("table", &self.table)].into_iter().chain(position).chain(failed) {
            require(!table.as_str().contains('.'), || has_a_dot(key, table))?;
        }
        require(self.side.as_str().len() <= SIDE_BYTES_MAX, || {
            (
                format!("side = \"{}\" is longer than {SIDE_BYTES_MAX} bytes", self.side),
                "Choose a shorter prefix.".into(),
            )
        })?;
        require((1..=limits::BATCH_ENTRIES_MAX).contains(&self.batch), || {
            (
                format!("batch = {} is not from 1 to {}", self.batch, limits::BATCH_ENTRIES_MAX),
                "Choose a batch within these bounds; 1000 is the usual one.".into(),
            )
        })
    }

    fn numbers_have_a_place(&self) -> Result<(), Problem> {
        let has_place = matches!(self.columns.sequence, Some(Column::Named(..) | Column::Json(_)));
        require(self.numbers == Numbers::Writer || has_place, || {
            (
                "numbers = \"append\", and there is no place for a number".into(),
                "Map columns.sequence: a column, or a path into the payload such as { json = \"$.sequenceNumber\" }."
                    .into(),
            )
        })
    }

    fn columns_are_possible(&self) -> Result<(), Problem> {
        let columns = &self.columns;
        for (key, column) in [
            ("id", &columns.id),
            ("type", &columns.event_type),
            ("payload", &columns.payload),
            ("time", &columns.time),
        ] {
            require(column.is_some(), || {
                (
                    format!("columns.{key} is missing"),
                    format!(
                        "Name the table's column for it, or, where it has none, add one{}.",
                        match key {
                            "type" => " or give a constant",
                            "time" => " or write { none = true }: then events are sent without a time",
                            _ => "",
                        }
                    ),
                )
            })?;
        }
        require(columns.extra.is_empty() || columns.extensions.is_none(), || {
            (
                "columns.extensions and [columns.extra] are both given, and an attribute could be in either"
                    .into(),
                "Keep one of them.".into(),
            )
        })?;
        require(columns.extra.iter().count() <= EXTRA_MAX, || {
            (
                format!("[columns.extra] has more than {EXTRA_MAX} columns"),
                "Put the rest into the payload.".into(),
            )
        })?;
        for (key, column) in columns.given() {
            require(*column != Column::Absent || key == "time", || {
                (
                    format!("columns.{key} is {{ none = true }}, and only columns.time can be"),
                    "Name a column or give a constant.".into(),
                )
            })?;
            let named = column.name().is_some();
            require(named || !WRITTEN.contains(&key), || {
                (
                    format!(
                        "columns.{key} is a constant or a JSON path, and Postrider has to find or write it"
                    ),
                    format!(
                        "Name a column, or leave columns.{key} out: then it is kept in Postrider's own table."
                    ),
                )
            })?;
            let formed = matches!(column, Column::Named(_, form) if *form != TimeForm::Text);
            require(!formed || TIMES.contains(&key), || {
                (format!("columns.{key} is no time, and has a time's form"), "Leave out \"as\" there.".into())
            })?;
        }
        if let Some(Column::Constant(time)) = &columns.time {
            require(self.zone.read(time).is_some(), || {
                (
                    format!("columns.time is the constant \"{time}\", which is no time"),
                    "Write it like 2026-01-01T00:00:00Z.".into(),
                )
            })?;
        }
        if let Some(Column::Constant(number)) = &columns.sequence {
            require(number.parse::<i64>().is_ok(), || {
                (
                    format!("columns.sequence is the constant \"{number}\", which is no number"),
                    "Map a column or a JSON path.".into(),
                )
            })?;
        }
        Ok(())
    }

    fn words_are_sound(&self) -> Result<(), Problem> {
        let Some(words) = &self.status else { return Ok(()) };
        let given: Vec<_> = words.given().collect();
        let open: Vec<_> = given
            .iter()
            .filter(|(_, word)| *word == TO_FILL_IN)
            .map(|(key, _)| format!("status.{key}"))
            .collect();
        require(open.is_empty(), || {
            (
                format!("{} is yet to be filled in", open.join(" and ")),
                format!("Write the table's own word in place of \"{TO_FILL_IN}\"."),
            )
        })?;
        for (at, (key, word)) in given.iter().enumerate() {
            require(!word.is_empty(), || {
                (format!("status.{key} is empty"), "Give the word that the table has for it.".into())
            })?;
            if let Some((other, _)) = given[..at].iter().find(|(_, before)| before == word) {
                return Err((format!("status.{key} and status.{other} are the same word \"{word}\""), "Each state needs a word of its own; leave out what the table has no word for (leased, retry).".into()));
            }
        }
        Ok(())
    }

    fn way_has_its_columns(&self) -> Result<(), Problem> {
        let (way, columns) = (self.way.word(), &self.columns);
        if self.way == Way::Cursor || self.way == Way::Log {
            require(columns.status.is_none() && self.status.is_none(), || {
                (
                    format!("way = \"{way}\" never writes a status, and a status is mapped"),
                    "Use way = \"lease\" for a status table, or leave [status] and columns.status out."
                        .into(),
                )
            })?;
            require(self.published != Published::Column, || {
                (
                    format!("way = \"{way}\" writes to no row, and published = {{ column = … }} is set"),
                    "Use way = \"lease\" for a table whose rows say that they are published, or leave published out.".into(),
                )
            })?;
            return require(self.published == Published::Status, || {
                (
                    format!("way = \"{way}\" does not delete, and published = \"delete\" is set"),
                    "Leave published out and set a retention instead.".into(),
                )
            });
        }
        if self.published == Published::Column {
            return self.column_shows_published();
        }
        // Where published rows are deleted, every row that is there is pending, unless Postrider's own table has it as dead.
        if self.published == Published::Delete && columns.status.is_none() && self.status.is_none() {
            return Ok(());
        }
        require(columns.status.is_some(), || {
            (
                format!("way = \"{way}\" needs a status column, and columns.status is missing"),
                "Map it, set published = { column = \"sent_at\" } where a time or a flag shows what is published or \
                 published = \"delete\" where published rows are deleted, or use way = \"cursor\" on a table with an \
                 auto-incremented id."
                    .into(),
            )
        })?;
        let words = self.status.as_ref().ok_or_else(|| {
            (
                format!("way = \"{way}\" needs the table's status words, and [status] is missing"),
                "Give at least pending and published.".to_owned(),
            )
        })?;
        require(words.published.is_some() || self.published == Published::Delete, || {
            (
                "status.published is missing".into(),
                "Give the word for published entries, or set published = \"delete\".".into(),
            )
        })
    }
}

impl Layout {
    /// A row is published as soon as its column holds something: nothing else may write there.
    fn column_shows_published(&self) -> Result<(), Problem> {
        let columns = &self.columns;
        require(columns.status.is_none() && self.status.is_none(), || {
            (
                "published = { column = … } is for a table without a status, and a status is mapped".into(),
                "Give the word for published entries in [status], and leave published out; or leave columns.status and [status] out."
                    .into(),
            )
        })?;
        let mark = columns.published.as_ref().and_then(Column::name);
        let other = columns
            .given()
            .find(|(key, column)| *key != "published" && mark.is_some() && column.name() == mark);
        match other {
            Some(("published_at", _)) => Err((
                "published.column and columns.published_at are the same column".into(),
                "Leave columns.published_at out: published.column says it already.".into(),
            )),
            Some((key, _)) => Err((
                format!("published.column and columns.{key} are the same column"),
                "Name the column that is empty until an entry is published.".into(),
            )),
            None => Ok(()),
        }
    }

    fn topics_are_sound(&self) -> Result<(), Problem> {
        require(self.topics.len() <= limits::TOPICS_MAX, || {
            (
                format!("[topics] has more than {} types", limits::TOPICS_MAX),
                "Say it with a pattern in topic.".into(),
            )
        })?;
        let pattern_is_sound = |key: &str, pattern: &str| {
            check_topic(pattern).map_err(|(problem, remedy)| (format!("{key}: {problem}"), remedy))
        };
        pattern_is_sound("topic", &self.topic)?;
        for (event_type, topic) in &self.topics {
            pattern_is_sound(&format!("[topics] \"{event_type}\""), topic)?;
            require(is_plain(event_type) && is_plain(topic), || {
                (
                    "in [topics], a type or its topic is empty, too long or has control characters".into(),
                    "Write it like \"loopers.product.viewed.v1\" = \"product-view-events\".".into(),
                )
            })?;
            require(self.names == Names::Free || name::fault(event_type).is_none(), || {
                (
                    format!(
                        "[topics] has \"{event_type}\", which is off the convention and can never be appended"
                    ),
                    "Write it like loopers.product.viewed.v1, or set names = \"free\".".into(),
                )
            })?;
        }
        Ok(())
    }

    fn message_is_possible(&self) -> Result<(), Problem> {
        let MessageForm { shape, id_as } = &self.message;
        require(*shape != Shape::Structured || id_as.is_none(), || {
            (
                "message.id_as is for form = \"binary\" or \"payload\": a structured message has its id in the member \"id\" already".into(),
                "Leave id_as out, or choose form = \"binary\".".into(),
            )
        })?;
        require(*shape != Shape::Payload || self.names == Names::Free, || {
            (
                "message is \"payload\", and by names = \"convention\" consumers are promised every attribute: id, type, source, \
                 time and the aggregate could not be told from the payload alone"
                    .into(),
                "Choose message = \"binary\" (the payload as it is, the attributes as headers) or \"structured\".".into(),
            )
        })
    }
}

/// Whoever writes `shop.outbox` means a schema and a table, and would get a table of that very name.
fn has_a_dot(key: &str, table: &Identifier) -> Problem {
    let (schema, name) = table.as_str().rsplit_once('.').unwrap_or_default();
    let bare = |part: &str| part.trim_matches('"').to_owned();
    (
        format!("{key} = \"{table}\" has a dot, and a schema is no part of a table's name"),
        format!(
            "Write schema = \"{}\" and {key} = \"{}\"; a table whose own name has a dot has to be renamed.",
            bare(schema),
            bare(name)
        ),
    )
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= limits::TYPE_BYTES_MAX && !text.chars().any(char::is_control)
}

type Problem = (String, String);

fn require(holds: bool, problem: impl FnOnce() -> Problem) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(problem()) }
}
