//! Dead rows that hold their key.

use std::collections::HashMap;

use postrider_core::Key;
use rusqlite::{Connection, Row};

use crate::rank::Rank;
use crate::run::all;
use crate::sql::LeaseSql;

/// The first dead row of each key that it holds. Rows that were dead before Postrider came hold none: nothing is kept
/// beside them.
pub(crate) fn holders(
    connection: &Connection,
    sql: &LeaseSql,
    outbox: &str,
    by_time: bool,
) -> rusqlite::Result<HashMap<Key, Rank>> {
    let read = |row: &Row<'_>| {
        let (scope, id) = (row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?);
        Ok((id.map(|id| Key::new(scope, id)), Rank::read(row, by_time.then_some(2), 3)?))
    };
    let mut first: HashMap<Key, Rank> = HashMap::new();
    for (key, rank) in all(connection, &sql.holders, &[&outbox], read)? {
        let (Some(key), Some(rank)) = (key, rank) else { continue };
        if first.get(&key).is_none_or(|known| rank.is_before(known)) {
            first.insert(key, rank);
        }
    }
    Ok(first)
}
