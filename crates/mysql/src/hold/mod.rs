//! The hold way: rows stay locked in an open transaction while they are published. Whoever dies frees them at once; what
//! became of them is durable when the transaction commits, at the claim's end.
//!
//! Each claim has a connection of its own, so that one can be made while another is published.

mod claim;
mod settle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::params;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::status::{Page, Pass, Taken};
use postrider_core::{Settlement, limits, point};

pub(crate) use claim::HoldHold;

use crate::config::Config;
use crate::fault::{Error, classed};
use crate::rows::{count, holds, number};
use crate::session::{Link, Session};
use crate::sql::ids;
use crate::sql::status::{HoldSql, Parts, SettleSql, beside};
use crate::status::{Scanner, place};
use crate::table::Table;

/// A status table in one relay's hands.
pub(crate) struct HoldSource {
    config: Arc<Config>,
    table: Table,
    place: String,
    outbox: String,
    scanner: Scanner,
    sql: HoldSql,
    settle: SettleSql,
    /// Looks at rows outside of any transaction.
    looks: Link,
    /// How long a relay may be silent with rows in its hands before the server frees them: the server counts in seconds.
    silence: Duration,
    /// Connections that are in no transaction.
    idle: Mutex<Vec<Session>>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    pass: Pass,
    epoch: Option<i64>,
}

impl HoldSource {
    pub(crate) fn new(config: &Arc<Config>, table: Table) -> Self {
        let parts = Parts::new(config, &table);
        Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            scanner: Scanner::new(config, &table, &parts),
            sql: HoldSql::new(&parts),
            settle: SettleSql::new(config, &parts),
            looks: Link::new(config, config.lease_ttl / 4),
            silence: Duration::from_secs(
                config.lease_ttl.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX),
            ),
            idle: Mutex::default(),
            state: tokio::sync::Mutex::default(),
            config: Arc::clone(config),
            table,
        }
    }

    async fn try_claim(
        &self,
        looking: &mut Session,
        state: &mut State,
        ask: &Ask,
    ) -> Result<Claimed<HoldHold>, Stop> {
        let pulse = self.scanner.pulse(looking).await?;
        let State { pass, epoch } = state;
        pass.comparable = self.scanner.comparable;
        // What waits for its next try stands elsewhere by then.
        if !self.scanner.hands.given_back().is_empty() {
            pass.want_all(pulse.now_us);
        }
        if epoch.replace(pulse.epoch) != Some(pulse.epoch) {
            pass.start_over();
        }
        pass.begin(pulse.now_us, pulse.now_lead, &ask.holds);
        let holders = HashMap::new();
        let (mut rows, mut in_vain, mut tries) = (0, 0, 0);
        loop {
            let page = self.scanner.page(looking, ask, pass, &holders, in_vain).await?;
            rows += page.rows;
            in_vain += 1;
            let mut mark = page.last.clone();
            if !page.candidates.ranks.is_empty() {
                pass.end_look();
                let mut session = self.begin().await?;
                let taken = match self.lock(&mut session, &page, ask).await {
                    Ok(Some(taken)) => taken,
                    // They are larger than they were thought to be, or somebody was in the way: they are free again.
                    other => {
                        match other {
                            Err(error) => session.again(error, &mut tries).await?,
                            Ok(_) => session.roll_back().await?,
                        }
                        self.keep(session);
                        page.first.into_iter().for_each(|first| pass.go_back(first));
                        continue;
                    }
                };
                let more;
                (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    pass.hand_out(mark, &page);
                    let hold = HoldHold::new(session, taken.rows, &self.scanner.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                session.roll_back().await?;
                self.keep(session);
                pass.elsewhere = true;
            }
            pass.reach(mark, &page);
            let more = rows >= limits::SCAN_ROWS_MAX && !page.end;
            if more || (page.end && pass.ends()) {
                let idle = Idle { due_in: pass.due_in(), more, elsewhere: pass.elsewhere, ..Idle::default() };
                return Ok(Claimed::Nothing(idle));
            }
        }
    }

    /// None where they do not fit into the claim.
    async fn lock(&self, session: &mut Session, page: &Page, ask: &Ask) -> Result<Option<Taken>, Error> {
        let candidates = &page.candidates;
        let list = ids(candidates.ranks.iter().map(|rank| rank.entry.as_str()));
        let params = params! { "outbox" => &self.outbox, "list" => &list, "rows" => candidates.most };
        let rows = session.query(&self.sql.lock, params).await?;
        let Some(mut taken) = self.scanner.taken(&rows, candidates, ask) else { return Ok(None) };
        if !taken.rows.is_empty() {
            let rows = session
                .query(&self.sql.beside, params! { "outbox" => &self.outbox, "list" => &list })
                .await?;
            let counts_here = self.config.layout.columns.retries.is_some();
            let mut kept = HashMap::new();
            for row in &rows {
                let rank = place(number(row, beside::PLACE)).and_then(|at| candidates.ranks.get(at));
                let known = (count(row, beside::RETRIES), holds(row, beside::IS_FREE));
                kept.extend(rank.map(|rank| (rank.entry.as_str(), known)));
            }
            taken.amend(|entry| match kept.get(entry) {
                None => Some(None),
                Some((retries, is_free)) => is_free.then_some(retries.filter(|_| !counts_here)),
            });
        }
        Ok(Some(taken))
    }

    /// A connection with an open transaction.
    async fn begin(&self) -> Result<Session, Stop> {
        loop {
            let known = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut session) = known else { break };
            // One that was cut while it was idle says so only when it is used.
            if session.is_good() && session.begin().await.is_ok() {
                return Ok(session);
            }
        }
        let opened = Session::open_waiting(&self.config, self.config.lease_ttl / 4).await;
        let mut session = opened.map_err(|fault| Stop::Told(classed(fault)))?;
        // A client that has vanished is noticed by its silence, and its rows are free then.
        session.run(&format!("set session wait_timeout = {}", self.silence.as_secs())).await?;
        session.begin().await?;
        Ok(session)
    }

    /// Keeps a connection that is in no transaction for the next claim.
    fn keep(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_good() && idle.len() < limits::CLAIMS_OPEN_MAX {
            idle.push(session);
        }
    }
}

/// Why there is no claim.
enum Stop {
    Failed(Error),
    Told(SourceError),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Source for HoldSource {
    type Hold = HoldHold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures { ordered: false, settles: Settles::AtRelease, wakes: false, lease_ttl: self.silence }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<HoldHold>, SourceError> {
        let mut state = self.state.lock().await;
        let mut looking = self.looks.session().await?;
        let claimed = self.try_claim(&mut looking, &mut state, ask).await;
        claimed.map_err(|stop| {
            state.pass = Pass::default();
            match stop {
                Stop::Failed(error) => self.looks.failed(error),
                Stop::Told(error) => error,
            }
        })
    }

    /// Any statement shows the server that its client lives.
    async fn extend(&self, hold: &mut HoldHold) -> Result<(), SourceError> {
        let mut session = hold.take().ok_or(SourceError::Fenced)?;
        session.run("do 1").await.map_err(|error| self.lost_or_failed(error))?;
        hold.put_back(session, Vec::new());
        Ok(())
    }

    async fn settle(
        &self,
        hold: &mut HoldHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        self.try_settle(hold, settlements).await
    }

    async fn release(&self, mut hold: HoldHold) -> Result<(), SourceError> {
        let mut session = hold.take().ok_or(SourceError::Fenced)?;
        point::pass("mysql.settling");
        session.commit().await.map_err(|error| self.looks.failed(error))?;
        point::pass("mysql.settled");
        hold.committed();
        self.keep(session);
        Ok(())
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.state.lock().await = State::default();
        Ok(())
    }
}
