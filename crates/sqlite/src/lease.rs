//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction,
//! and settled in one statement per kind of settlement.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::layout::{OnDead, TimeForm, Words};
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, SourceError};
use postrider_core::{EntryId, Key, Layout, Settlement, point};
use rusqlite::{Connection, TransactionBehavior};

use crate::config::Config;
use crate::connection::{Durable, set_durable};
use crate::fault::source_error;
use crate::fence::{Fence, Standing};
use crate::holders::holders;
use crate::ids;
use crate::open::Open;
use crate::rank::Rank;
use crate::reap::Reaper;
use crate::run::{execute, first};
use crate::scan::{Found, Pass, Scanner};
use crate::settling::Settling;
use crate::source::Hold;
use crate::sql::{LeaseSql, Names};

/// A status table in one holder's hands.
pub(crate) struct LeaseWay {
    pub(crate) place: String,
    layout: Layout,
    words: Words,
    outbox: String,
    owner: String,
    ttl: Duration,
    keeps_order: bool,
    by_time: bool,
    leased_at_form: TimeForm,
    sql: LeaseSql,
    epoch_sql: String,
    decoder: Decoder,
    /// Only where order is kept: then one relay is active at a time.
    fence: Option<Fence>,
    /// The epoch that `holders` was read at; none when it has to be read again.
    epoch: Option<i64>,
    holders: HashMap<Key, Rank>,
    pass: Pass,
    /// Whether the last claim stopped at a limit.
    more: bool,
    claims: i64,
    open: HashMap<i64, Open>,
}

impl LeaseWay {
    pub(crate) fn new(config: &Config, words: Words, id_counts: bool) -> Self {
        let (layout, names) = (config.layout.clone(), Names::new(&config.layout));
        let outbox = layout.table.as_str().to_owned();
        let ttl_us = i64::try_from(config.lease_ttl.as_micros()).unwrap_or(i64::MAX / 4);
        let fence = config.keeps_order().then(|| Fence::new(&names, &outbox, &config.holder, ttl_us));
        Self {
            place: config.place(),
            outbox,
            owner: config.holder.clone(),
            ttl: config.lease_ttl,
            keeps_order: config.keeps_order(),
            by_time: !id_counts && layout.columns.time.as_ref().is_some_and(|time| time.name().is_some()),
            leased_at_form: layout.columns.leased_at.as_ref().map_or(TimeForm::Text, crate::sql::form),
            sql: LeaseSql::new(&layout, &names, &words, id_counts),
            epoch_sql: format!("select epoch from {} where outbox = ?1", names.position),
            decoder: Decoder::new(&layout),
            fence,
            epoch: None,
            holders: HashMap::new(),
            pass: Pass::default(),
            more: false,
            claims: 0,
            open: HashMap::new(),
            layout,
            words,
        }
    }

    pub(crate) fn claim(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        ask: &Ask,
    ) -> Result<Claimed<Hold>, SourceError> {
        self.open.retain(|_, open| open.until.saturating_add(self.ttl).unwrap_or(Timestamp::MAX) > now);
        self.try_claim(connection, now, ask).map_err(|error| source_error(&self.place, error))
    }

    fn try_claim(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        ask: &Ask,
    ) -> rusqlite::Result<Claimed<Hold>> {
        let standing = self.standing(connection, now)?;
        if standing == Standing::Others {
            self.forget();
            return Ok(Claimed::Standby);
        }
        // Whether there is anything to claim is found out without locking out the writers, unless the last claim knew it.
        if standing == (Standing::Mine { renew: false }) && !self.more {
            self.refresh(connection)?;
            let probe = self.scanner(connection, now).scan(ask, 1, &self.pass)?;
            if probe.entries.is_empty() {
                self.pass = probe.pass;
                return Ok(Claimed::Nothing(probe.idle));
            }
        }
        set_durable(connection, Durable::Normal)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.hold_lease(&transaction, now)? {
            return Ok(Claimed::Standby);
        }
        self.refresh(&transaction)?;
        let found = self.scanner(&transaction, now).scan(ask, ask.entries_max, &self.pass)?;
        let claim = self.mark(&transaction, now, &found)?;
        transaction.commit()?;
        Ok(self.hand_out(claim, now, found))
    }

    /// Where order is not kept, nobody needs to be the only one.
    fn standing(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<Standing> {
        match &self.fence {
            Some(fence) => fence.standing(connection, now.as_microsecond()),
            None => Ok(Standing::Mine { renew: false }),
        }
    }

    /// Renews or takes the lease; at a takeover all memory is gone and what the predecessor held is free.
    fn hold_lease(&mut self, connection: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
        match self.standing(connection, now)? {
            Standing::Others => {
                self.forget();
                Ok(false)
            }
            Standing::Mine { renew } => {
                if let Some(fence) = self.fence.as_ref().filter(|_| renew) {
                    fence.renew(connection, now.as_microsecond())?;
                }
                Ok(true)
            }
            Standing::Free => {
                self.forget();
                if let Some(fence) = &mut self.fence {
                    fence.take(connection, now.as_microsecond())?;
                }
                self.reaper(connection).orphans()?;
                Ok(true)
            }
        }
    }

    fn forget(&mut self) {
        self.fence.iter_mut().for_each(Fence::forget);
        self.open.clear();
        self.look_again();
        self.epoch = None;
    }

    /// Something was given back: rows behind the scan are to be looked at again, before later ones of their keys.
    fn look_again(&mut self) {
        self.pass = Pass::default();
    }

    /// Reads the dead rows that hold their key, when a verb or a settlement may have changed them.
    fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let epoch = first(connection, &self.epoch_sql, &[&self.outbox], |row| row.get(0))?.unwrap_or(0);
        if self.epoch == Some(epoch) {
            return Ok(());
        }
        self.look_again();
        self.holders.clear();
        if self.keeps_order && self.layout.on_dead == OnDead::Hold {
            self.holders = holders(connection, &self.sql, &self.decoder, &self.outbox, self.by_time)?;
        }
        self.epoch = Some(epoch);
        Ok(())
    }

    fn scanner<'a>(&'a self, connection: &'a Connection, now: Timestamp) -> Scanner<'a> {
        Scanner {
            connection,
            outbox: &self.outbox,
            sql: &self.sql,
            decoder: &self.decoder,
            keeps_order: self.keeps_order,
            by_time: self.by_time,
            leased_at_form: self.leased_at_form,
            lease_ttl: self.ttl,
            holders: &self.holders,
            now,
        }
    }

    fn reaper<'a>(&'a self, connection: &'a Connection) -> Reaper<'a> {
        Reaper { connection, outbox: &self.outbox, sql: &self.sql }
    }

    fn mark(&self, connection: &Connection, now: Timestamp, found: &Found) -> rusqlite::Result<i64> {
        let claim = self.claims + 1;
        if found.entries.is_empty() {
            return Ok(claim);
        }
        let ids = ids::json(found.entries.iter().map(|entry| &entry.id));
        let until = self.until(now).as_microsecond();
        execute(connection, &self.sql.mark, &[&self.outbox, &ids, &self.owner, &until, &claim])?;
        if let Some(sql) = &self.sql.mark_table {
            let at = self.written(self.leased_at_form, now);
            execute(connection, sql, &[&self.outbox, &ids, &self.owner, &at])?;
        }
        Ok(claim)
    }

    fn hand_out(&mut self, claim: i64, now: Timestamp, mut found: Found) -> Claimed<Hold> {
        self.pass = std::mem::take(&mut found.pass);
        self.more = found.idle.more;
        if found.entries.is_empty() {
            return Claimed::Nothing(found.idle);
        }
        self.claims = claim;
        self.open.insert(claim, Open::new(&found, self.until(now)));
        let hold = Hold::new(claim, self.fence.as_ref().and_then(Fence::held).unwrap_or(0));
        Claimed::Batch(Claim { hold, entries: found.entries, more: found.idle.more })
    }

    pub(crate) fn extend(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        hold: &Hold,
    ) -> Result<(), SourceError> {
        let until = self.until(now);
        let left = self.left(hold)?;
        set_durable(connection, Durable::Normal).map_err(|error| source_error(&self.place, error))?;
        let kept = self
            .try_extend(connection, now, hold, &left)
            .map_err(|error| source_error(&self.place, error))?;
        if !kept {
            return Err(SourceError::Fenced);
        }
        if let Some(open) = self.open.get_mut(&hold.claim) {
            open.until = until;
        }
        Ok(())
    }

    fn try_extend(
        &self,
        connection: &mut Connection,
        now: Timestamp,
        hold: &Hold,
        left: &[EntryId],
    ) -> rusqlite::Result<bool> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(fence) = &self.fence {
            if !fence.is_good(&transaction, hold.fence)? {
                return Ok(false);
            }
            fence.renew(&transaction, now.as_microsecond())?;
        }
        let (ids, until) = (ids::json(left), self.until(now).as_microsecond());
        let kept =
            execute(&transaction, &self.sql.extend, &[&self.outbox, &ids, &self.owner, &until, &hold.claim])?;
        if kept != left.len() {
            return Ok(false);
        }
        if let Some(sql) = &self.sql.extend_table {
            execute(
                &transaction,
                sql,
                &[&self.outbox, &ids, &self.owner, &self.written(self.leased_at_form, now)],
            )?;
        }
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
        let open = self.open.get(&hold.claim).ok_or(SourceError::Fenced)?;
        let mut settling = Settling::new(now, &self.layout, &self.words, &self.sql);
        let fresh =
            settlements.iter().filter(|(index, _)| open.rows.get(*index).is_some_and(|row| !row.settled));
        for (index, settlement) in fresh.clone() {
            settling.add(&open.rows[*index], settlement);
        }
        let indexes: Vec<usize> = fresh.map(|(index, _)| *index).collect();
        if indexes.is_empty() {
            return Ok(());
        }
        // A receipt that a power cut takes back is a duplicate; a dead letter must not come back to life.
        let durable = if settling.buries() { Durable::Full } else { Durable::Normal };
        let settled = set_durable(connection, durable)
            .and_then(|()| self.try_settle(connection, hold, &settling))
            .map_err(|error| source_error(&self.place, error))?;
        if !settled {
            return Err(SourceError::Fenced);
        }
        point::pass("sqlite.settled");
        let (buries, returns) = (settling.buries(), settling.returns());
        self.settled(hold, &indexes, buries, returns);
        Ok(())
    }

    fn try_settle(
        &self,
        connection: &mut Connection,
        hold: &Hold,
        settling: &Settling<'_>,
    ) -> rusqlite::Result<bool> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(fence) = &self.fence
            && !fence.is_good(&transaction, hold.fence)?
        {
            return Ok(false);
        }
        if !settling.write(&transaction, &self.outbox, &self.owner, hold.claim)? {
            return Ok(false);
        }
        point::pass("sqlite.settling");
        transaction.commit()?;
        Ok(true)
    }

    fn settled(&mut self, hold: &Hold, indexes: &[usize], buries: bool, returns: bool) {
        if let Some(open) = self.open.get_mut(&hold.claim) {
            indexes.iter().for_each(|index| open.rows[*index].settled = true);
        }
        if returns {
            self.look_again();
        }
        if buries {
            self.epoch = None;
        }
    }

    pub(crate) fn release(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        hold: &Hold,
    ) -> Result<(), SourceError> {
        let Some(open) = self.open.get(&hold.claim) else { return Ok(()) };
        let rest: Vec<_> = open.left().map(|(at, _)| (at, Settlement::Released)).collect();
        match self.settle(connection, now, hold, &rest) {
            // What another relay has is not ours to release.
            Ok(()) | Err(SourceError::Fenced) => {
                self.open.remove(&hold.claim);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether every entry of a claim is settled.
    pub(crate) fn is_settled(&self, hold: &Hold) -> bool {
        self.open.get(&hold.claim).is_some_and(|open| open.left().next().is_none())
    }

    pub(crate) fn retire(&mut self, connection: &mut Connection, now: Timestamp) -> Result<(), SourceError> {
        let claims: Vec<i64> = self.open.keys().copied().collect();
        let fence = self.fence.as_ref().and_then(Fence::held).unwrap_or(0);
        for claim in claims {
            self.release(connection, now, &Hold::new(claim, fence))?;
        }
        if let Some(fence) = &mut self.fence {
            fence.give_up(connection).map_err(|error| source_error(&self.place, error))?;
        }
        self.forget();
        Ok(())
    }

    fn left(&self, hold: &Hold) -> Result<Vec<EntryId>, SourceError> {
        let open = self.open.get(&hold.claim).ok_or(SourceError::Fenced)?;
        Ok(open.left().map(|(_, row)| row.id.clone()).collect())
    }

    fn until(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.ttl).unwrap_or(Timestamp::MAX)
    }

    fn written(&self, form: TimeForm, time: Timestamp) -> rusqlite::types::Value {
        crate::settling::written(&self.layout, form, time)
    }
}
