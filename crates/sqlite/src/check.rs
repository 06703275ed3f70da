//! Comparing a layout with the live table, before anything runs.

use postrider_core::finding::{Finding, Weight};
use postrider_core::layout::{Column, Order, Way};
use postrider_core::{Fault, Layout};
use rusqlite::Connection;

use crate::config::Config;
use crate::connection::open;
use crate::fault::fault;
use crate::migrate::{SIDE_VERSION, exists, no_table, side_version};
use crate::run::first;
use crate::sql::Names;
use crate::table::{Table, missing_columns, no_autoincrement, no_side};

/// Compares the layout with the live table; the heaviest findings come first.
#[must_use]
pub fn check(config: &Config) -> Vec<Finding> {
    let mut findings = match examine(config) {
        Ok(findings) => findings,
        Err(fault) => vec![Finding { weight: Weight::Fault, fault }],
    };
    findings.sort_by_key(|finding| finding.weight);
    findings
}

fn examine(config: &Config) -> Result<Vec<Finding>, Fault> {
    config.validate()?;
    let place = config.place();
    let failed = |error| fault(&place, error);
    let connection = open(config)?;
    if !exists(&connection, &config.layout).map_err(failed)? {
        return Err(no_table(config));
    }
    let table = Table::read(&connection, &config.layout).map_err(failed)?;
    let mut findings = Vec::new();
    let mut found = |weight, fault| findings.push(Finding { weight, fault });
    if let Some(missing) = missing_columns(config, &table) {
        return Err(missing);
    }
    if let Some(unfit) = config.start.and_then(|start| start.fits(&config.layout, &place).err()) {
        found(Weight::Fault, unfit);
    }
    if side_version(&connection, &config.layout).map_err(failed)? < SIDE_VERSION {
        found(Weight::Fault, no_side(config));
    }
    let counts = table.id_counts(&config.layout);
    if config.layout.way == Way::Cursor && !(counts && table.autoincrement) {
        found(Weight::Fault, no_autoincrement(config));
    }
    if !has_unique_id(&table, &config.layout) {
        found(Weight::Fault, id_not_unique(config));
    }
    if config.layout.way == Way::Lease && has_odd_ids(&connection, &config.layout).map_err(failed)? {
        found(Weight::Fault, odd_ids(config));
    }
    if config.layout.way == Way::Cursor
        && let Some(rows) = below_one(&connection, &config.layout).map_err(failed)?
    {
        found(Weight::Advice, ids_below_one(config, rows));
    }
    if let Some(advice) = index_advice(config, &table, counts) {
        found(Weight::Advice, advice);
    }
    found(Weight::Note, order_note(config, counts));
    Ok(findings)
}

/// A row is settled by its id: it must be the only one that has it.
fn has_unique_id(table: &Table, layout: &Layout) -> bool {
    let Some(id) = layout.columns.id.as_ref().and_then(Column::name) else { return false };
    let keys: Vec<_> = table.columns.iter().filter(|column| column.in_primary_key).collect();
    let is_key = matches!(keys[..], [key] if key.name.eq_ignore_ascii_case(id.as_str()));
    is_key
        || table
            .unique
            .iter()
            .any(|index| matches!(&index[..], [only] if only.eq_ignore_ascii_case(id.as_str())))
}

fn has_odd_ids(connection: &Connection, layout: &Layout) -> rusqlite::Result<bool> {
    let Some(id) = layout.columns.id.as_ref().and_then(Column::name) else { return Ok(false) };
    let sql = format!(
        "select 1 from {} where typeof({}) not in ('integer', 'text') limit 1",
        Names::new(layout).table,
        id.quoted()
    );
    Ok(first(connection, &sql, &[], |_| Ok(()))?.is_some())
}

/// Rows with an id that no table hands out by itself, at or below the position: written later, they are never read.
fn below_one(connection: &Connection, layout: &Layout) -> rusqlite::Result<Option<i64>> {
    let names = Names::new(layout);
    let Some(id) = layout.columns.id.as_ref().and_then(Column::name) else { return Ok(None) };
    if side_version(connection, layout)? < SIDE_VERSION {
        return Ok(None);
    }
    let sql = format!(
        "select count(*) from {} where {id} <= 0 and {id} <= (select position from {} where outbox = ?1)",
        names.table,
        names.position,
        id = id.quoted()
    );
    let rows = first(connection, &sql, &[&layout.table.as_str()], |row| row.get(0))?;
    Ok(rows.filter(|rows| *rows > 0))
}

fn ids_below_one(config: &Config, rows: i64) -> Fault {
    Fault::new(
        config.place(),
        format!("{rows} rows have an id of 0 or less, at or below the position: they count as published"),
        "Let SQLite hand out the ids. Rows that were written like this after reading had begun were not sent: insert them anew without an id.",
    )
}

fn id_not_unique(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "the column that columns.id maps is neither the primary key nor unique",
        "Map the primary key, or add a unique index on the column.",
    )
}

fn odd_ids(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "some rows have an id that is NULL, bytes or a fraction: they cannot be settled and are passed by",
        "Give every row an id that is a number or a text; UUIDs as text.",
    )
}

/// Without an index that begins with the status, every claim reads the whole table.
fn index_advice(config: &Config, table: &Table, counts: bool) -> Option<Fault> {
    let status = config.layout.columns.status.as_ref().and_then(Column::name)?;
    let leads =
        |index: &Vec<String>| index.first().is_some_and(|name| name.eq_ignore_ascii_case(status.as_str()));
    if table.indexes.iter().any(leads) {
        return None;
    }
    let time = config.layout.columns.time.as_ref().and_then(Column::name).filter(|_| !counts);
    let behind = time.map_or(String::new(), |time| format!(", {}", time.quoted()));
    Some(Fault::new(
        config.place(),
        format!("no index begins with {}: each claim reads the whole table", status.quoted()),
        format!(
            "create index {} on {} ({}{behind});",
            crate::sql::quoted(&format!("{}_open", config.layout.table)),
            Names::new(&config.layout).table,
            status.quoted()
        ),
    ))
}

/// F2: what order the table can give.
fn order_note(config: &Config, counts: bool) -> Fault {
    let (problem, remedy) = match (config.layout.order, counts) {
        (Order::Key, true) => ("events of one key are published in the order of their ids", ""),
        (Order::Key, false) => (
            "ids do not count: events of one key are published by (time, id), which is causal only as far as the writers' clocks are",
            "For strict order add an `integer primary key autoincrement` column and map it as columns.id.",
        ),
        (Order::None, _) => (
            "order = \"none\": events are published about in the order of their time, and by several relays side by side",
            "",
        ),
    };
    Fault::new(config.place(), problem, remedy)
}
