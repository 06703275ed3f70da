//! The cursor way: an append-only table is read by id, and one position is written per batch.
//!
//! On SQLite ids are drawn under the write lock, so rows commit in the order of their ids and a reader that moves forward
//! skips none: no gap ledger is needed. It holds for `autoincrement` only; without it ids are used twice.

use std::sync::Arc;

use jiff::Timestamp;
use postrider_core::cursor::{Loaded, Settings};
use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claimed, Idle, SourceError};
use postrider_core::{Fault, Settlement, limits, point};
use rusqlite::{Connection, TransactionBehavior};

use crate::ahead::Ahead;
use crate::config::Config;
use crate::connection::{Durable, set_durable};
use crate::fault::source_error;
use crate::fence::{Fence, Standing};
use crate::page::{Reader, load, read_page};
use crate::reading;
use crate::saved::SavedSql;
use crate::source::{Answer, Hold};
use crate::sql::{CursorSql, Names};

/// An append-only table in one holder's hands.
pub(crate) struct CursorWay {
    pub(crate) place: String,
    settings: Settings,
    sql: CursorSql,
    saved: SavedSql,
    decoder: Arc<Decoder>,
    ahead: Ahead,
    fence: Fence,
    /// What was loaded under the lease; none without it.
    loaded: Option<Loaded>,
}

impl CursorWay {
    pub(crate) fn new(config: &Config) -> Result<Self, Fault> {
        let (layout, names) = (&config.layout, Names::new(&config.layout));
        let outbox = layout.table.as_str();
        let ttl_us = i64::try_from(config.lease_ttl.as_micros()).unwrap_or(i64::MAX / 4);
        let (sql, decoder) = (CursorSql::new(layout, &names), Arc::new(Decoder::new(layout)));
        Ok(Self {
            place: config.place(),
            settings: Settings {
                hold_dead: layout.on_dead == OnDead::Hold,
                gaps: false,
                ..Settings::default()
            },
            ahead: Ahead::start(config, &sql.after, Arc::clone(&decoder))?,
            sql,
            saved: SavedSql { outbox: outbox.to_owned() },
            decoder,
            fence: Fence::new(&names, outbox, &config.holder, ttl_us),
            loaded: None,
        })
    }

    pub(crate) fn claim(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        ask: &Ask,
    ) -> Result<Answer, SourceError> {
        match self.try_claim(connection, now, ask) {
            // Lost while nothing was in hand: nothing is void, another relay is at work.
            Err(SourceError::Fenced) => Ok(Claimed::Standby.into()),
            claimed => claimed,
        }
    }

    fn try_claim(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        ask: &Ask,
    ) -> Result<Answer, SourceError> {
        let place = self.place.clone();
        let failed = |error| source_error(&place, error);
        if !self.hold_lease(connection, now).map_err(failed)? {
            return Ok(Claimed::Standby.into());
        }
        let mut rows = 0;
        loop {
            self.refresh(connection).map_err(failed)?;
            let loaded = self.loaded.as_mut().ok_or(SourceError::Fenced)?;
            loaded.cursor.verify(reading::highest(connection, &self.sql).map_err(failed)?)?;
            let claim = loaded.cursor.open_claim();
            let mut gate = ask.gate();
            let reader =
                Reader { connection: &*connection, sql: &self.sql, decoder: &self.decoder, now, ask };
            let page = read_page(loaded, &reader, &mut self.ahead, &mut gate, claim).map_err(failed)?;
            rows += page.rows;
            if page.ids.is_empty() {
                self.persist(connection, None)?;
                let loaded = self.loaded.as_ref().ok_or(SourceError::Fenced)?;
                if page.more && !page.full && rows < limits::SCAN_ROWS_MAX {
                    continue;
                }
                let idle = Idle { more: page.more && !page.full, ..loaded.cursor.idle(now) };
                return Ok(Claimed::Nothing(idle).into());
            }
            loaded.hand_out(claim, page.ids, &page.again);
            match self.mark(connection, &page.again) {
                Ok(true) => {}
                // An operator's verb came in between, and what it changed may be among these; or the lease is gone.
                Ok(false) => {
                    self.drop_claim(claim);
                    if !self.hold_lease(connection, now).map_err(failed)? {
                        return Ok(Claimed::Standby.into());
                    }
                    continue;
                }
                Err(error) => {
                    self.drop_claim(claim);
                    return Err(failed(error));
                }
            }
            let number = i64::try_from(claim).unwrap_or(i64::MAX);
            let hold = Hold::new(number, self.fence.held().unwrap_or(0));
            return Ok(Answer::Unread { hold, rows: page.taken, more: page.more });
        }
    }

    /// Whether this process holds the lease; renews it when a third of its time has passed, takes it when it is free.
    fn hold_lease(&mut self, connection: &mut Connection, now: Timestamp) -> rusqlite::Result<bool> {
        let now_us = now.as_microsecond();
        match self.fence.standing(connection, now_us)? {
            Standing::Mine { renew: false } if self.loaded.is_some() => return Ok(true),
            Standing::Others => {
                self.forget();
                return Ok(false);
            }
            Standing::Mine { .. } | Standing::Free => {}
        }
        set_durable(connection, Durable::Normal)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match self.fence.standing(&transaction, now_us)? {
            Standing::Others => {
                self.forget();
                return Ok(false);
            }
            Standing::Mine { .. } if self.loaded.is_some() => self.fence.renew(&transaction, now_us)?,
            Standing::Mine { .. } | Standing::Free => {
                self.forget();
                self.fence.take(&transaction, now_us)?;
                self.loaded = Some(load(&transaction, &self.sql, &self.saved, self.settings)?);
            }
        }
        transaction.commit()?;
        Ok(true)
    }

    fn forget(&mut self) {
        self.fence.forget();
        self.ahead.forget();
        self.loaded = None;
    }

    /// Takes over what an operator's verb changed.
    fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(loaded) = &mut self.loaded else { return Ok(()) };
        let (_, epoch) = self.saved.position(connection, &self.sql)?;
        if epoch != loaded.epoch {
            loaded.cursor.reload(self.saved.exceptions(connection, &self.sql)?);
            loaded.epoch = epoch;
        }
        Ok(())
    }

    /// Writes down what is in this holder's hands, so that operators leave it alone; says no when one of them was quicker.
    fn mark(&mut self, connection: &mut Connection, again: &[i64]) -> rusqlite::Result<bool> {
        let Some(loaded) = &self.loaded else { return Ok(false) };
        set_durable(connection, Durable::Normal)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (position, epoch) = self.saved.position(&transaction, &self.sql)?;
        if epoch != loaded.epoch || !self.fence.is_good(&transaction, self.fence.held().unwrap_or(0))? {
            return Ok(false);
        }
        self.saved.write_position(
            &transaction,
            &self.sql,
            position,
            loaded.claimed(position),
            &loaded.returned,
        )?;
        self.saved.claim(&transaction, &self.sql, again)?;
        transaction.commit()?;
        Ok(true)
    }

    pub(crate) fn extend(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        hold: &Hold,
    ) -> Result<(), SourceError> {
        if !self.is_open(hold) {
            return Err(SourceError::Fenced);
        }
        let good =
            self.try_extend(connection, now, hold).map_err(|error| source_error(&self.place, error))?;
        if good { Ok(()) } else { Err(self.fenced()) }
    }

    fn try_extend(&self, connection: &mut Connection, now: Timestamp, hold: &Hold) -> rusqlite::Result<bool> {
        set_durable(connection, Durable::Normal)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.fence.is_good(&transaction, hold.fence)? {
            return Ok(false);
        }
        self.fence.renew(&transaction, now.as_microsecond())?;
        transaction.commit()?;
        Ok(true)
    }

    pub(crate) fn settle(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        hold: &Hold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        if !self.is_open(hold) {
            return Err(SourceError::Fenced);
        }
        // Before memory moves on: nothing is settled under a stale fence, not even there.
        if !self.fence.is_good(connection, hold.fence).map_err(|error| source_error(&self.place, error))? {
            return Err(self.fenced());
        }
        if let Some(loaded) = &mut self.loaded {
            loaded.settle(hold.number(), now, settlements);
        }
        self.persist(connection, Some(hold))?;
        point::pass("sqlite.settled");
        Ok(())
    }

    pub(crate) fn release(&mut self, connection: &mut Connection, hold: &Hold) -> Result<(), SourceError> {
        if !self.is_open(hold) {
            return Ok(());
        }
        // A claim that was settled as a whole was written with that: there is nothing left to say.
        let Some(loaded) = &mut self.loaded else { return Ok(()) };
        let settled = loaded.is_settled(hold.number());
        loaded.abandon(hold.number());
        match self.persist(connection, (!settled).then_some(hold)) {
            Ok(()) | Err(SourceError::Fenced) => {
                self.drop_claim(hold.number());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether every entry of a claim is settled.
    pub(crate) fn is_settled(&self, hold: &Hold) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.is_settled(hold.number()))
    }

    fn drop_claim(&mut self, claim: u64) {
        if let Some(loaded) = &mut self.loaded {
            loaded.drop_claim(claim);
        }
    }

    pub(crate) fn retire(&mut self, connection: &mut Connection) -> Result<(), SourceError> {
        let claims: Vec<u64> = self.loaded.iter().flat_map(|loaded| loaded.open.keys().copied()).collect();
        let fence = self.fence.held().unwrap_or(0);
        for claim in claims {
            self.release(connection, &Hold::new(i64::try_from(claim).unwrap_or(i64::MAX), fence))?;
        }
        self.fence.give_up(connection).map_err(|error| source_error(&self.place, error))?;
        self.forget();
        Ok(())
    }

    /// Writes what has changed since the last write that succeeded, under the fence.
    fn persist(&mut self, connection: &mut Connection, settling: Option<&Hold>) -> Result<(), SourceError> {
        let place = self.place.clone();
        let written = self.try_persist(connection, settling).map_err(|error| source_error(&place, error))?;
        if written { Ok(()) } else { Err(self.fenced()) }
    }

    fn try_persist(
        &mut self,
        connection: &mut Connection,
        settling: Option<&Hold>,
    ) -> rusqlite::Result<bool> {
        let Some(loaded) = &mut self.loaded else { return Ok(false) };
        let write = loaded.cursor.write();
        if write.is_none() && settling.is_none() {
            return Ok(true);
        }
        let durable = write.as_ref().is_some_and(crate::saved::buries);
        set_durable(connection, if durable { Durable::Full } else { Durable::Normal })?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let fence = settling.map_or(self.fence.held().unwrap_or(0), |hold| hold.fence);
        if !self.fence.is_good(&transaction, fence)? {
            return Ok(false);
        }
        let (mut position, _) = self.saved.position(&transaction, &self.sql)?;
        if let Some(write) = &write {
            self.saved.write(&transaction, &self.sql, write)?;
            position = write.position;
        }
        loaded.returned = loaded.returned.split_off(&position.saturating_add(1));
        self.saved.write_position(
            &transaction,
            &self.sql,
            position,
            loaded.claimed(position),
            &loaded.returned,
        )?;
        let gone = loaded.no_longer_again();
        self.saved.unclaim(&transaction, &self.sql, &gone)?;
        if settling.is_some() {
            point::pass("sqlite.settling");
        }
        transaction.commit()?;
        loaded.again.retain(|id| !gone.contains(id));
        if let Some(write) = write {
            loaded.cursor.applied(write);
        }
        Ok(true)
    }

    fn is_open(&self, hold: &Hold) -> bool {
        self.fence.held() == Some(hold.fence)
            && self.loaded.as_ref().is_some_and(|loaded| loaded.open.contains_key(&hold.number()))
    }

    fn fenced(&mut self) -> SourceError {
        self.forget();
        SourceError::Fenced
    }
}
