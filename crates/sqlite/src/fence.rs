//! One active relay: a fenced lease that expires.
//!
//! Time is the machine's: processes that share a SQLite file share its clock.

use rusqlite::Connection;

use crate::run::{execute, first};
use crate::sql::Names;

/// The lease on one outbox, as this process sees it.
#[derive(Debug)]
pub(crate) struct Fence {
    outbox: String,
    owner: String,
    ttl_us: i64,
    /// The fence of the lease that this process believes to hold.
    held: Option<i64>,
    read: String,
    take: String,
    renew: String,
    give_up: String,
}

/// How this process stands to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds it; whether a third of its time has passed, so that it wants to be renewed.
    Mine { renew: bool },
    /// Nobody holds it, or not any more.
    Free,
    /// Another process holds it.
    Others,
}

impl Fence {
    pub(crate) fn new(names: &Names, outbox: &str, owner: &str, ttl_us: i64) -> Self {
        let leases = &names.leases;
        Self {
            outbox: outbox.to_owned(),
            owner: owner.to_owned(),
            ttl_us,
            held: None,
            read: format!(
                "select owner, fence, expires_at from {leases} where outbox = ?1 and name = 'relay'"
            ),
            take: format!(
                "insert into {leases} (outbox, name, owner, fence, expires_at) values (?1, 'relay', ?2, 1, ?3) \
                 on conflict (outbox, name) do update \
                 set owner = excluded.owner, fence = fence + 1, expires_at = excluded.expires_at \
                 returning fence"
            ),
            renew: format!("update {leases} set expires_at = ?2 where outbox = ?1 and name = 'relay'"),
            // The row stays, so that the fence never goes back.
            give_up: format!(
                "update {leases} set expires_at = 0 where outbox = ?1 and name = 'relay' and owner = ?2 and fence = ?3"
            ),
        }
    }

    /// The fence of the lease that this process believes to hold.
    pub(crate) fn held(&self) -> Option<i64> {
        self.held
    }

    pub(crate) fn forget(&mut self) {
        self.held = None;
    }

    pub(crate) fn standing(&self, connection: &Connection, now_us: i64) -> rusqlite::Result<Standing> {
        let row = first(connection, &self.read, &[&self.outbox], |row| {
            Ok((row.get_ref(0)?.as_str()? == self.owner, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?;
        Ok(match row {
            Some((true, fence, expires)) if self.held == Some(fence) && expires > 0 => {
                Standing::Mine { renew: expires - now_us < self.ttl_us - self.ttl_us / 3 }
            }
            // A clock that was set back must not make a lease last for ever.
            Some((_, _, expires))
                if expires <= now_us || expires - now_us > 2 * self.ttl_us.max(LONGEST_TTL_US) =>
            {
                Standing::Free
            }
            Some((true, _, _)) | None => Standing::Free,
            Some((false, _, _)) => Standing::Others,
        })
    }

    /// Takes the lease over: whoever held it is fenced off from here on.
    pub(crate) fn take(&mut self, connection: &Connection, now_us: i64) -> rusqlite::Result<()> {
        let until = now_us + self.ttl_us;
        self.held = first(connection, &self.take, &[&self.outbox, &self.owner, &until], |row| row.get(0))?;
        Ok(())
    }

    pub(crate) fn renew(&self, connection: &Connection, now_us: i64) -> rusqlite::Result<()> {
        execute(connection, &self.renew, &[&self.outbox, &(now_us + self.ttl_us)]).map(drop)
    }

    /// Whether a claim that was made under `fence` may still be settled; asked within the settling transaction.
    pub(crate) fn is_good(&self, connection: &Connection, fence: i64) -> rusqlite::Result<bool> {
        let row = first(connection, &self.read, &[&self.outbox], |row| {
            Ok((row.get_ref(0)?.as_str()? == self.owner, row.get::<_, i64>(1)?))
        })?;
        Ok(row == Some((true, fence)))
    }

    pub(crate) fn give_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if let Some(fence) = self.held.take() {
            execute(connection, &self.give_up, &[&self.outbox, &self.owner, &fence])?;
        }
        Ok(())
    }
}

/// Processes may have different ttls; no configuration allows a longer one.
const LONGEST_TTL_US: i64 = 3_600_000_000;
