//! A lock on a name, for applications (A3).

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, params};
use postrider_core::Layout;
use postrider_core::lock::{Held, LockError, accept};

use crate::sql::{place, quoted};

/// A holder has checked its lock, and its transaction takes longer than locks are waited for here; or two wait for each other.
const IN_THE_WAY: [u16; 2] = [1205, 1213];
/// Characters of an owner that are kept.
const OWNER_CHARS: usize = 255;

/// Locks on names, kept beside an outbox in the table that `postrider migrate` creates.
///
/// What takes and gives back a lock wants a connection, which no transaction is open on; what checks it wants the transaction.
/// Rows of names stay: whoever has very many may delete those that expired more than a day ago.
#[derive(Clone, Debug)]
pub struct Locks {
    take_over: String,
    take_first: String,
    fence: String,
    renew: String,
    check: String,
    release: String,
}

impl Locks {
    /// The locks beside an outbox with this layout.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        Self::by(layout, "utc_timestamp(6)")
    }

    /// By another clock than the server's, as SQL.
    #[doc(hidden)]
    #[must_use]
    pub fn by(layout: &Layout, now: &str) -> Self {
        let locks = format!("{}{}", place(layout), quoted(&format!("{}locks", layout.side)));
        let until = format!("({now} + interval :ttl_us microsecond)");
        let held = format!("name = :name and fence = :fence and expires_at > {now}");
        Self {
            // Every row that it finds it changes: the rows that it counts are the same on every connection.
            take_over: format!(
                "update {locks} set owner = :owner, fence = fence + 1, expires_at = {until} \
                 where name = :name and expires_at <= {now}"
            ),
            take_first: format!(
                "insert ignore into {locks} (name, owner, fence, expires_at) values (:name, :owner, 1, {until})"
            ),
            fence: format!("select fence from {locks} where name = :name"),
            renew: format!("update {locks} set expires_at = {until} where {held}"),
            check: format!(
                "select fence from {locks} where name = ? and fence = ? and expires_at > {now} for update"
            ),
            release: format!("update {locks} set expires_at = '1970-01-01' where {held}"),
        }
    }

    /// What [`Self::check`] asks, for other drivers: `?` the name and the fence. A row means that the lock is held, and nobody
    /// takes it before the transaction ends.
    #[must_use]
    pub fn check_sql(&self) -> &str {
        &self.check
    }

    /// Takes the lock for so long, if nobody has it; `owner` is for people who look at the table.
    ///
    /// # Errors
    /// When the name or the time is none, or the database fails.
    pub async fn take(
        &self,
        conn: &mut Conn,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Held>, LockError<Error>> {
        let ttl_us = accept(name, ttl)?;
        let owner: String = owner.chars().take(OWNER_CHARS).collect();
        let given = || -> Params {
            params! { "name" => name, "owner" => &owner, "ttl_us" => ttl_us }
        };
        let held = |fence| Ok(Some(Held { name: name.into(), fence }));
        match changed(conn, &self.take_over, given()).await {
            // Nobody else changes the row before it expires: what is read is what was written.
            Ok(1) => match conn.exec_first::<i64, _, _>(&self.fence, params! { "name" => name }).await {
                Ok(Some(fence)) => return held(fence),
                Ok(None) => return Ok(None),
                Err(error) => return Err(LockError::Database(error)),
            },
            Ok(_) => {}
            Err(error) if is_in_the_way(&error) => return Ok(None),
            Err(error) => return Err(LockError::Database(error)),
        }
        match changed(conn, &self.take_first, given()).await {
            Ok(1) => held(1),
            Ok(_) => Ok(None),
            Err(error) if is_in_the_way(&error) => Ok(None),
            Err(error) => Err(LockError::Database(error)),
        }
    }

    /// Keeps the lock for so long from now on; says whether it was still held.
    ///
    /// # Errors
    /// When the time is none, or the database fails.
    pub async fn renew(&self, conn: &mut Conn, held: &Held, ttl: Duration) -> Result<bool, LockError<Error>> {
        let ttl_us = accept(&held.name, ttl)?;
        let given = params! { "name" => &*held.name, "fence" => held.fence, "ttl_us" => ttl_us };
        match changed(conn, &self.renew, given).await {
            Ok(1) => Ok(true),
            // A row that stays as it is, because no microsecond has passed, is not counted on every connection.
            Ok(_) => self.check(conn, held).await,
            Err(error) => Err(LockError::Database(error)),
        }
    }

    /// Whether the lock is still held; if so, nobody takes it before the caller's transaction ends.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn check<C: Queryable>(
        &self,
        transaction: &mut C,
        held: &Held,
    ) -> Result<bool, LockError<Error>> {
        let given = (&*held.name, held.fence);
        let found: Option<i64> =
            transaction.exec_first(&self.check, given).await.map_err(LockError::Database)?;
        Ok(found.is_some())
    }

    /// Gives the lock back; says whether it was still held.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release(&self, conn: &mut Conn, held: &Held) -> Result<bool, LockError<Error>> {
        let given = params! { "name" => &*held.name, "fence" => held.fence };
        changed(conn, &self.release, given).await.map(|rows| rows == 1).map_err(LockError::Database)
    }
}

async fn changed(conn: &mut Conn, sql: &str, given: Params) -> Result<u64, Error> {
    let result = conn.exec_iter(sql, given).await?;
    let rows = result.affected_rows();
    result.drop_result().await?;
    Ok(rows)
}

fn is_in_the_way(error: &Error) -> bool {
    matches!(error, Error::Server(said) if IN_THE_WAY.contains(&said.code))
}
