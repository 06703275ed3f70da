//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction,
//! and settled in one statement per kind of settlement.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them. Where order is kept one relay is active, under the outbox's lease (`fence.rs`);
//! where it is not, any number of them take rows side by side.

mod claim;
mod settle;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Key, Settlement, limits};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;

pub(crate) use claim::LeaseHold;

use crate::config::Config;
use crate::fault::Error;
use crate::fence::{Fence, Standing};
use crate::session::{Durable, Link, Session, Transaction, meanwhile};
use crate::sql::status::{LeaseSql, Parts, ScanSql, SettleSql};
use crate::status::{Hands, Page, Pass, Rank, Scanner, Swell, Taken, Taking, require_columns};
use crate::table::Table;

/// The planner knows little of tables that fill and drain all day: an index is the right way to a batch.
const SETTINGS: &str = "set enable_seqscan = off; set enable_bitmapscan = on";

/// What a session is set to that waits for a lock for so long: leases are extended in between.
fn waiting(longest: Duration) -> String {
    format!("{SETTINGS}; set lock_timeout = {}", longest.as_millis().clamp(100, 30_000))
}

/// Rows that one claim looks at where order is kept, before it says that too many are held back.
const ORDERED_ROWS_MAX: usize = 1_000_000;

/// A status table in one relay's hands.
pub(crate) struct LeaseSource {
    config: Arc<Config>,
    table: Table,
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
    /// Something was given back: rows before the mark are to be looked at again, before later ones of their keys.
    returned: AtomicBool,
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
}

impl LeaseSource {
    pub(crate) async fn open(config: &Arc<Config>, session: Session, table: Table) -> Result<Self, Fault> {
        require_columns(config, &table)?;
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
            returned: AtomicBool::new(false),
            buried: AtomicBool::new(false),
            hands: Hands::default(),
            swell: Swell::default(),
            config: Arc::clone(config),
            table,
        })
    }

    async fn try_claim(
        &self,
        session: &Session,
        state: &mut State,
        ask: &Ask,
    ) -> Result<Claimed<LeaseHold>, Error> {
        if !self.hold_lease(session, state).await? {
            return Ok(Claimed::Standby);
        }
        self.refresh(session, state).await?;
        // A row that commits late may stand before any mark, and later ones of its key must not be handed out before it: where
        // order is kept everything is looked at with each claim, and what does not fit into one page in one snapshot.
        let in_order = self.fence.is_some();
        let mut pass = if in_order { Pass::from_start() } else { std::mem::take(&mut state.pass).next() };
        let rows_max = if in_order { ORDERED_ROWS_MAX } else { limits::SCAN_ROWS_MAX };
        let mut snapshot: Option<Transaction<'_>> = None;
        let mut stuck: HashSet<Key> = HashSet::new();
        let (mut rows, mut idle, mut elsewhere) = (0, Idle::default(), false);
        loop {
            let mut page = self.scanner(session, state).page(ask, &mut pass).await?;
            rows += page.rows;
            elsewhere |= page.idle.elsewhere;
            if !page.candidates.ranks.is_empty() {
                end(&mut snapshot).await?;
                let taken = match self.take(session, state, &page, ask).await? {
                    Ok(taken) => taken,
                    // They are larger than they were thought to be: they are free again, and fewer are asked for.
                    Err(claim) => {
                        self.put_down(session, claim).await?;
                        continue;
                    }
                };
                let (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    // Where order is kept, a row that vanished may come back before its key's next.
                    let vanished = self.fence.is_some() && taken.rows.len() < page.candidates.ranks.len();
                    state.pass = if vanished { Pass::default() } else { pass.up_to(mark) };
                    let fence = state.fence.unwrap_or(0);
                    let hold = LeaseHold::new(taken.claim, fence, taken.rows, &self.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                page.last = mark;
                elsewhere = true;
                // Somebody else has locked them, or the first of their keys: without these keys, once more from the first.
                let known = stuck.len();
                stuck.extend(page.candidates.keys.drain(..).map(|key| key.owned()));
                if stuck.len() > known {
                    (pass, rows, idle) = (Pass::without(&stuck), 0, Idle::default());
                    continue;
                }
            }
            idle.due_in = [idle.due_in, page.idle.due_in].into_iter().flatten().min();
            idle.full = page.idle.full;
            pass.mark = page.last.or(pass.mark);
            if idle.full || (rows >= rows_max && !page.end) {
                end(&mut snapshot).await?;
                idle.full |= in_order;
                state.pass = if idle.full { Pass::default() } else { pass };
                return Ok(Claimed::Nothing(Idle { more: !idle.full, elsewhere, ..idle }));
            }
            if in_order && snapshot.is_none() && !page.end {
                snapshot = Some(session.begin_snapshot().await?);
                (pass, rows, idle) = (Pass::without(&stuck), 0, Idle::default());
                continue;
            }
            if page.end {
                idle = Idle { due_in: idle.due_in, elsewhere, ..Idle::default() };
                if pass.ends() {
                    end(&mut snapshot).await?;
                    state.pass = pass;
                    return Ok(Claimed::Nothing(idle));
                }
            }
        }
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
                    *state = State { fence: Some(held), ..State::default() };
                    session.first(&self.sql.orphans, &[(&self.outbox, Type::TEXT)]).await?;
                    state.inherited = Some(held);
                }
                Ok(true)
            }
        }
    }

    /// Looks again from the beginning when something was given back, or when a verb may have changed anything.
    async fn refresh(&self, session: &Session, state: &mut State) -> Result<(), Error> {
        if self.returned.swap(false, Ordering::SeqCst) {
            state.pass = Pass::default();
        }
        if self.buried.swap(false, Ordering::SeqCst) {
            state.epoch = None;
        }
        let epoch = self.scanner(session, state).epoch().await?;
        if state.epoch == Some(epoch) {
            return Ok(());
        }
        state.pass = Pass::default();
        if self.config.keeps_order() && self.config.layout.on_dead == OnDead::Hold {
            state.holders = self.scanner(session, state).holders().await?;
        }
        state.epoch = Some(epoch);
        Ok(())
    }

    fn scanner<'a>(&'a self, session: &'a Session, state: &'a State) -> Scanner<'a> {
        Scanner {
            session,
            outbox: &self.outbox,
            sql: &self.scan,
            decoder: &self.decoder,
            keeps_order: self.config.keeps_order(),
            holders: &state.holders,
            hands: &self.hands,
            swell: &self.swell,
        }
    }

    /// An error within where they do not fit into the claim: its number.
    async fn take(
        &self,
        session: &Session,
        state: &State,
        page: &Page,
        ask: &Ask,
    ) -> Result<Result<Taken, i64>, Error> {
        let entries: Vec<&str> = page.candidates.ranks.iter().map(|rank| rank.entry.as_str()).collect();
        let most = i64::try_from(page.candidates.most).unwrap_or(i64::MAX);
        let fence = state.fence.unwrap_or(0);
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&entries as _, Type::TEXT_ARRAY),
            (&self.config.holder as _, Type::TEXT),
            (&most as _, Type::INT8),
            (&fence as _, Type::INT8),
        ];
        let mut taking = Taking::new(&self.decoder, &page.candidates, ask);
        session.each(&self.sql.take, &params, |row| taking.read(row)).await?;
        Ok(taking.finish(&self.swell))
    }

    /// Gives a claim back that nobody has seen.
    async fn put_down(&self, session: &Session, claim: i64) -> Result<(), Error> {
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&self.config.holder as _, Type::TEXT),
            (&claim as _, Type::INT8),
        ];
        session.first(&self.sql.put_down, &params).await.map(drop)
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
        let claimed = self.try_claim(&session, &mut state, ask).await;
        claimed.map_err(|error| {
            // A claim that was made without an answer may have left rows in nobody's hands. Where order is kept, the lease is
            // taken anew: that gives back whatever is held, so that no later row of their keys goes before them.
            // What the server has refused was not done.
            if self.fence.is_some() && error.code().is_none() {
                *state = State::default();
            }
            state.pass = Pass::default();
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

async fn end(snapshot: &mut Option<Transaction<'_>>) -> Result<(), Error> {
    match snapshot.take() {
        Some(snapshot) => snapshot.commit().await,
        None => Ok(()),
    }
}
