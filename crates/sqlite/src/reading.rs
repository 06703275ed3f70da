//! What one claim of a cursor reads.

use postrider_core::cursor::Reading;
use rusqlite::Connection;

use crate::decode::Batch;
use crate::run::{Flow, all, each, first};
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
    let limit = i64::try_from(plan.limit).unwrap_or(i64::MAX);
    let mut fits = true;
    let mut take = |row: &rusqlite::Row<'_>| {
        if batch.len() > 0 && batch.bytes() >= bytes_max {
            fits = false;
            return Ok::<_, rusqlite::Error>(Flow::Enough);
        }
        batch.read(row, 0, None)?;
        Ok(Flow::More)
    };
    if plan.ids.is_empty() && plan.ranges.is_empty() {
        each(connection, &sql.after, &[&plan.after, &limit], &mut take)?;
        return Ok(fits && batch.len() < plan.limit);
    }
    let (ids, complete) = gather(connection, sql, plan, limit)?;
    let json = crate::ids::json(&ids.into_iter().map(postrider_core::EntryId::Int).collect::<Vec<_>>());
    each(connection, &sql.listed, &[&json], &mut take)?;
    Ok(fits && complete)
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
