//! The live table: what it is, whatever the layout says.

use mysql_async::{Params, Row, params};
use postrider_core::layout::{Column, Identifier};
use postrider_core::{Fault, Layout};

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::rows::{holds, number, text};
use crate::session::Session;

/// A table as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// `BASE TABLE` or `VIEW`.
    pub(crate) relation: String,
    pub(crate) engine: String,
    pub(crate) partitioned: bool,
    pub(crate) server: Server,
    pub(crate) columns: Vec<LiveColumn>,
    pub(crate) indexes: Vec<Index>,
}

/// Which of the two it is, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Mariadb,
    Mysql,
}

impl Server {
    /// Locks the rows of one table of a join. MySQL has to be told which, or it takes a list for a table that is locked twice;
    /// MariaDB cannot be told.
    pub(crate) fn lock(self, alias: &str) -> String {
        match self {
            Self::Mariadb => "for update".into(),
            Self::Mysql => format!("for update of {alias}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) name: String,
    /// The columns by name; an expression is an empty name.
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
}

impl Index {
    /// Whether the column at a place is this one.
    pub(crate) fn has(&self, at: usize, column: &str) -> bool {
        self.columns.get(at).is_some_and(|name| name.eq_ignore_ascii_case(column))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The type as people write it.
    pub(crate) declared: String,
    pub(crate) not_null: bool,
    pub(crate) unsigned: bool,
    /// Whether the INSERT draws it.
    pub(crate) auto_increment: bool,
    /// Characters that fit, where the type has such a limit.
    pub(crate) characters_max: Option<i64>,
    /// Its character set and collation, where it holds texts.
    pub(crate) collation: Option<(String, String)>,
    /// The words of an enum.
    pub(crate) words: Vec<String>,
}

/// What a column holds, as far as reading it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Real,
    Text,
    Bytes,
    Json,
    /// TIMESTAMP: a moment, whatever the session's zone.
    Moment,
    /// DATETIME: without a zone.
    Local,
    Date,
    Enum,
    /// Read as its text.
    Other,
}

impl Kind {
    pub(crate) fn of(data_type: &str) -> Self {
        match data_type {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Self::Integer,
            "float" | "double" => Self::Real,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Self::Text,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes,
            "json" => Self::Json,
            "timestamp" => Self::Moment,
            "datetime" => Self::Local,
            "date" => Self::Date,
            "enum" => Self::Enum,
            _ => Self::Other,
        }
    }

    /// The column as it is selected, so that [`crate::rows`] can read it.
    pub(crate) fn select(self, column: &str) -> String {
        match self {
            Self::Date => format!("cast({column} as datetime)"),
            Self::Other => format!("cast({column} as char character set utf8mb4)"),
            _ => column.to_owned(),
        }
    }
}

impl LiveColumn {
    /// Whether a word of a layout is a value of the column's type.
    pub(crate) fn takes(&self, word: &str) -> bool {
        match self.kind {
            Kind::Text => self
                .characters_max
                .is_none_or(|most| word.chars().count() <= usize::try_from(most).unwrap_or(usize::MAX)),
            Kind::Enum => self.words.iter().any(|known| known == word),
            Kind::Integer => word.parse::<i64>().is_ok(),
            _ => false,
        }
    }
}

const TABLE: &str = "select table_type, coalesce(engine, ''), version() like '%MariaDB%', \
    coalesce(create_options, '') like '%partitioned%' from information_schema.tables \
    where table_schema = coalesce(:schema, database()) and table_name = :table";

const COLUMNS: &str = "select column_name, data_type, column_type, is_nullable = 'NO', character_maximum_length, \
    character_set_name, collation_name, extra like '%auto_increment%' from information_schema.columns \
    where table_schema = coalesce(:schema, database()) and table_name = :table order by ordinal_position";

const INDEXES: &str = "select index_name, group_concat(coalesce(column_name, '') order by seq_in_index separator '\\n'), \
    max(non_unique) = 0 from information_schema.statistics where table_schema = coalesce(:schema, database()) and table_name = :table \
    group by index_name order by index_name";

impl Table {
    /// Reads the layout's table; none where there is none.
    pub(crate) async fn read(session: &mut Session, layout: &Layout) -> Result<Option<Self>, Error> {
        Self::named(session, layout, &layout.table).await
    }

    /// Reads another table of the layout's.
    pub(crate) async fn named(
        session: &mut Session,
        layout: &Layout,
        table: &Identifier,
    ) -> Result<Option<Self>, Error> {
        let named = || -> Params {
            params! {
                "schema" => layout.schema.as_ref().map(Identifier::as_str),
                "table" => table.as_str(),
            }
        };
        let Some(found) = session.first(TABLE, named()).await? else { return Ok(None) };
        let columns = session.query(COLUMNS, named()).await?;
        let indexes = session.query(INDEXES, named()).await?;
        let index = |row: &Row| Index {
            name: text(row, 0).unwrap_or_default(),
            columns: text(row, 1).unwrap_or_default().split('\n').map(str::to_owned).collect(),
            unique: holds(row, 2),
        };
        Ok(Some(Self {
            relation: text(&found, 0).unwrap_or_default(),
            engine: text(&found, 1).unwrap_or_default(),
            partitioned: holds(&found, 3),
            server: if holds(&found, 2) { Server::Mariadb } else { Server::Mysql },
            columns: columns.iter().map(column).collect(),
            indexes: indexes.iter().map(index).collect(),
        }))
    }

    /// By any case: that is how the database compares names of columns.
    pub(crate) fn column(&self, name: &str) -> Option<&LiveColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// A mapped column.
    pub(crate) fn mapped(&self, column: Option<&Column>) -> Option<&LiveColumn> {
        column.and_then(Column::name).and_then(|name| self.column(name.as_str()))
    }

    /// What a mapped column holds.
    pub(crate) fn kind(&self, name: &Identifier) -> Kind {
        self.column(name.as_str()).map_or(Kind::Other, |column| column.kind)
    }

    /// The id's column.
    pub(crate) fn id(&self, layout: &Layout) -> Option<&LiveColumn> {
        self.mapped(layout.columns.id.as_ref())
    }

    /// The index that finds a row by its id.
    pub(crate) fn id_index(&self, layout: &Layout) -> Option<&Index> {
        let id = self.id(layout)?;
        let own = || self.indexes.iter().filter(|index| index.has(0, &id.name));
        own().find(|index| index.columns.len() == 1).or_else(|| own().next())
    }

    /// Whether ids are numbers, which the table hands out in order.
    pub(crate) fn id_counts(&self, layout: &Layout) -> bool {
        self.id(layout).is_some_and(|id| id.kind == Kind::Integer)
    }

    /// Columns that the layout maps and the table does not have: the layout's key and the column's name.
    pub(crate) fn missing<'l>(&self, layout: &'l Layout) -> Vec<(&'l str, &'l str)> {
        let named = layout.columns.given().filter_map(|(key, column)| Some((key, column.name()?.as_str())));
        named.filter(|(_, name)| self.column(name).is_none()).collect()
    }
}

fn column(row: &Row) -> LiveColumn {
    let (data_type, declared) = (text(row, 1).unwrap_or_default(), text(row, 2).unwrap_or_default());
    LiveColumn {
        name: text(row, 0).unwrap_or_default(),
        kind: Kind::of(&data_type.to_lowercase()),
        unsigned: declared.contains("unsigned"),
        words: if data_type.eq_ignore_ascii_case("enum") { words(&declared) } else { Vec::new() },
        declared,
        not_null: holds(row, 3),
        characters_max: number(row, 4),
        collation: text(row, 5).zip(text(row, 6)),
        auto_increment: holds(row, 7),
    }
}

/// The words of `enum('NEW','it''s')`.
fn words(declared: &str) -> Vec<String> {
    let inside = declared.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    let inside = inside.map_or("", |(inside, _)| inside).trim_matches('\'');
    if inside.is_empty() {
        return Vec::new();
    }
    inside.split("','").map(|word| word.replace("''", "'")).collect()
}

/// Reads the table and refuses what cannot work in any way of claiming.
pub(crate) async fn inspect(session: &mut Session, config: &Config) -> Result<Table, Fault> {
    let read = Table::read(session, &config.layout).await;
    let table = read.map_err(|error| fault(&config.place(), error))?;
    let table = table.ok_or_else(|| crate::migrate::no_table(config))?;
    match missing_columns(config, &table) {
        Some(missing) => Err(missing),
        None => Ok(table),
    }
}

pub(crate) fn missing_columns(config: &Config, table: &Table) -> Option<Fault> {
    let missing = table.missing(&config.layout);
    let (key, name) = missing.first()?;
    let names = missing.iter().map(|(_, name)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let near =
        postrider_core::nearest::nearest(name, table.columns.iter().map(|column| column.name.as_str()));
    let near = near.map_or(String::new(), |near| format!(" The table has \"{near}\": is it that?"));
    Some(Fault::new(
        config.place(),
        format!("layout \"{}\" maps columns that the table does not have: {names}", config.layout.name),
        format!("Correct columns.{key} in the layout, or add the column.{near}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_says_its_words() {
        assert_eq!(words("enum('NEW','it''s','a,b')"), ["NEW", "it's", "a,b"]);
        assert!(words("enum()").is_empty());
    }
}
