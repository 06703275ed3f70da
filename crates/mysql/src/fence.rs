//! One active relay: a fenced lease that expires, by the database's clock.

use mysql_async::params;

use crate::config::Config;
use crate::fault::Error;
use crate::session::Session;
use crate::sql::Names;

/// The lease on one outbox, as this process sees it.
#[derive(Debug)]
pub(crate) struct Fence {
    outbox: String,
    owner: String,
    ttl_us: i64,
    /// The row stays for ever, so that the fence never goes back.
    create: String,
    /// Takes or renews it, and says the fence by `last_insert_id`.
    take: String,
    renew: String,
    fresh: String,
    give_up: String,
}

/// How this process stands to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds it, under this fence.
    Mine(i64),
    /// Another process holds it.
    Others,
}

impl Fence {
    pub(crate) fn new(config: &Config) -> Self {
        let names = Names::new(config);
        let (leases, now) = (&names.leases, &names.now);
        let until = names.after(":ttl_us");
        let one = "outbox = :outbox and name = 'relay'";
        Self {
            outbox: config.layout.table.as_str().to_owned(),
            owner: config.holder.clone(),
            ttl_us: config.ttl_us(),
            create: format!(
                "insert ignore into {leases} (outbox, name, owner, fence, expires_at) \
                 values (:outbox, 'relay', '', 0, '1970-01-01')"
            ),
            // Assignments are made one after the other: the fence sees the owner that was.
            take: format!(
                "update {leases} set fence = last_insert_id(if(owner = :owner and fence = :held, fence, fence + 1)), \
                 owner = :owner, expires_at = {until} where {one} and (owner = :owner or expires_at <= {now})"
            ),
            renew: format!(
                "update {leases} set expires_at = {until} where {one} and owner = :owner and fence = :held"
            ),
            fresh: format!(
                "select 1 from {leases} where {one} and owner = :owner and fence = :held and expires_at > {until}"
            ),
            give_up: format!(
                "update {leases} set expires_at = '1970-01-01' where {one} and owner = :owner and fence = :held"
            ),
        }
    }

    /// Takes the lease where it is free, renews it where `held` is this process's own. A new fence means that it was lost, or
    /// never held.
    pub(crate) async fn take(&self, session: &mut Session, held: Option<i64>) -> Result<Standing, Error> {
        session.execute(&self.create, params! { "outbox" => &self.outbox }).await?;
        let done = session.execute(&self.take, self.params(held.unwrap_or(-1), self.ttl_us)).await?;
        Ok(match done.rows {
            0 => Standing::Others,
            _ => Standing::Mine(i64::try_from(done.said).unwrap_or(i64::MAX)),
        })
    }

    /// Whether the lease is held, and two thirds of its time are left.
    pub(crate) async fn is_fresh(&self, session: &mut Session, held: i64) -> Result<bool, Error> {
        Ok(session.first(&self.fresh, self.params(held, self.ttl_us / 3 * 2)).await?.is_some())
    }

    /// Says whether it is still held.
    pub(crate) async fn renew(&self, session: &mut Session, held: i64) -> Result<bool, Error> {
        Ok(session.execute(&self.renew, self.params(held, self.ttl_us)).await?.rows == 1)
    }

    pub(crate) async fn give_up(&self, session: &mut Session, held: i64) -> Result<(), Error> {
        let params = params! { "outbox" => &self.outbox, "owner" => &self.owner, "held" => held };
        session.execute(&self.give_up, params).await.map(drop)
    }

    fn params(&self, held: i64, ttl_us: i64) -> mysql_async::Params {
        params! { "outbox" => &self.outbox, "owner" => &self.owner, "held" => held, "ttl_us" => ttl_us }
    }
}
