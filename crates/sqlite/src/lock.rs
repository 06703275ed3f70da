//! A lock on a name, for applications (A3).

use std::time::Duration;

use postrider_core::Layout;
use postrider_core::append::no_transaction;
use postrider_core::lock::{Held, LockError, accept, in_transaction};
use rusqlite::{Connection, Error};

use crate::run::{execute, first};
use crate::sql::quoted;

/// Microseconds since 1970 by the database: all processes on a file share its machine's clock.
const NOW: &str = "(cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000)";

/// Locks on names, kept beside an outbox in the table that `postrider migrate` creates.
///
/// A lock is taken and given back on a connection without a transaction, and checked inside of one. Rows of names stay: whoever
/// has very many may delete those that expired more than a day ago.
#[derive(Clone, Debug)]
pub struct Locks {
    take: String,
    renew: String,
    check: String,
    release: String,
}

impl Locks {
    /// The locks beside an outbox with this layout.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        Self::by(layout, NOW)
    }

    /// By another clock than the database's, as SQL.
    #[doc(hidden)]
    #[must_use]
    pub fn by(layout: &Layout, now: &str) -> Self {
        let locks = quoted(&format!("{}locks", layout.side));
        let held = format!("name = ?1 and fence = ?2 and expires_at > {now}");
        Self {
            take: format!(
                "insert into {locks} as l (name, owner, fence, expires_at) values (?1, ?2, 1, {now} + ?3) \
                 on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at \
                 where l.expires_at <= {now} returning fence"
            ),
            renew: format!("update {locks} set expires_at = {now} + ?3 where {held}"),
            // A write, so that the transaction is the one writer from here on.
            check: format!("update {locks} set fence = fence where {held} returning fence"),
            release: format!("update {locks} set expires_at = 0 where {held}"),
        }
    }

    /// What [`Self::check`] asks, for other drivers: `?1` the name, `?2` the fence. A row means that the lock is held, and
    /// nobody takes it before the transaction ends.
    #[must_use]
    pub fn check_sql(&self) -> &str {
        &self.check
    }

    /// Takes the lock for so long, if nobody has it; `owner` is for people who look at the table.
    ///
    /// # Errors
    /// When the name or the time is none, a transaction is open, or the database fails.
    pub fn take(
        &self,
        connection: &Connection,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Held>, LockError<Error>> {
        let ttl_us = accept(name, ttl)?;
        outside(connection)?;
        let fence = first(connection, &self.take, &[&name, &owner, &ttl_us], |row| row.get(0));
        Ok(fence.map_err(LockError::Database)?.map(|fence| Held { name: name.into(), fence }))
    }

    /// Keeps the lock for so long from now on; says whether it was still held.
    ///
    /// # Errors
    /// When the time is none, a transaction is open, or the database fails.
    pub fn renew(
        &self,
        connection: &Connection,
        held: &Held,
        ttl: Duration,
    ) -> Result<bool, LockError<Error>> {
        let ttl_us = accept(&held.name, ttl)?;
        outside(connection)?;
        let rows = execute(connection, &self.renew, &[&&*held.name, &held.fence, &ttl_us]);
        Ok(rows.map_err(LockError::Database)? == 1)
    }

    /// Whether the lock is still held; if so, nobody takes it before the caller's transaction ends.
    ///
    /// # Errors
    /// When no transaction is open, or the database fails.
    pub fn check(&self, transaction: &Connection, held: &Held) -> Result<bool, LockError<Error>> {
        if transaction.is_autocommit() {
            return Err(no_transaction("what a lock is checked for").into());
        }
        let found = first(transaction, &self.check, &[&&*held.name, &held.fence], |row| row.get::<_, i64>(0));
        Ok(found.map_err(LockError::Database)?.is_some())
    }

    /// Gives the lock back; says whether it was still held.
    ///
    /// # Errors
    /// When a transaction is open, or the database fails.
    pub fn release(&self, connection: &Connection, held: &Held) -> Result<bool, LockError<Error>> {
        outside(connection)?;
        let rows = execute(connection, &self.release, &[&&*held.name, &held.fence]);
        Ok(rows.map_err(LockError::Database)? == 1)
    }
}

fn outside(connection: &Connection) -> Result<(), LockError<Error>> {
    if connection.is_autocommit() { Ok(()) } else { Err(in_transaction().into()) }
}
