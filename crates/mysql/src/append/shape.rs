//! The live table as far as appending differs by it: asked once, in texts that every driver can read.

use postrider_core::layout::Identifier;
use postrider_core::nearest::nearest;
use postrider_core::{Fault, Layout};

use crate::table::{Kind, Server};

/// The live table, and what its server is like.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) server: Server,
    /// Bytes that the server takes at once.
    pub(crate) packet_bytes_max: usize,
    /// How far apart the ids of one statement are.
    pub(crate) step: i64,
    columns: Vec<LiveColumn>,
}

/// One of its columns.
#[derive(Clone, Debug)]
pub(crate) struct LiveColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The type as people write it.
    pub(crate) declared: String,
    pub(crate) characters_max: Option<usize>,
    pub(crate) bytes_max: Option<usize>,
    pub(crate) not_null: bool,
    /// Whether the table counts it.
    pub(crate) counts: bool,
    /// Whether `default(…)` tells what the table fills in.
    pub(crate) has_default: bool,
}

#[derive(serde::Deserialize)]
struct Told {
    name: String,
    kind: String,
    declared: String,
    characters_max: Option<usize>,
    bytes_max: Option<usize>,
    not_null: Truth,
    counts: Truth,
    has_default: Truth,
    engine: Option<String>,
    mariadb: Truth,
    packet: usize,
    step: i64,
}

/// A condition, as whichever server writes it.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Truth {
    Word(bool),
    Number(i64),
}

impl Truth {
    fn holds(&self) -> bool {
        matches!(self, Self::Word(true) | Self::Number(1))
    }
}

impl Shape {
    /// Reads what [`crate::sql::append::COLUMNS`] answers: a row for each column.
    ///
    /// # Errors
    /// When there is no such table, or it has no transactions.
    pub(crate) fn read(layout: &Layout, told: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let told: Vec<Told> = told.filter_map(|told| serde_json::from_str(&told).ok()).collect();
        let place = format!("table \"{}\"", layout.table);
        let Some(first) = told.first() else {
            return Err(Fault::new(
                place,
                "there is no such table in this connection's database, or this user may not see it",
                "Run `postrider migrate` for the native layout; for another, name the right table and schema in it",
            ));
        };
        if !first.engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("InnoDB")) {
            return Err(Fault::new(
                place,
                "its engine has no transactions: an event could be there without its effect",
                "Make it an InnoDB table: alter table … engine = InnoDB",
            ));
        }
        Ok(Self {
            server: if first.mariadb.holds() { Server::Mariadb } else { Server::Mysql },
            packet_bytes_max: first.packet,
            step: first.step,
            columns: told.into_iter().map(LiveColumn::from).collect(),
        })
    }

    /// By any case: that is how the database compares names of columns.
    pub(crate) fn find(&self, name: &Identifier) -> Option<&LiveColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name.as_str()))
    }

    pub(crate) fn column(&self, layout: &Layout, name: &Identifier) -> Result<&LiveColumn, Fault> {
        self.find(name).ok_or_else(|| self.missing(layout, name.as_str()))
    }

    pub(crate) fn missing(&self, layout: &Layout, name: &str) -> Fault {
        let near = nearest(name, self.columns.iter().map(|column| column.name.as_str()));
        let near = near.map_or(String::new(), |near| format!(": is it \"{near}\"?"));
        Fault::new(
            format!("table \"{}\"", layout.table),
            format!("layout \"{}\" maps column \"{name}\", and the table has none", layout.name),
            format!("Correct the layout, or add the column{near}"),
        )
    }
}

/// What [`crate::sql::append::COLUMNS`] is asked with.
pub(crate) fn named(layout: &Layout) -> mysql_async::Params {
    let schema = layout.schema.as_ref().map(|schema| schema.as_str());
    mysql_async::Params::Positional(vec![schema.into(), layout.table.as_str().into()])
}

impl From<Told> for LiveColumn {
    fn from(told: Told) -> Self {
        Self {
            kind: Kind::of(&told.kind.to_lowercase()),
            name: told.name,
            declared: told.declared,
            characters_max: told.characters_max,
            bytes_max: told.bytes_max,
            not_null: told.not_null.holds(),
            counts: told.counts.holds(),
            has_default: told.has_default.holds(),
        }
    }
}
