//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction,
//! and settled in one statement per kind of settlement.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them. Where order is kept one relay is active, under the outbox's lease (`fence.rs`);
//! where it is not, any number of them take rows side by side.

mod claim;
mod settle;
mod take;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_core::layout::Column;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claimed, Settles, Source, SourceError, SourceFeatures};
use postrider_core::status::{Hands, Pass, Rank, Swell, Watch};
use postrider_core::{Fault, Key, Settlement};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;

pub(crate) use claim::LeaseHold;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::fence::{Fence, Standing};
use crate::fitness::sequence;
use crate::session::{Durable, Link, Session, meanwhile};
use crate::sql::status::{LeaseSql, Parts, ScanSql, SettleSql};
use crate::status::{Drawn, error_chars_max, require_columns};
use crate::table::Table;

/// The planner knows little of tables that fill and drain all day: an index is the right way to a batch.
const SETTINGS: &str = "set enable_seqscan = off; set enable_bitmapscan = on";

/// What a session is set to that waits for a lock for so long: leases are extended in between.
fn waiting(longest: Duration) -> String {
    format!("{SETTINGS}; set lock_timeout = {}", longest.as_millis().clamp(100, 30_000))
}

/// A status table in one relay's hands.
pub(crate) struct LeaseSource {
    config: Arc<Config>,
    error_chars_max: usize,
    place: String,
    outbox: String,
    scan: ScanSql,
    sql: LeaseSql,
    settle: SettleSql,
    decoder: Decoder,
    /// Only where order is kept: then one relay is active at a time.
    fence: Option<Fence>,
    /// Claims and dead letters, which wait for the disk.
    claims: Link,
    /// Receipts, which do not.
    receipts: Link,
    /// Extends leases, whatever the others wait for.
    renewals: Link,
    state: Mutex<State>,
    /// How ids are drawn, where order is kept and the INSERT draws them.
    drawn: Option<Drawn>,
    /// Whether ranks compare on this side.
    comparable: bool,
    /// Something was buried: it may hold its key.
    buried: AtomicBool,
    hands: Hands,
    swell: Swell,
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
    session: Weak<Session>,
}

impl State {
    /// Nothing that was seen counts any more.
    fn look_anew(&mut self) {
        self.pass.look_anew();
        (self.watch, self.epoch) = (Watch::default(), None);
    }
}

impl LeaseSource {
    pub(crate) async fn open(config: &Arc<Config>, session: Session, table: Table) -> Result<Self, Fault> {
        require_columns(config, &table)?;
        let drawn = match config.layout.columns.id.as_ref().and_then(Column::name) {
            Some(id) if config.keeps_order() && table.id_counts(&config.layout) => {
                let sequence = sequence(&session, &table, id.as_str()).await;
                let sequence = sequence.map_err(|error| fault(&config.place(), error))?;
                sequence.and_then(|sequence| Drawn::new(table.oid, &sequence))
            }
            _ => None,
        };
        drop(session);
        let parts = Parts::new(&config.layout, &table, config.ttl_us());
        Ok(Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            scan: ScanSql::new(&parts),
            sql: LeaseSql::new(&parts),
            settle: SettleSql::new(&parts),
            decoder: Decoder::new(&config.layout),
            fence: config.keeps_order().then(|| Fence::new(config)),
            claims: Link::tuned(config, Durable::Now, waiting(config.lease_ttl / 4)),
            receipts: Link::tuned(config, Durable::Soon, waiting(config.lease_ttl / 4)),
            renewals: Link::tuned(config, Durable::Now, waiting(config.lease_ttl / 6)),
            state: Mutex::default(),
            drawn,
            comparable: parts.ranks_compare(),
            buried: AtomicBool::new(false),
            hands: Hands::default(),
            swell: Swell::default(),
            error_chars_max: error_chars_max(&config.layout, &table),
            config: Arc::clone(config),
        })
    }

    /// Renews or takes the lease; at a takeover all memory is gone and what the predecessor held is free.
    async fn hold_lease(&self, session: &Session, state: &mut State) -> Result<bool, Error> {
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
                    let session_of = std::mem::take(&mut state.session);
                    *state = State { fence: Some(held), session: session_of, ..State::default() };
                    session.first(&self.sql.orphans, &[(&self.outbox, Type::TEXT)]).await?;
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
        let session = self.claims.session().await?;
        if !std::ptr::eq(state.session.as_ptr(), Arc::as_ptr(&session)) {
            state.look_anew();
            state.session = Arc::downgrade(&session);
        }
        let claimed = self.try_claim(&session, &mut state, ask).await;
        claimed.map_err(|error| {
            // A claim that was made without an answer may have left rows in nobody's hands. Where order is kept, the lease is
            // taken anew: that gives back whatever is held, so that no later row of their keys goes before them.
            // What the server has refused was not done.
            if self.fence.is_some() && error.code().is_none() {
                *state = State::default();
            }
            state.look_anew();
            self.claims.failed(error)
        })
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
        let session = self.claims.session().await?;
        let params = [(&self.outbox as _, Type::TEXT), (&self.config.holder as _, Type::TEXT)];
        let failed = |error| self.claims.failed(error);
        session.first(&self.sql.give_back, &params).await.map_err(failed)?;
        if let (Some(fence), Some(held)) = (&self.fence, state.fence) {
            fence.give_up(&session, held).await.map_err(failed)?;
        }
        *state = State::default();
        Ok(())
    }
}
