//! Running compiled statements.

use postrider_core::rows::Value;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, ToSql};

/// Parameters by number. A layout may leave out a part that a parameter is for: only those that the statement has are bound.
pub(crate) type Parameters<'a> = &'a [&'a dyn ToSql];

/// Runs a statement that answers nothing; says how many rows it changed.
pub(crate) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: Parameters<'_>,
) -> rusqlite::Result<usize> {
    bound(connection, sql, parameters)?.raw_execute()
}

/// Runs a query and takes its rows until `take` has enough.
pub(crate) fn each<E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    parameters: Parameters<'_>,
    mut take: impl FnMut(&Row<'_>) -> Result<Flow, E>,
) -> Result<(), E> {
    let mut statement = bound(connection, sql, parameters)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if take(row)? == Flow::Enough {
            break;
        }
    }
    Ok(())
}

/// Whether a query goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Enough,
}

/// All rows of a query.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    parameters: Parameters<'_>,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut found = Vec::new();
    each(connection, sql, parameters, |row| {
        found.push(read(row)?);
        Ok::<_, rusqlite::Error>(Flow::More)
    })?;
    Ok(found)
}

/// The first row of a query, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    parameters: Parameters<'_>,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut statement = bound(connection, sql, parameters)?;
    let mut rows = statement.raw_query();
    rows.next()?.map(read).transpose()
}

/// The values of a row, by their columns.
pub(crate) fn values<'r>(row: &'r Row<'_>) -> impl FnMut(usize) -> rusqlite::Result<Value<'r>> {
    |at| value(row, at)
}

/// The value in one column.
pub(crate) fn value<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<Value<'r>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(text),
        ValueRef::Blob(bytes) => Value::Blob(bytes),
    })
}

/// A text, whatever its bytes are: a statement copied it from a row that anybody may have written.
pub(crate) fn lenient(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}

fn bound<'c>(
    connection: &'c Connection,
    sql: &str,
    parameters: Parameters<'_>,
) -> rusqlite::Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(sql)?;
    for at in 1..=statement.parameter_count() {
        if let Some(value) = parameters.get(at - 1) {
            statement.raw_bind_parameter(at, value)?;
        }
    }
    Ok(statement)
}
