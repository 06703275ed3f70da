//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction, and
//! settled in one transaction for the batch.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them. Where order is kept one relay is active, under the outbox's lease (`fence.rs`);
//! where it is not, any number of them take rows side by side.

mod claim;
mod scan;
mod settle;
mod take;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::status::{Hands, Pass, Rank};
use postrider_core::{Key, Settlement, limits};
use tokio::sync::Mutex;

pub(crate) use claim::LeaseHold;

use crate::config::Config;
use crate::fault::Error;
use crate::fence::{Fence, Standing};
use crate::session::{Link, Session, meanwhile};
use crate::sql::status::{LeaseSql, Parts, ScanSql, SettleSql};
use crate::table::Table;
use take::Took;

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
    claims: Link,
    settlements: Link,
    /// Extends leases, whatever the others wait for.
    renewals: Link,
    state: Mutex<State>,
    /// Something was given back: rows before the mark are to be looked at again, before later ones of their keys.
    returned: AtomicBool,
    /// Something was buried: it may hold its key.
    buried: AtomicBool,
    hands: Hands,
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
    pub(crate) fn new(config: &Arc<Config>, table: Table) -> Self {
        let parts = Parts::new(config, &table);
        // Settlements wait for others' locks, but not for so long that a lease could not be extended in between.
        let longest = config.lease_ttl / 4;
        Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            scan: ScanSql::new(&parts),
            sql: LeaseSql::new(&parts),
            settle: SettleSql::new(config, &parts),
            decoder: Decoder::new(&config.layout),
            fence: config.keeps_order().then(|| Fence::new(config)),
            claims: Link::new(config, longest),
            settlements: Link::new(config, longest),
            renewals: Link::new(config, config.lease_ttl / 6),
            state: Mutex::default(),
            returned: AtomicBool::new(false),
            buried: AtomicBool::new(false),
            hands: Hands::default(),
            config: Arc::clone(config),
            table,
        }
    }

    async fn try_claim(
        &self,
        session: &mut Session,
        state: &mut State,
        ask: &Ask,
    ) -> Result<Claimed<LeaseHold>, Error> {
        if !self.hold_lease(session, state).await? {
            return Ok(Claimed::Standby);
        }
        let number = self.refresh(session, state).await?;
        // A row that commits late may stand before any mark, and later ones of its key must not be handed out before it: where
        // order is kept everything is looked at with each claim, and what does not fit into one page in one snapshot.
        let in_order = self.fence.is_some();
        let mut pass = if in_order { Pass::from_start() } else { std::mem::take(&mut state.pass).next() };
        let rows_max = if in_order { ORDERED_ROWS_MAX } else { limits::SCAN_ROWS_MAX };
        let mut in_snapshot = false;
        let mut stuck: HashSet<Key> = HashSet::new();
        let (mut rows, mut idle, mut elsewhere) = (0, Idle::default(), false);
        loop {
            let mut page = self.page(session, state, ask, &mut pass).await?;
            rows += page.rows;
            elsewhere |= page.idle.elsewhere;
            if !page.candidates.ranks.is_empty() {
                end(session, &mut in_snapshot).await?;
                let taken = match self.take(session, state, &page, number).await? {
                    Took::Rows(taken) => taken,
                    Took::Fenced => {
                        *state = State::default();
                        return Ok(Claimed::Standby);
                    }
                };
                let (mark, more) = page.mark(&taken.rows);
                if !taken.rows.is_empty() {
                    // Where order is kept, a row that vanished may come back before its key's next.
                    let vanished = in_order && taken.rows.len() < page.candidates.ranks.len();
                    state.pass = if vanished { Pass::default() } else { pass.up_to(mark) };
                    let hold = LeaseHold::new(number, state.fence.unwrap_or(0), taken.rows, &self.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                page.last = mark;
                elsewhere = true;
                // Somebody else has locked them, or the first of their keys: without these keys, once more from the first.
                let known = stuck.len();
                stuck.extend(page.candidates.keys.drain(..).flatten().map(|key| key.owned()));
                if stuck.len() > known {
                    (pass, rows, idle) = (Pass::without(&stuck), 0, Idle::default());
                    continue;
                }
            }
            idle.due_in = [idle.due_in, page.idle.due_in].into_iter().flatten().min();
            idle.full = page.idle.full;
            pass.mark = page.last.or(pass.mark);
            if idle.full || (rows >= rows_max && !page.end) {
                end(session, &mut in_snapshot).await?;
                idle.full |= in_order;
                state.pass = if idle.full { Pass::default() } else { pass };
                return Ok(Claimed::Nothing(Idle { more: !idle.full, elsewhere, ..idle }));
            }
            if in_order && !in_snapshot && !page.end {
                session.begin_snapshot().await?;
                in_snapshot = true;
                (pass, rows, idle) = (Pass::without(&stuck), 0, Idle::default());
                continue;
            }
            if page.end {
                idle = Idle { due_in: idle.due_in, elsewhere, ..Idle::default() };
                if pass.ends() {
                    end(session, &mut in_snapshot).await?;
                    state.pass = pass;
                    return Ok(Claimed::Nothing(idle));
                }
            }
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
                    *state = State { fence: Some(held), ..State::default() };
                    self.give_back(session, &self.sql.all_held).await?;
                    state.inherited = Some(held);
                }
                Ok(true)
            }
        }
    }

    /// Looks again from the beginning when something was given back, or when a verb may have changed anything. Answers the
    /// claim's number.
    async fn refresh(&self, session: &mut Session, state: &mut State) -> Result<u64, Error> {
        if self.returned.swap(false, Ordering::SeqCst) {
            state.pass = Pass::default();
        }
        if self.buried.swap(false, Ordering::SeqCst) {
            state.epoch = None;
        }
        let (epoch, number) = self.epoch(session).await?;
        if state.epoch == Some(epoch) {
            return Ok(number);
        }
        state.pass = Pass::default();
        if self.config.keeps_order() && self.config.layout.on_dead == OnDead::Hold {
            state.holders = self.holders(session).await?;
        }
        state.epoch = Some(epoch);
        Ok(number)
    }
}

async fn end(session: &mut Session, in_snapshot: &mut bool) -> Result<(), Error> {
    if std::mem::take(in_snapshot) { session.commit().await } else { Ok(()) }
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
        let mut tries = 0;
        loop {
            let error = match self.try_claim(&mut session, &mut state, ask).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            state.pass = Pass::default();
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
