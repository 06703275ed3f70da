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

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use postrider_core::cursor::Settings;
use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement, limits, point};
use tokio::sync::MutexGuard;

use crate::config::Config;
use crate::fault::Error;
use crate::fence::Fence;
use crate::session::{Durable, Link, Session, meanwhile};
use crate::sql::cursor::CursorSql;
use crate::sql::failed::FailedSql;
use crate::table::Table;
use memory::{Held, Memory, News};
use page::Page;

/// Why a relay would not begin to read: all that it is refused for when it opens, beyond what [`crate::fitness`] knows.
pub(crate) async fn refusal(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<Option<Fault>, Error> {
    let sequence = match refuse::require_fit(session, config, table).await {
        Ok(sequence) => sequence,
        Err(refusal) => return Ok(Some(refusal)),
    };
    let sql = CursorSql::new(&config.layout, table, &sequence.name);
    adopt::refusal(session, config, &sql, &sequence).await
}

/// An append-only table in one holder's hands.
pub(crate) struct CursorSource {
    config: Arc<Config>,
    place: String,
    settings: Settings,
    table: u32,
    sql: CursorSql,
    /// The team's own table of failed entries, where it has one.
    failed: Option<FailedSql>,
    /// Its rows that nothing is to come of: events that are gone, or were published.
    passed_by: std::sync::Mutex<BTreeSet<i64>>,
    decoder: Arc<Decoder>,
    fence: Fence,
    link: Link,
    /// Extends the lease, whatever the other waits for.
    renewals: Link,
    /// The turn to write, taken before memory is: writes are made one after the other.
    turn: tokio::sync::Mutex<()>,
    /// A reading is scanned before the next one is made. A write that is on its way leaves it to others: the database reads
    /// on while the relay waits for the answer.
    memory: tokio::sync::Mutex<Memory>,
    /// What memory is told when somebody next has it: nobody waits for that.
    news: std::sync::Mutex<Vec<News>>,
}

/// A claim: void once the lease or the connection that it was made under is lost.
#[derive(Debug)]
pub(crate) struct CursorHold {
    claim: u64,
    fence: i64,
    /// Everything of it is settled, and written.
    is_done: bool,
}

impl CursorSource {
    /// At the first opening where to begin is decided; later it is known, and ids that went backwards stop the relay.
    pub(crate) async fn open(
        config: &Arc<Config>,
        session: Session,
        table: Table,
        is_first: bool,
    ) -> Result<Self, Fault> {
        let sequence = refuse::require_fit(&session, config, &table).await?;
        let sql = CursorSql::new(&config.layout, &table, &sequence.name);
        let failed = failed::inspect(&session, config, &table).await?;
        if is_first {
            adopt::adopt(&session, config, &sql, &sequence, failed.as_ref()).await?;
        }
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
            passed_by: std::sync::Mutex::default(),
            decoder: Arc::new(Decoder::new(&config.layout)),
            fence: Fence::new(config),
            link: Link::with(config, Durable::Soon, session),
            renewals: Link::new(config, Durable::Now),
            turn: tokio::sync::Mutex::default(),
            memory: tokio::sync::Mutex::default(),
            news: std::sync::Mutex::default(),
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
                // While another write is on its way, this one can wait: whatever comes next makes it.
                if let Ok(_turn) = self.turn.try_lock() {
                    self.persist(&session, memory, None).await?;
                }
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
            let hold = CursorHold { claim, fence: held.fence, is_done: false };
            return Ok(Claimed::Batch(Claim { hold, entries: taken.entries(), more }));
        }
    }

    /// The session; a new one knows nothing of what was done on the last, whose writes may be lost with a crash.
    async fn session(&self, memory: &mut Memory) -> Result<Arc<Session>, SourceError> {
        let session = self.link.session().await?;
        memory.belongs_to(&session);
        memory.drop_unfinished();
        self.catch_up(memory);
        Ok(session)
    }

    fn tell(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
    }

    fn catch_up(&self, memory: &mut Memory) {
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        news.into_iter().for_each(|news| memory.hear(news));
    }

    /// Writes what has changed since the last write that succeeded, under the fence; for a claim, whatever changed. Who calls
    /// this has the turn.
    async fn persist(
        &self,
        session: &Session,
        memory: &mut Memory,
        settling: Option<&CursorHold>,
    ) -> Result<(), SourceError> {
        self.catch_up(memory);
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

    /// Writes for a claim, whatever changed. Where that is one statement, memory is free as soon as it is on its way: a claim
    /// reads on behind it, and what that hands out is written after it.
    async fn persist_apart(
        &self,
        session: &Arc<Session>,
        mut memory: MutexGuard<'_, Memory>,
    ) -> Result<(), SourceError> {
        let Some(held) = &mut memory.held else { return Err(SourceError::Fenced) };
        let Some(draft) = held.draft(true) else { return Ok(()) };
        if !self.goes_at_once(session, &draft) {
            let answer = self.send(session, &draft, true).await;
            memory.hear(News::answered(session, draft, &answer));
            return self.written(answer);
        }
        let answer = {
            let mut sending = pin!(self.send(session, &draft, true));
            let first = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
            drop(memory);
            match first {
                Poll::Ready(answer) => answer,
                Poll::Pending => sending.await,
            }
        };
        self.tell(News::answered(session, draft, &answer));
        self.written(answer)
    }

    fn written(&self, answer: Result<bool, Error>) -> Result<(), SourceError> {
        match answer {
            Ok(true) => Ok(()),
            Ok(false) => Err(SourceError::Fenced),
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
        // A claim has the memory for as long as it waits for the database; then it finds out itself what is open.
        if let Ok(mut memory) = self.memory.try_lock() {
            self.session(&mut memory).await?;
            if !memory.is_open(hold) {
                return Err(SourceError::Fenced);
            }
        }
        if self.renew(hold.fence).await? { Ok(()) } else { Err(SourceError::Fenced) }
    }

    async fn settle(
        &self,
        hold: &mut CursorHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        // It may wait for somebody's lock, or for another one that does: the lease is kept meanwhile.
        let fence = hold.fence;
        let renew = || self.renew(fence);
        meanwhile(self.try_settle(hold, settlements), self.config.lease_ttl / 3, renew).await
    }

    async fn release(&self, hold: CursorHold) -> Result<(), SourceError> {
        if hold.is_done {
            self.tell(News::Done(hold));
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        self.end(&session, &mut memory, &hold).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let _turn = self.turn.lock().await;
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
    /// Says whether the lease is still held.
    async fn renew(&self, fence: i64) -> Result<bool, SourceError> {
        let session = self.renewals.session().await?;
        self.fence.renew(&session, fence).await.map_err(|error| self.renewals.failed(error))
    }

    async fn try_settle(
        &self,
        hold: &mut CursorHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let _turn = self.turn.lock().await;
        let mut memory = self.memory.lock().await;
        let session = self.session(&mut memory).await?;
        if !memory.is_open(hold) {
            return Err(SourceError::Fenced);
        }
        let Some(held) = &mut memory.held else { return Err(SourceError::Fenced) };
        let waits = |settlement: &Settlement| {
            matches!(settlement, Settlement::Retried { .. } | Settlement::Postponed { .. })
        };
        if settlements.iter().any(|(_, settlement)| waits(settlement)) {
            self.now(&session, held).await.map_err(|error| self.link.failed(error))?;
        }
        held.loaded.settle(hold.claim, held.now, settlements);
        let is_done = held.loaded.is_settled(hold.claim);
        self.persist_apart(&session, memory).await?;
        hold.is_done = is_done;
        point::pass("postgres.settled");
        Ok(())
    }

    async fn end(
        &self,
        session: &Session,
        memory: &mut Memory,
        hold: &CursorHold,
    ) -> Result<(), SourceError> {
        if !memory.is_open(hold) {
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
