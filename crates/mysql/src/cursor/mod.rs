//! The cursor way: an append-only table is read by id, and one position is written per batch.
//!
//! Ids are drawn before their transactions commit, so a reader that only moves forward would lose events. What it passes
//! unseen is kept as a gap until nobody is left who could fill it (`postrider_core::gaps`); all the deciding is core's, and
//! what is here asks and writes, in the order that `postrider_core::cursor` gives.

mod adopt;
mod load;
mod memory;
mod page;
mod pulse;
mod refuse;
mod write;

use std::sync::Arc;

use postrider_core::cursor::Settings;
use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement, limits, point};

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::fence::Fence;
use crate::session::{Link, Session, meanwhile};
use crate::sql::cursor::CursorSql;
use crate::table::Table;
pub(crate) use adopt::adopt;
pub(crate) use load::gaps;
use memory::Memory;

/// Refuses what a cursor would lose events on.
pub(crate) async fn require_fit(session: &mut Session, config: &Config, table: &Table) -> Result<(), Fault> {
    refuse::require_fit(session, config, table).await
}

/// Why a relay would not begin to read: all that it is refused for when it opens, beyond what [`crate::fitness`] knows.
pub(crate) async fn refusal(session: &mut Session, config: &Config, table: &Table) -> Option<Fault> {
    match refuse::require_fit(session, config, table).await {
        Err(refusal) => Some(refusal),
        Ok(()) => match adopt::refusal(session, config, table).await {
            Ok(refusal) => refusal,
            Err(error) => Some(fault(&config.place(), error)),
        },
    }
}

/// An append-only table in one holder's hands.
pub(crate) struct CursorSource {
    config: Arc<Config>,
    table: Table,
    place: String,
    outbox: String,
    settings: Settings,
    sql: CursorSql,
    decoder: Arc<Decoder>,
    fence: Fence,
    /// Had by one claim at a time, before the other where both are wanted.
    reads: Link,
    /// Writes are made one after the other.
    writes: Link,
    /// Extends the lease, whatever the others wait for.
    renewals: Link,
    memory: Memory,
}

/// A claim: void once the lease or a connection that it was made under is lost.
#[derive(Debug)]
pub(crate) struct CursorHold {
    claim: u64,
    fence: i64,
}

impl CursorSource {
    pub(crate) fn new(config: &Arc<Config>, table: Table) -> Self {
        // A settlement waits for an operator's verb, but not for so long that nobody would know why.
        let longest = config.lease_ttl / 4;
        Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            settings: Settings {
                hold_dead: config.layout.on_dead == OnDead::Hold,
                retry_runs: config.layout.retry_runs,
                ..Settings::default()
            },
            sql: CursorSql::new(config, &table),
            decoder: Arc::new(Decoder::new(&config.layout)),
            fence: Fence::new(config),
            reads: Link::new(config, longest),
            writes: Link::new(config, longest),
            renewals: Link::new(config, config.lease_ttl / 6),
            memory: Memory::default(),
            config: Arc::clone(config),
            table,
        }
    }

    async fn try_claim(&self, ask: &Ask) -> Result<Claimed<CursorHold>, SourceError> {
        let mut session = self.reads.session().await?;
        self.memory.read_by(session.serial());
        let mut rows = 0;
        loop {
            if !self.memory.is_held() && !self.take_over(session.serial()).await? {
                return Ok(Claimed::Standby);
            }
            let Some(page) = self.read_page(&mut session, ask).await? else { continue };
            rows += page.rows;
            if page.ids.is_empty() {
                // While another write is on its way, this one can wait: whatever comes next makes it.
                if let Some(mut writer) = self.writes.free_session() {
                    self.persist(&mut writer, false).await?;
                }
                let more = page.more && !page.full;
                if !page.is_felt || (more && rows < limits::SCAN_ROWS_MAX) {
                    continue;
                }
                let idle = self.memory.with(|held| held.loaded.cursor.idle(held.now));
                return Ok(idle.map_or(Claimed::Standby, |idle| Claimed::Nothing(Idle { more, ..idle })));
            }
            let Some(hold) = self.memory.hand_out(&page) else { continue };
            let marked = self.mark(&page).await;
            let is_mine = self.memory.finish(page.claim, matches!(marked, Ok(true)));
            // An operator's verb came in between, and what it changed may be among these; or the lease is gone.
            if marked? && is_mine {
                return Ok(Claimed::Batch(Claim { hold, entries: page.taken.entries(), more: page.more }));
            }
        }
    }

    /// The highest id that was ever drawn.
    async fn drawn(&self, session: &mut Session) -> Result<i64, Error> {
        adopt::drawn(session, &self.config, &self.table).await
    }

    /// Says whether the lease is still held.
    async fn renew(&self, fence: i64) -> Result<bool, SourceError> {
        let mut session = self.renewals.session().await?;
        let mut tries = 0;
        loop {
            match self.fence.renew(&mut session, fence).await {
                Ok(is_held) => return Ok(is_held),
                Err(error) => {
                    session.again(error, &mut tries).await.map_err(|error| self.renewals.failed(error))?
                }
            }
        }
    }

    async fn try_settle(
        &self,
        hold: &CursorHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let mut session = self.writes.session().await?;
        self.memory.written_by(session.serial());
        if !self.memory.is_open(hold) {
            return Err(SourceError::Fenced);
        }
        let waits = |settlement: &Settlement| {
            matches!(settlement, Settlement::Retried { .. } | Settlement::Postponed { .. })
        };
        if settlements.iter().any(|(_, settlement)| waits(settlement)) {
            let row = session.first(&self.sql.now, mysql_async::Params::Empty).await;
            let row = row.map_err(|error| self.writes.failed(error))?;
            self.memory.with(|held| held.now = row.map_or(held.now, |row| load::time(&row, 0)));
        }
        let settled = self.memory.with(|held| {
            let is_open = held.is_open(hold);
            if is_open {
                held.loaded.settle(hold.claim, held.now, settlements);
            }
            is_open
        });
        if settled != Some(true) {
            return Err(SourceError::Fenced);
        }
        self.persist(&mut session, true).await?;
        point::pass("mysql.settled");
        Ok(())
    }

    async fn end(&self, session: &mut Session, hold: &CursorHold) -> Result<(), SourceError> {
        let settled = self.memory.with(|held| {
            held.is_open(hold).then(|| {
                let settled = held.loaded.is_settled(hold.claim);
                held.loaded.abandon(hold.claim);
                settled
            })
        });
        let Some(Some(settled)) = settled else { return Ok(()) };
        // A claim that was settled as a whole was written with that: there is nothing left to say.
        let written = if settled { Ok(()) } else { self.persist(session, true).await };
        match written {
            Ok(()) | Err(SourceError::Fenced) => {
                self.memory.with(|held| held.loaded.drop_claim(hold.claim));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Source for CursorSource {
    type Hold = CursorHold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures {
            ordered: self.config.keeps_order(),
            settles: Settles::Each,
            wakes: false,
            lease_ttl: self.config.lease_ttl,
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<CursorHold>, SourceError> {
        match self.try_claim(ask).await {
            // Another relay is at work; what was in hand here is void, and whoever settles it is told so.
            Err(SourceError::Fenced) => Ok(Claimed::Standby),
            claimed => claimed,
        }
    }

    async fn extend(&self, hold: &mut CursorHold) -> Result<(), SourceError> {
        if !self.memory.is_open(hold) {
            return Err(SourceError::Fenced);
        }
        if self.renew(hold.fence).await? { Ok(()) } else { Err(SourceError::Fenced) }
    }

    async fn settle(
        &self,
        hold: &mut CursorHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        // It may wait for somebody's lock, or for another one that does: the lease is kept meanwhile.
        let renew = || self.renew(hold.fence);
        meanwhile(self.try_settle(hold, settlements), self.config.lease_ttl / 3, renew).await
    }

    async fn release(&self, hold: CursorHold) -> Result<(), SourceError> {
        let is_done = self.memory.with(|held| {
            let is_done = held.is_open(&hold) && held.loaded.is_settled(hold.claim);
            if is_done {
                held.loaded.drop_claim(hold.claim);
            }
            is_done
        });
        if is_done.unwrap_or(true) {
            return Ok(());
        }
        let mut session = self.writes.session().await?;
        self.memory.written_by(session.serial());
        self.end(&mut session, &hold).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let mut session = self.writes.session().await?;
        self.memory.written_by(session.serial());
        for hold in self.memory.holds() {
            self.end(&mut session, &hold).await?;
        }
        if let Some(fence) = self.memory.with(|held| held.fence) {
            let given_up = self.fence.give_up(&mut session, fence).await;
            given_up.map_err(|error| self.writes.failed(error))?;
            self.memory.forget();
        }
        Ok(())
    }
}
