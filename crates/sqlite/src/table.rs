//! The live table: what it is, whatever the layout says.

use postrider_core::layout::{Column, Way};
use postrider_core::{Fault, Layout};
use rusqlite::Connection;

use crate::config::Config;
use crate::fault::fault;
use crate::migrate::{SIDE_VERSION, exists, no_table, side_version};
use crate::run::all;
use crate::sql::quoted;

/// A table as the database has it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<LiveColumn>,
    pub(crate) autoincrement: bool,
    /// Each index by the names of its columns, expressions left out.
    pub(crate) indexes: Vec<Vec<String>>,
    /// Those of them that are unique.
    pub(crate) unique: Vec<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct LiveColumn {
    pub(crate) name: String,
    pub(crate) declared: String,
    pub(crate) in_primary_key: bool,
}

impl Table {
    pub(crate) fn read(connection: &Connection, layout: &Layout) -> rusqlite::Result<Self> {
        let schema = layout.schema.as_ref().map_or("main", |schema| schema.as_str());
        let name = layout.table.as_str();
        let columns = all(
            connection,
            "select name, type, pk from pragma_table_xinfo(?1, ?2)",
            &[&name, &schema],
            |row| {
                let (name, declared) = (row.get(0)?, row.get(1)?);
                Ok(LiveColumn { name, declared, in_primary_key: row.get::<_, i64>(2)? > 0 })
            },
        )?;
        let listed = "select l.\"unique\", group_concat(i.name, char(0)) from pragma_index_list(?1, ?2) as l \
                      join pragma_index_info(l.name, ?2) as i group by l.name";
        let indexes = all(connection, listed, &[&name, &schema], |row| {
            let names = row.get::<_, Option<String>>(1)?.unwrap_or_default();
            Ok((row.get::<_, bool>(0)?, names.split('\0').map(str::to_owned).collect::<Vec<_>>()))
        })?;
        let sql = format!(
            "select coalesce(sql, '') from {}.sqlite_schema where name = ?1 and type = 'table'",
            quoted(schema)
        );
        let create =
            all(connection, &sql, &[&name], |row| row.get::<_, String>(0))?.pop().unwrap_or_default();
        Ok(Self {
            columns,
            autoincrement: create.to_ascii_lowercase().contains("autoincrement"),
            unique: indexes.iter().filter(|(unique, _)| *unique).map(|(_, names)| names.clone()).collect(),
            indexes: indexes.into_iter().map(|(_, names)| names).collect(),
        })
    }

    pub(crate) fn column(&self, name: &str) -> Option<&LiveColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether ids are numbers that the table hands out in order.
    pub(crate) fn id_counts(&self, layout: &Layout) -> bool {
        let id = layout.columns.id.as_ref().and_then(Column::name);
        id.and_then(|id| self.column(id.as_str()))
            .is_some_and(|column| column.declared.to_ascii_uppercase().contains("INT"))
    }

    /// Columns that the layout maps and the table does not have: the layout's key and the column's name.
    pub(crate) fn missing<'l>(&self, layout: &'l Layout) -> Vec<(&'l str, &'l str)> {
        let named = layout.columns.given().filter_map(|(key, column)| Some((key, column.name()?.as_str())));
        named.filter(|(_, name)| self.column(name).is_none()).collect()
    }
}

/// Reads the table and refuses what cannot work.
pub(crate) fn inspect(connection: &Connection, config: &Config) -> Result<Table, Fault> {
    let place = config.place();
    let failed = |error| fault(&place, error);
    if !exists(connection, &config.layout).map_err(failed)? {
        return Err(no_table(config));
    }
    let table = Table::read(connection, &config.layout).map_err(failed)?;
    if let Some(missing) = missing_columns(config, &table) {
        return Err(missing);
    }
    if config.layout.way == Way::Cursor && !(table.autoincrement && table.id_counts(&config.layout)) {
        return Err(no_autoincrement(config));
    }
    if side_version(connection, &config.layout).map_err(failed)? < SIDE_VERSION {
        return Err(no_side(config));
    }
    Ok(table)
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

pub(crate) fn no_autoincrement(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "way = \"cursor\" needs an id that is `integer primary key autoincrement`, and this table's is not: SQLite would use ids twice, and events would be lost",
        "Rebuild the table with autoincrement, or use way = \"lease\" with a status column.",
    )
}

pub(crate) fn no_side(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "Postrider's own tables are missing or older than this version",
        "Run `postrider migrate`.",
    )
}
