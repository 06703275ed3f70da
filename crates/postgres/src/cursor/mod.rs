//! The cursor way: an append-only table is read by id, and one position is written per batch.
//!
//! Ids are drawn before their transactions commit, so a reader that only moves forward would lose events. What it passes
//! unseen is kept as a gap until nobody is left who could fill it (`postrider_core::gaps`); all the deciding is core's, and
//! what is here asks and writes, in the order that `postrider_core::cursor` gives.

mod adopt;
mod failed;
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
use crate::fault::Error;
use crate::fence::Fence;
use crate::session::{Durable, Link, Session};
use crate::sql::cursor::CursorSql;
use crate::sql::failed::FailedSql;
use crate::table::Table;
use memory::{Held, Memory};
use page::Page;

/// An append-only table in one holder's hands.
pub(crate) struct CursorSource {
    config: Arc<Config>,
    place: String,
    settings: Settings,
    table: u32,
    sql: CursorSql,
    /// The team's own table of failed entries, where it has one.
    failed: Option<FailedSql>,
    decoder: Arc<Decoder>,
    fence: Fence,
    link: Link,
    /// One call at a time: a reading is scanned before the next one is made, and writes are made one after the other.
    memory: tokio::sync::Mutex<Memory>,
}

/// A claim: void once the lease or the connection that it was made under is lost.
#[derive(Debug)]
pub(crate) struct CursorHold {
    claim: u64,
    fence: i64,
}

impl CursorSource {
    pub(crate) async fn open(config: &Arc<Config>, session: Session, table: Table) -> Result<Self, Fault> {
        let sequence = refuse::require_fit(&session, config, &table).await?;
        let sql = CursorSql::new(&config.layout, &table, &sequence.name);
        let failed = failed::inspect(&session, config, &table).await?;
        adopt::adopt(&session, config, &sql, &sequence, failed.as_ref()).await?;
        Ok(Self {
            place: config.place(),
            settings: Settings {
                hold_dead: config.layout.on_dead == OnDead::Hold,
                retry_runs: config.layout.retry_runs,
                ..Settings::default()
            },
            table: table.oid,
            sql,
            failed,
            decoder: Arc::new(Decoder::new(&config.layout)),
            fence: Fence::new(config),
            link: Link::with(config, Durable::Soon, session),
            memory: tokio::sync::Mutex::default(),
            config: Arc::clone(config),
        })
    }

    async fn try_claim(&self, memory: &mut Memory, ask: &Ask) -> Result<Claimed<CursorHold>, SourceError> {
        let session = self.session(memory).await?;
        let mut rows = 0;
        loop {
            if memory.held.is_none() && !self.take_over(memory, &session).await? {
                return Ok(Claimed::Standby);
            }
            let Some(page) = self.read_page(&session, memory, ask).await? else { continue };
            let Page { claim, taken, ids, again, full, more, rows: read } = page;
            rows += read;
            if ids.is_empty() {
                self.persist(&session, memory, None).await?;
                if more && !full && rows < limits::SCAN_ROWS_MAX {
                    continue;
                }
                let Some(held) = &memory.held else { return Ok(Claimed::Standby) };
                return Ok(Claimed::Nothing(Idle {
                    more: more && !full,
                    ..held.loaded.cursor.idle(held.now)
                }));
            }
            let Some(held) = &mut memory.held else { return Ok(Claimed::Standby) };
            held.loaded.hand_out(claim, ids, &again);
            memory.unfinished = Some(claim);
            let marked = self.mark(&session, held, &again).await;
            memory.unfinished = None;
            match marked {
                Ok(true) => {}
                // An operator's verb came in between, and what it changed may be among these; or the lease is gone.
                Ok(false) => {
                    held.loaded.drop_claim(claim);
                    continue;
                }
                Err(error) => {
                    held.loaded.drop_claim(claim);
                    return Err(self.link.failed(error));
                }
            }
            let hold = CursorHold { claim, fence: held.fence };
            return Ok(Claimed::Batch(Claim { hold, entries: taken.entries(), more }));
        }
    }

    /// The session; a new one knows nothing of what was done on the last, whose writes may be lost with a crash.
    async fn session(&self, memory: &mut Memory) -> Result<Arc<Session>, SourceError> {
        let session = self.link.session().await?;
        memory.belongs_to(&session);
        memory.drop_unfinished();
        Ok(session)
    }

    fn is_open(memory: &Memory, hold: &CursorHold) -> bool {
        memory
            .held
            .as_ref()
            .is_some_and(|held| held.fence == hold.fence && held.loaded.open.contains_key(&hold.claim))
    }

    /// Writes what has changed since the last write that succeeded, under the fence; for a claim, whatever changed.
    async fn persist(
        &self,
        session: &Session,
        memory: &mut Memory,
        settling: Option<&CursorHold>,
    ) -> Result<(), SourceError> {
        let Some(held) = &mut memory.held else { return Err(SourceError::Fenced) };
        match self.write(session, held, settling.is_some()).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                memory.held = None;
                Err(SourceError::Fenced)
            }
            Err(error) => Err(self.link.failed(error)),
        }
    }

    /// Delays are added to the database's time.
    async fn now(&self, session: &Session, held: &mut Held) -> Result<(), Error> {
        if let Some(row) = session.first("select clock_timestamp()", &[]).await? {
            held.now = load::time(&row, 0)?;
        }
        Ok(())
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
        let mut memory = self.memory.lock().await;
        match self.try_claim(&mut memory, ask).await {
            // Another relay is at work; what was in hand here is void, and whoever settles it is told so.
            Err(SourceError::Fenced) => Ok(Claimed::Standby),
            claimed => claimed,
        }
    }

    async fn extend(&self, hold: &mut CursorHold) -> Result<(), SourceError> {
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        if !Self::is_open(&memory, hold) {
            return Err(SourceError::Fenced);
        }
        if self.fence.renew(&session, hold.fence).await.map_err(|error| self.link.failed(error))? {
            return Ok(());
        }
        memory.held = None;
        Err(SourceError::Fenced)
    }

    async fn settle(
        &self,
        hold: &mut CursorHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        if !Self::is_open(&memory, hold) {
            return Err(SourceError::Fenced);
        }
        if let Some(held) = &mut memory.held {
            let waits = |settlement: &Settlement| {
                matches!(settlement, Settlement::Retried { .. } | Settlement::Postponed { .. })
            };
            if settlements.iter().any(|(_, settlement)| waits(settlement)) {
                self.now(&session, held).await.map_err(|error| self.link.failed(error))?;
            }
            held.loaded.settle(hold.claim, held.now, settlements);
        }
        self.persist(&session, &mut memory, Some(hold)).await?;
        point::pass("postgres.settled");
        Ok(())
    }

    async fn release(&self, hold: CursorHold) -> Result<(), SourceError> {
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        self.end(&session, &mut memory, &hold).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        let open: Vec<CursorHold> = memory.holds().collect();
        for hold in open {
            self.end(&session, &mut memory, &hold).await?;
        }
        if let Some(held) = memory.held.take() {
            self.fence.give_up(&session, held.fence).await.map_err(|error| self.link.failed(error))?;
        }
        Ok(())
    }
}

impl CursorSource {
    async fn end(
        &self,
        session: &Session,
        memory: &mut Memory,
        hold: &CursorHold,
    ) -> Result<(), SourceError> {
        if !Self::is_open(memory, hold) {
            return Ok(());
        }
        let Some(held) = &mut memory.held else { return Ok(()) };
        // A claim that was settled as a whole was written with that: there is nothing left to say.
        let settled = held.loaded.is_settled(hold.claim);
        held.loaded.abandon(hold.claim);
        match self.persist(session, memory, (!settled).then_some(hold)).await {
            Ok(()) | Err(SourceError::Fenced) => {
                if let Some(held) = &mut memory.held {
                    held.loaded.drop_claim(hold.claim);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
