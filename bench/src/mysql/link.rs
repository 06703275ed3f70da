//! A connection of the bare loops, and the values that they take out of rows.

use std::hint::black_box;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};

use crate::Outcome;

/// Set as the relay's is.
pub(crate) async fn connect(url: &str) -> Outcome<Conn> {
    let opts = OptsBuilder::from_opts(Opts::from_url(url)?)
        .client_found_rows(true)
        .tcp_nodelay(true)
        .prefer_socket(false)
        .stmt_cache_size(128);
    let mut conn = Conn::new(opts).await?;
    conn.query_drop("set session transaction isolation level read committed").await?;
    conn.query_drop("set session time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'").await?;
    Ok(conn)
}

/// Takes all values of a batch out, and forgets them behind the compiler's back.
pub(crate) fn take_all(rows: Vec<Row>) {
    let values: Vec<_> = rows.into_iter().flat_map(Row::unwrap).collect();
    black_box(&values);
}

/// Ids as the one parameter that a list is.
pub(crate) fn list(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("{{\"e\":\"{id}\"}}")).collect();
    format!("[{}]", ids.join(","))
}
