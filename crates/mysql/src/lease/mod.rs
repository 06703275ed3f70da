//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction, and
//! settled in one transaction for the batch.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them. Where order is kept one relay is active, under the outbox's lease (`fence.rs`);
//! where it is not, any number of them take rows side by side.

mod claim;
mod settle;
mod take;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use postrider_core::source::{Ask, Claimed, Settles, Source, SourceError, SourceFeatures};
use postrider_core::status::{Pass, Rank, Watch};
use postrider_core::{Key, Settlement};
use tokio::sync::Mutex;

pub(crate) use claim::LeaseHold;

use crate::config::Config;
use crate::fault::Error;
use crate::fence::{Fence, Standing};
use crate::session::{Link, Session, meanwhile};
use crate::sql::status::{LeaseSql, Parts, SettleSql};
use crate::status::{Owners, Scanner};
use crate::table::Table;

/// A status table in one relay's hands.
pub(crate) struct LeaseSource {
    config: Arc<Config>,
    table: Table,
    place: String,
    outbox: String,
    scanner: Scanner,
    sql: LeaseSql,
    settle: SettleSql,
    /// Only where order is kept: then one relay is active at a time.
    fence: Option<Fence>,
    claims: Link,
    settlements: Link,
    /// Extends leases, whatever the others wait for.
    renewals: Link,
    state: Mutex<State>,
    /// What can be told of those who draw ids, where order is kept.
    owners: Owners,
    /// Something was buried: it may hold its key.
    buried: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The fence that this process believes to hold.
    fence: Option<i64>,
    /// The fence under which a predecessor's rows were given back.
    inherited: Option<i64>,
    /// The epoch that `holders` was read at; none when it has to be read again.
    epoch: Option<i64>,
    holders: HashMap<Key, Rank>,
    pass: Pass,
    watch: Watch,
    /// The session that all of this was read on: another one may be on a server that knows other rows and transactions.
    session: u64,
}

impl State {
    /// Nothing that was seen counts any more.
    fn look_anew(&mut self) {
        self.pass.look_anew();
        (self.watch, self.epoch) = (Watch::default(), None);
    }
}

impl LeaseSource {
    pub(crate) fn new(config: &Arc<Config>, table: Table, owners: Owners) -> Self {
        let parts = Parts::new(config, &table);
        // Settlements wait for others' locks, but not for so long that a lease could not be extended in between.
        let longest = config.lease_ttl / 4;
        Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            scanner: Scanner::new(config, &table, &parts),
            sql: LeaseSql::new(&parts),
            settle: SettleSql::new(config, &parts),
            fence: config.keeps_order().then(|| Fence::new(config)),
            claims: Link::new(config, longest),
            settlements: Link::new(config, longest),
            renewals: Link::new(config, config.lease_ttl / 6),
            state: Mutex::default(),
            owners,
            buried: AtomicBool::new(false),
            config: Arc::clone(config),
            table,
        }
    }

    /// Renews or takes the lease; at a takeover all memory is gone and what the predecessor held is free.
    async fn hold_lease(&self, session: &mut Session, state: &mut State) -> Result<bool, Error> {
        let Some(fence) = &self.fence else { return Ok(true) };
        if let Some(held) = state.fence
            && state.inherited == Some(held)
            && fence.is_fresh(session, held).await?
        {
            return Ok(true);
        }
        match fence.take(session, state.fence).await? {
            Standing::Others => {
                *state = State::default();
                Ok(false)
            }
            Standing::Mine(held) => {
                if state.inherited != Some(held) {
                    *state = State { fence: Some(held), session: state.session, ..State::default() };
                    self.give_back(session, &self.sql.all_held).await?;
                    state.inherited = Some(held);
                }
                Ok(true)
            }
        }
    }
}

impl Source for LeaseSource {
    type Hold = LeaseHold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures {
            ordered: self.config.keeps_order(),
            settles: Settles::Each,
            wakes: false,
            lease_ttl: self.config.lease_ttl,
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<LeaseHold>, SourceError> {
        let mut state = self.state.lock().await;
        let mut session = self.claims.session().await?;
        if state.session != session.serial() {
            state.look_anew();
            state.session = session.serial();
        }
        let mut tries = 0;
        loop {
            let error = match self.try_claim(&mut session, &mut state, ask).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            // Whoever was in the way has changed nothing here.
            if !error.is_in_the_way() {
                state.look_anew();
            }
            // A claim that was made without an answer may have left rows in nobody's hands. Where order is kept, the lease is
            // taken anew: that gives back whatever is held, so that no later row of their keys goes before them.
            if self.fence.is_some() && error.code().is_none() {
                *state = State::default();
            }
            session.again(error, &mut tries).await.map_err(|error| self.claims.failed(error))?;
        }
    }

    async fn extend(&self, hold: &mut LeaseHold) -> Result<(), SourceError> {
        let kept = self.renew(hold.claim, hold.fence, &hold.left()).await?;
        if kept { Ok(()) } else { Err(SourceError::Fenced) }
    }

    async fn settle(
        &self,
        hold: &mut LeaseHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        // A settlement may wait for somebody's lock, or for another one that does: its rows stay held meanwhile.
        let (claim, fence, left) = (hold.claim, hold.fence, hold.left());
        let renew = || self.renew(claim, fence, &left);
        meanwhile(self.try_settle(hold, settlements), self.config.lease_ttl / 3, renew).await
    }

    async fn release(&self, mut hold: LeaseHold) -> Result<(), SourceError> {
        let left = hold.rows.iter().enumerate().filter(|(_, row)| !row.settled);
        let left: Vec<_> = left.map(|(at, _)| (at, Settlement::Released)).collect();
        if left.is_empty() {
            return Ok(());
        }
        match self.settle(&mut hold, &left).await {
            // What another relay has is not ours to release.
            Err(SourceError::Fenced) => Ok(()),
            answer => answer,
        }
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let mut state = self.state.lock().await;
        let mut session = self.claims.session().await?;
        let failed = |error| self.claims.failed(error);
        self.give_back(&mut session, &self.sql.own_held).await.map_err(failed)?;
        if let (Some(fence), Some(held)) = (&self.fence, state.fence) {
            fence.give_up(&mut session, held).await.map_err(failed)?;
        }
        *state = State::default();
        Ok(())
    }
}
