//! Who may still write below an id: the transactions that live.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use mysql_async::Params;
use postrider_core::status::Census;

use crate::config::Config;
use crate::fault::Error;
use crate::rows::{holds, number, text};
use crate::session::Session;
use crate::table::Table;

/// The right that it takes is missing.
const NO_PROCESS: u16 = 1227;

/// Several servers that draw ids of one table: no list of transactions has all of them.
const SEVERAL: &str = "show global variables where (variable_name = 'auto_increment_increment' and value <> '1') \
    or (variable_name in ('wsrep_on', 'group_replication_enforce_update_everywhere_checks') and value in ('ON', '1'))";

/// A transaction is a thread and a time, which is listed a moment after it has drawn its first id; `XA PREPARE` turns the thread
/// to 0 (MEASUREMENTS).
pub(crate) const LIST: Census = Census {
    grace_us: 200_000,
    is_renamed: |_| false,
    alias: |name| name.split_once('/').map(|(_, start)| format!("0/{start}")),
};

/// What can be told of those who draw ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// All of them are listed.
    Listed,
    /// The right to see them is missing.
    NoRight,
    /// Ids are not drawn by the INSERT, or by several servers.
    Untold,
}

/// Whether those who draw the ids of a table can be told.
pub(crate) async fn may_list(session: &mut Session, config: &Config, table: &Table) -> Result<Owners, Error> {
    let drawn = table.id(&config.layout).is_some_and(|id| id.auto_increment);
    if !drawn || !session.ask(SEVERAL).await?.is_empty() {
        return Ok(Owners::Untold);
    }
    Ok(match list(session).await? {
        Listing::NoRight => Owners::NoRight,
        Listing::Alive(_) | Listing::Old => Owners::Listed,
    })
}

/// The transactions that live, without the one that asks: it has drawn no id. The view is a cache that is made anew only when
/// nobody has read it for 100 ms, and so may be as old as anybody's readings are many: it counts if it shows this very question.
pub(crate) async fn list(session: &mut Session) -> Result<Listing, Error> {
    static QUESTIONS: AtomicU64 = AtomicU64::new(0);
    let question = QUESTIONS.fetch_add(1, Ordering::Relaxed);
    let asks = format!(
        "select concat(coalesce(trx_mysql_thread_id, 0), '/', trx_started), coalesce(trx_mysql_thread_id, 0) = connection_id(), \
         coalesce(trx_query like '%question {question} of postrider%', 0) from information_schema.innodb_trx"
    );
    // Only whoever has a transaction is shown.
    session.begin_shown().await?;
    let answer = session.ask(&asks).await;
    session.commit().await?;
    let rows = match answer {
        Err(error) if error.code() == Some(NO_PROCESS) => return Ok(Listing::NoRight),
        answer => answer?,
    };
    let is_fresh = rows.iter().any(|row| holds(row, 1) && holds(row, 2));
    let others = rows.iter().filter(|row| !holds(row, 1)).filter_map(|row| text(row, 0));
    Ok(if is_fresh { Listing::Alive(others.collect()) } else { Listing::Old })
}

/// What was said of the transactions that live.
pub(crate) enum Listing {
    Alive(BTreeSet<String>),
    /// Others read it all the time: it is to be asked for later.
    Old,
    /// The right to see them is missing.
    NoRight,
}

/// The last id of a table, and when it was asked for, in microseconds of the server's clock.
pub(crate) async fn last(session: &mut Session, sql: &str) -> Result<Option<(i64, i64)>, Error> {
    let row = session.first(sql, Params::Empty).await?;
    Ok(row.and_then(|row| Some((number(&row, 0)?, number(&row, 1)?))))
}
