//! The lease way: rows of a status table are marked with an owner and an expiry, published outside of any transaction,
//! and settled in one statement per kind of settlement.
//!
//! Who holds a row is kept in Postrider's own table, whatever the outbox has columns for; those are written as well, for
//! the people and programs that read them. Where order is kept one relay is active, under the outbox's lease (`fence.rs`);
//! where it is not, any number of them take rows side by side.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::layout::OnDead;
use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Key, Settlement, limits, point};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::Error;
use crate::fence::{Fence, Standing};
use crate::session::{Durable, Link, Session, Transaction};
use crate::sql::status::{LeaseSql, Parts, ScanSql, SettleSql};
use crate::status::{OpenRow, Page, Pass, Rank, Scanner, Settler, Settling, Taken, require_columns};
use crate::table::Table;

/// The planner knows little of tables that fill and drain all day: an index is the right way to a batch.
const SETTINGS: &str = "set enable_seqscan = off; set enable_bitmapscan = on";

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
    state: Mutex<State>,
    /// Something was given back: rows before the mark are to be looked at again, before later ones of their keys.
    returned: AtomicBool,
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
}

/// A claim of the lease way.
#[derive(Debug)]
pub(crate) struct LeaseHold {
    claim: i64,
    fence: i64,
    rows: Vec<OpenRow>,
    /// A call was left without an answer: what it wrote may be there already.
    unsure: bool,
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
            claims: Link::tuned(config, Durable::Now, SETTINGS),
            receipts: Link::tuned(config, Durable::Soon, SETTINGS),
            state: Mutex::default(),
            returned: AtomicBool::new(false),
            buried: AtomicBool::new(false),
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
        let (mut rows, mut idle) = (0, Idle::default());
        loop {
            let mut page = self.scanner(session, state).page(ask, &mut pass).await?;
            rows += page.rows;
            if !page.candidates.ranks.is_empty() {
                end(&mut snapshot).await?;
                let taken = self.take(session, state, &page).await?;
                let (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    // Where order is kept, a row that vanished may come back before its key's next.
                    let vanished = self.fence.is_some() && taken.rows.len() < page.candidates.ranks.len();
                    state.pass = if vanished { Pass::default() } else { pass.up_to(mark) };
                    let fence = state.fence.unwrap_or(0);
                    let hold = LeaseHold { claim: taken.claim, fence, rows: taken.rows, unsure: false };
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                page.last = mark;
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
                return Ok(Claimed::Nothing(Idle { more: !idle.full, ..idle }));
            }
            if in_order && snapshot.is_none() && !page.end {
                snapshot = Some(session.begin_snapshot().await?);
                (pass, rows, idle) = (Pass::without(&stuck), 0, Idle::default());
                continue;
            }
            if page.end {
                idle = Idle { due_in: idle.due_in, ..Idle::default() };
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
        static NONE: std::sync::LazyLock<HashSet<String>> = std::sync::LazyLock::new(HashSet::new);
        Scanner {
            session,
            outbox: &self.outbox,
            sql: &self.scan,
            decoder: &self.decoder,
            keeps_order: self.config.keeps_order(),
            holders: &state.holders,
            in_hand: &NONE,
        }
    }

    async fn take(&self, session: &Session, state: &State, page: &Page) -> Result<Taken, Error> {
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
        let rows = session.query(&self.sql.take, &params).await?;
        Taken::read(&self.decoder, &page.candidates.ranks, &rows, |_| Some(None))
    }

    async fn try_extend(&self, session: &Session, hold: &LeaseHold) -> Result<bool, Error> {
        if let Some(fence) = &self.fence
            && !fence.renew(session, hold.fence).await?
        {
            return Ok(false);
        }
        let left: Vec<&str> =
            hold.rows.iter().filter(|row| !row.settled).map(|row| row.entry.as_str()).collect();
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&left as _, Type::TEXT_ARRAY),
            (&self.config.holder as _, Type::TEXT),
            (&hold.claim as _, Type::INT8),
        ];
        let kept = session
            .first(&self.sql.extend, &params)
            .await?
            .map(|row| row.try_get::<_, i64>(0))
            .transpose()?;
        Ok(kept.and_then(|kept| usize::try_from(kept).ok()) == Some(left.len()))
    }

    /// Writes one kind of settlements; says whether all of them were in this claim's hands.
    async fn write(&self, hold: &mut LeaseHold, settling: Settling) -> Result<bool, SourceError> {
        let link = if settling.buries() { &self.claims } else { &self.receipts };
        let session = link.session().await?;
        let settler = Settler {
            outbox: &self.outbox,
            sql: &self.settle,
            owner: &self.config.holder,
            claim: hold.claim,
            fence: hold.fence,
            in_transaction: false,
            place: &self.place,
        };
        point::pass("postgres.settling");
        let written = match settler.write(&session, &settling).await {
            Ok(lost) if lost.is_empty() => Ok(true),
            // After a call without an answer, what it wrote is found written.
            Ok(lost) if hold.unsure => settler.was_written(&session, &settling, &lost).await,
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        written.map_err(|error| {
            hold.unsure = true;
            link.failed(error)
        })
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
            if self.fence.is_some() {
                *state = State::default();
            }
            state.pass = Pass::default();
            self.claims.failed(error)
        })
    }

    async fn extend(&self, hold: &mut LeaseHold) -> Result<(), SourceError> {
        let session = self.claims.session().await?;
        let kept = self.try_extend(&session, hold).await.map_err(|error| self.claims.failed(error))?;
        if kept { Ok(()) } else { Err(SourceError::Fenced) }
    }

    async fn settle(
        &self,
        hold: &mut LeaseHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let fresh = settlements.iter().filter(|(at, _)| hold.rows.get(*at).is_some_and(|row| !row.settled));
        let fresh: Vec<&(usize, Settlement)> = fresh.collect();
        let sorted = fresh.iter().map(|(at, settlement)| (&hold.rows[*at], settlement));
        let (published, returned) = Settling::sort(&self.config.layout, &self.table, sorted);
        let (buries, returns) = (returned.buries(), !returned.is_empty());
        for part in [published, returned] {
            if part.is_empty() {
                continue;
            }
            let is_published = part.is_published();
            if !self.write(hold, part).await? {
                return Err(SourceError::Fenced);
            }
            for (at, settlement) in &fresh {
                hold.rows[*at].settled |= (*settlement == Settlement::Published) == is_published;
            }
        }
        point::pass("postgres.settled");
        self.returned.fetch_or(returns, Ordering::SeqCst);
        self.buried.fetch_or(buries, Ordering::SeqCst);
        Ok(())
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
