//! A lock on a name, for applications (A3).

use std::time::Duration;

use postrider_core::Layout;
use postrider_core::lock::{Held, LockError, accept};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, GenericClient};

use crate::sql::{in_schema, quoted};

/// Locks on names, kept beside an outbox in the table that `postrider migrate` creates.
///
/// What takes and gives back a lock wants a client, which no transaction is open on; what checks it wants the transaction. Rows
/// of names stay: whoever has very many may delete those that expired more than a day ago.
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
        Self::by(layout, "clock_timestamp()")
    }

    /// By another clock than the server's, as SQL.
    #[doc(hidden)]
    #[must_use]
    pub fn by(layout: &Layout, now: &str) -> Self {
        let locks = in_schema(layout, &quoted(&format!("{}locks", layout.side)));
        let held = format!("name = $1 and fence = $2 and expires_at > {now}");
        Self {
            take: format!(
                "insert into {locks} as l (name, owner, fence, expires_at) values ($1, $2, 1, {now} + $3 * interval '1 microsecond') \
                 on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at \
                 where l.expires_at <= {now} returning fence"
            ),
            renew: format!(
                "update {locks} set expires_at = {now} + $3 * interval '1 microsecond' where {held}"
            ),
            check: format!("select fence from {locks} where {held} for update"),
            release: format!("update {locks} set expires_at = '-infinity' where {held}"),
        }
    }

    /// What [`Self::check`] asks, for other drivers: `$1` the name as text, `$2` the fence as bigint. A row means that the lock
    /// is held, and nobody takes it before the transaction ends.
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
        client: &Client,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Held>, LockError<Error>> {
        let ttl_us = accept(name, ttl)?;
        let params: [(&(dyn ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&owner, Type::TEXT), (&ttl_us, Type::INT8)];
        let rows = client.query_typed(&self.take, &params).await.map_err(LockError::Database)?;
        Ok(rows.first().map(|row| Held { name: name.into(), fence: row.get(0) }))
    }

    /// Keeps the lock for so long from now on; says whether it was still held.
    ///
    /// # Errors
    /// When the time is none, or the database fails.
    pub async fn renew(&self, client: &Client, held: &Held, ttl: Duration) -> Result<bool, LockError<Error>> {
        let ttl_us = accept(&held.name, ttl)?;
        let name = &*held.name;
        let params: [(&(dyn ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&held.fence, Type::INT8), (&ttl_us, Type::INT8)];
        Ok(client.execute_typed(&self.renew, &params).await.map_err(LockError::Database)? == 1)
    }

    /// Whether the lock is still held; if so, nobody takes it before the caller's transaction ends.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn check<C: GenericClient + Sync>(
        &self,
        transaction: &C,
        held: &Held,
    ) -> Result<bool, LockError<Error>> {
        let name = &*held.name;
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&name, Type::TEXT), (&held.fence, Type::INT8)];
        let rows = transaction.query_typed(&self.check, &params).await.map_err(LockError::Database)?;
        Ok(!rows.is_empty())
    }

    /// Gives the lock back; says whether it was still held.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release(&self, client: &Client, held: &Held) -> Result<bool, LockError<Error>> {
        let name = &*held.name;
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&name, Type::TEXT), (&held.fence, Type::INT8)];
        Ok(client.execute_typed(&self.release, &params).await.map_err(LockError::Database)? == 1)
    }
}
