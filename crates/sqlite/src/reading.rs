//! What one claim of a cursor reads.

use postrider_core::cursor::Reading;
use postrider_core::rows::Batch;
use rusqlite::Connection;

use crate::run::{Flow, Parameters, all, each, first, values};
use crate::sql::CursorSql;

/// Reads the rows of a plan into a batch, in id order; says whether all of them fit.
///
/// Where more than the rows behind the position is asked for, ids are gathered first. All of it sees what is committed:
/// a row that appears in between lies behind everything read.
pub(crate) fn read(
    connection: &Connection,
    sql: &CursorSql,
    plan: &Reading,
    bytes_max: usize,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<bool> {
    if is_plain(plan) {
        return read_after(connection, &sql.after, plan.after, plan.limit, bytes_max, batch);
    }
    let (ids, complete) = gather(connection, sql, plan, i64::try_from(plan.limit).unwrap_or(i64::MAX))?;
    let json = crate::ids::json(&ids.into_iter().map(postrider_core::EntryId::Int).collect::<Vec<_>>());
    Ok(fill(connection, &sql.listed, &[&json], bytes_max, batch)? && complete)
}

/// Whether only the rows behind the position are asked for.
pub(crate) fn is_plain(plan: &Reading) -> bool {
    plan.ids.is_empty() && plan.ranges.is_empty()
}

/// Reads the rows behind an id; says whether that is all of them.
pub(crate) fn read_after(
    connection: &Connection,
    after_sql: &str,
    after: i64,
    limit: usize,
    bytes_max: usize,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<bool> {
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(fill(connection, after_sql, &[&after, &rows_max], bytes_max, batch)? && batch.len() < limit)
}

/// Says whether every row fits.
fn fill(
    connection: &Connection,
    sql: &str,
    parameters: Parameters<'_>,
    bytes_max: usize,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<bool> {
    let mut fits = true;
    each(connection, sql, parameters, |row| {
        if !batch.is_empty() && batch.bytes() >= bytes_max {
            fits = false;
            return Ok::<_, rusqlite::Error>(Flow::Enough);
        }
        batch.read(0, None, values(row))?;
        Ok(Flow::More)
    })?;
    Ok(fits)
}

/// The highest id that the table ever had.
pub(crate) fn highest(connection: &Connection, sql: &CursorSql) -> rusqlite::Result<i64> {
    Ok(first(connection, &sql.highest, &[], |row| row.get(0))?.unwrap_or(0))
}

/// The first ids of all parts together, and whether that is all of them.
fn gather(
    connection: &Connection,
    sql: &CursorSql,
    plan: &Reading,
    limit: i64,
) -> rusqlite::Result<(Vec<i64>, bool)> {
    let mut ids = plan.ids.clone();
    for range in &plan.ranges {
        let (event_type, aggregate_type) = (&*range.kind.event_type, &*range.kind.aggregate_type);
        let parameters: [&dyn rusqlite::ToSql; 5] =
            [&range.first, &range.last, &event_type, &aggregate_type, &limit];
        ids.extend(all(connection, &sql.range_ids, &parameters, |row| row.get::<_, i64>(0))?);
    }
    ids.extend(all(connection, &sql.after_ids, &[&plan.after, &limit], |row| row.get::<_, i64>(0))?);
    ids.sort_unstable();
    ids.dedup();
    let complete = ids.len() < plan.limit;
    ids.truncate(plan.limit);
    Ok((ids, complete))
}
