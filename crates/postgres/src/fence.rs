//! One active relay: a fenced lease that expires, by the database's clock.

use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::Error;
use crate::session::Session;
use crate::sql::Names;

/// The lease on one outbox, as this process sees it.
#[derive(Debug)]
pub(crate) struct Fence {
    pub(crate) outbox: String,
    pub(crate) owner: String,
    ttl_us: i64,
    /// $1 outbox, $2 owner, $3 ttl, $4 the fence that is believed to be held. Takes, renews or answers who has it.
    take: String,
    /// $1 outbox, $2 owner, $3 ttl, $4 fence.
    renew: String,
    give_up: String,
    /// $1 outbox, $2 owner, $3 two thirds of the ttl, $4 fence.
    fresh: String,
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
        let leases = Names::new(&config.layout).leases;
        let until = "clock_timestamp() + $3 * interval '1 microsecond'";
        Self {
            outbox: config.layout.table.as_str().to_owned(),
            owner: config.holder.clone(),
            ttl_us: config.ttl_us(),
            // The row stays for ever, so that the fence never goes back.
            take: format!(
                "insert into {leases} as l (outbox, name, owner, fence, expires_at) values ($1, 'relay', $2, 1, {until}) \
                 on conflict (outbox, name) do update set owner = excluded.owner, expires_at = excluded.expires_at, \
                 fence = case when l.owner = $2 and l.fence = $4 then l.fence else l.fence + 1 end \
                 where l.owner = $2 or l.expires_at <= clock_timestamp() returning fence"
            ),
            renew: format!(
                "update {leases} set expires_at = {until} where outbox = $1 and name = 'relay' and owner = $2 and fence = $4"
            ),
            fresh: format!(
                "select 1 from {leases} where outbox = $1 and name = 'relay' and owner = $2 and fence = $4 \
                 and expires_at > {until}"
            ),
            give_up: format!(
                "update {leases} set expires_at = '-infinity' \
                 where outbox = $1 and name = 'relay' and owner = $2 and fence = $3"
            ),
        }
    }

    /// Takes the lease where it is free, renews it where `held` is this process's own. A new fence means that it was lost, or
    /// never held.
    pub(crate) async fn take(&self, session: &Session, held: Option<i64>) -> Result<Standing, Error> {
        let row = session
            .first(
                &self.take,
                &[
                    (&self.outbox, Type::TEXT),
                    (&self.owner, Type::TEXT),
                    (&self.ttl_us, Type::INT8),
                    (&held, Type::INT8),
                ],
            )
            .await?;
        Ok(row.map_or(Standing::Others, |row| Standing::Mine(row.get(0))))
    }

    /// Whether the lease is held, and two thirds of its time are left.
    pub(crate) async fn is_fresh(&self, session: &Session, fence: i64) -> Result<bool, Error> {
        let left_us = self.ttl_us / 3 * 2;
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&self.owner as _, Type::TEXT),
            (&left_us as _, Type::INT8),
            (&fence as _, Type::INT8),
        ];
        Ok(session.first(&self.fresh, &params).await?.is_some())
    }

    /// Says whether it is still held.
    pub(crate) async fn renew(&self, session: &Session, fence: i64) -> Result<bool, Error> {
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&self.owner as _, Type::TEXT),
            (&self.ttl_us as _, Type::INT8),
            (&fence as _, Type::INT8),
        ];
        Ok(session.execute(&self.renew, &params).await? == 1)
    }

    pub(crate) async fn give_up(&self, session: &Session, fence: i64) -> Result<(), Error> {
        let params =
            [(&self.outbox as _, Type::TEXT), (&self.owner as _, Type::TEXT), (&fence as _, Type::INT8)];
        session.execute(&self.give_up, &params).await.map(drop)
    }
}
