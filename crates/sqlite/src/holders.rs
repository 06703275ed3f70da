//! Dead rows that hold their key.

use std::collections::HashMap;

use postrider_core::Key;
use postrider_core::rows::{Batch, Decoder, Field};
use rusqlite::Connection;

use crate::rank::Rank;
use crate::run::{Flow, each, values};
use crate::sql::LeaseSql;

/// The first dead row of each key that it holds. Rows that were dead before Postrider came hold none: nothing is kept
/// beside them. Keys are found by the decoder: a dead row may be dead because its key is none.
pub(crate) fn holders(
    connection: &Connection,
    sql: &LeaseSql,
    decoder: &Decoder,
    outbox: &str,
    by_time: bool,
) -> rusqlite::Result<HashMap<Key, Rank>> {
    let mut first: HashMap<Key, Rank> = HashMap::new();
    each(connection, &sql.holders, &[&outbox], |row| {
        let rank = Rank::read(row, by_time.then_some(Field::Time as usize), Field::Id as usize)?;
        let mut batch = Batch::new(decoder);
        batch.read(0, None, values(row))?;
        let key = batch.finish().pop().and_then(|entry| entry.key);
        if let (Some(key), Some(rank)) = (key, rank)
            && first.get(&key).is_none_or(|known| rank.is_before(known))
        {
            first.insert(key.owned(), rank);
        }
        Ok::<_, rusqlite::Error>(Flow::More)
    })?;
    Ok(first)
}
