//! The hold way: rows stay locked in an open transaction while they are published. Whoever dies frees them at once; what
//! became of them is durable when the transaction commits, at the claim's end.
//!
//! Each claim has a connection of its own, so that one can be made while another is published.

mod claim;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::rows::Decoder;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Settles, Source, SourceError, SourceFeatures};
use postrider_core::status::{Hands, Page, Pass, Settling, Swell, Taken};
use postrider_core::{Fault, Settlement, limits, point};
use tokio_postgres::types::Type;

pub(crate) use claim::HoldHold;

use crate::config::Config;
use crate::fault::Error;
use crate::session::{Durable, Link, Session};
use crate::sql::status::{HoldSql, Parts, ScanSql, SettleSql, beside};
use crate::status::{Scanner, Settler, Taking, count, error_chars_max, require_columns};
use crate::table::Table;

/// The planner knows little of tables that fill and drain all day: an index is the right way to a batch.
const SETTINGS: &str = "set enable_seqscan = off";
/// How long a relay may be silent with rows in its hands before the server frees them: longer than any publish call.
const SILENCE_MAX: Duration = Duration::from_secs(limits::PUBLISH_DEADLINE.as_secs() + 10);

/// A status table in one relay's hands.
pub(crate) struct HoldSource {
    config: Arc<Config>,
    error_chars_max: usize,
    place: String,
    outbox: String,
    begin: String,
    scan: ScanSql,
    sql: HoldSql,
    settle: SettleSql,
    decoder: Decoder,
    /// Looks at rows outside of any transaction.
    looks: Link,
    /// Connections that are in no transaction.
    idle: Mutex<Vec<Session>>,
    state: tokio::sync::Mutex<State>,
    /// Whether ranks compare on this side.
    comparable: bool,
    /// Rows that open claims have locked.
    hands: Hands,
    swell: Swell,
}

#[derive(Default)]
struct State {
    pass: Pass,
    epoch: i64,
}

impl HoldSource {
    pub(crate) async fn open(config: &Arc<Config>, session: Session, table: Table) -> Result<Self, Fault> {
        require_columns(config, &table)?;
        drop(session);
        let parts = Parts::new(&config.layout, &table, config.ttl_us());
        Ok(Self {
            place: config.place(),
            outbox: config.layout.table.as_str().to_owned(),
            begin: format!(
                "begin; set local idle_in_transaction_session_timeout = {}",
                SILENCE_MAX.as_millis()
            ),
            scan: ScanSql::new(&parts),
            sql: HoldSql::new(&parts),
            settle: SettleSql::new(&parts),
            decoder: Decoder::new(&config.layout),
            looks: Link::tuned(config, Durable::Soon, SETTINGS.into()),
            idle: Mutex::default(),
            state: tokio::sync::Mutex::default(),
            comparable: parts.ranks_compare(),
            hands: Hands::default(),
            swell: Swell::default(),
            error_chars_max: error_chars_max(&config.layout, &table),
            config: Arc::clone(config),
        })
    }

    async fn try_claim(&self, state: &mut State, ask: &Ask) -> Result<Claimed<HoldHold>, SourceError> {
        let looking = self.looks.session().await?;
        let failed = |error| self.looks.failed(error);
        let holders = HashMap::new();
        let scanner = Scanner {
            session: &looking,
            outbox: &self.outbox,
            sql: &self.scan,
            decoder: &self.decoder,
            keeps_order: false,
            holders: &holders,
            hands: &self.hands,
            swell: &self.swell,
        };
        let pulse = scanner.pulse().await.map_err(failed)?;
        let State { pass, epoch } = state;
        pass.comparable = self.comparable;
        // What waits for its next try stands elsewhere by then.
        if !self.hands.given_back().is_empty() {
            pass.want_all(pulse.now_us);
        }
        if std::mem::replace(epoch, pulse.epoch) != pulse.epoch {
            pass.start_over();
        }
        pass.begin(pulse.now_us, pulse.now_lead, &ask.holds);
        let (mut rows, mut in_vain, mut locking, mut more) = (0, 0, None, false);
        loop {
            let page = scanner.page(ask, pass, in_vain).await.map_err(failed)?;
            rows += page.rows;
            in_vain += 1;
            let mut mark = page.last.clone();
            if !page.candidates.ranks.is_empty() {
                pass.end_look();
                let session = match locking.take() {
                    Some(session) => session,
                    None => self.begin().await?,
                };
                let Some(taken) = self.lock(&session, &page, ask).await.map_err(failed)? else {
                    // They are larger than they were thought to be: they are free again, and fewer are asked for.
                    session.run("rollback").await.map_err(failed)?;
                    self.keep(session);
                    page.first.into_iter().for_each(|first| pass.go_back(first));
                    continue;
                };
                let more;
                (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    pass.hand_out(mark, &page);
                    let hold = HoldHold::new(session, taken.rows, &self.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                pass.elsewhere = true;
                locking = Some(session);
            }
            pass.reach(mark, &page);
            more |= rows >= limits::SCAN_ROWS_MAX && !page.end;
            if more || (page.end && pass.ends()) {
                break;
            }
        }
        if let Some(session) = locking {
            session.run("rollback").await.map_err(failed)?;
            self.keep(session);
        }
        let due_in = scanner.due_in().await.map_err(failed)?;
        if let Some(us) = due_in.and_then(|due| i64::try_from(due.as_micros()).ok()) {
            pass.want_all(pulse.now_us.saturating_add(us));
        }
        let due_in = [pass.due_in(), due_in].into_iter().flatten().min();
        Ok(Claimed::Nothing(Idle { due_in, more, elsewhere: pass.elsewhere, ..Idle::default() }))
    }

    /// None where they do not fit into the claim.
    async fn lock(&self, session: &Session, page: &Page, ask: &Ask) -> Result<Option<Taken>, Error> {
        let entries: Vec<&str> = page.candidates.ranks.iter().map(|rank| rank.entry.as_str()).collect();
        let most = i64::try_from(page.candidates.most).unwrap_or(i64::MAX);
        let params =
            [(&self.outbox as _, Type::TEXT), (&entries as _, Type::TEXT_ARRAY), (&most as _, Type::INT8)];
        let mut taking = Taking::new(&self.decoder, &page.candidates, ask);
        session.each(&self.sql.lock, &params, |row| taking.read(row)).await?;
        let (Some(mut taken), _) = taking.finish(&self.swell) else { return Ok(None) };
        if let Some(sql) = self.sql.beside.as_ref().filter(|_| !taken.rows.is_empty()) {
            let kept = self.beside(session, sql, &entries).await?;
            let counts_here = self.config.layout.columns.retries.is_some();
            taken.amend(|entry| match kept.get(entry) {
                None => Some(None),
                Some((retries, is_free)) => is_free.then_some(retries.filter(|_| !counts_here)),
            });
        }
        Ok(Some(taken))
    }

    async fn beside(
        &self,
        session: &Session,
        sql: &str,
        entries: &[&str],
    ) -> Result<HashMap<String, (Option<u32>, bool)>, Error> {
        let params = [(&self.outbox as _, Type::TEXT), (&entries as _, Type::TEXT_ARRAY)];
        let mut kept = HashMap::new();
        for row in session.query(sql, &params).await? {
            kept.insert(
                row.try_get(beside::ENTRY)?,
                (count(&row, beside::RETRIES)?, row.try_get(beside::IS_FREE)?),
            );
        }
        Ok(kept)
    }

    /// A connection with an open transaction.
    async fn begin(&self) -> Result<Session, SourceError> {
        let failed = |error| self.looks.failed(error);
        loop {
            let known = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(session) = known else { break };
            // One that was cut while it was idle says so only when it is used.
            if session.is_good() && session.run(&self.begin).await.is_ok() {
                return Ok(session);
            }
        }
        let session = self.looks.another().await?;
        session.run(&self.begin).await.map_err(failed)?;
        Ok(session)
    }

    /// Keeps a connection that is in no transaction for the next claim.
    fn keep(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_good() && idle.len() < limits::CLAIMS_OPEN_MAX {
            idle.push(session);
        }
    }

    async fn write(&self, session: &Session, hold_parts: [Settling; 2]) -> Result<(), Error> {
        let settler = Settler {
            outbox: &self.outbox,
            sql: &self.settle,
            owner: &self.config.holder,
            claim: 0,
            fence: 0,
            in_transaction: true,
            place: &self.place,
        };
        for part in hold_parts {
            if part.buries() {
                session.run("set local synchronous_commit = on").await?;
            }
            if !part.is_empty() {
                settler.write(session, &part).await?;
            }
        }
        Ok(())
    }
}

impl Source for HoldSource {
    type Hold = HoldHold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures { ordered: false, settles: Settles::AtRelease, wakes: false, lease_ttl: SILENCE_MAX }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<HoldHold>, SourceError> {
        let mut state = self.state.lock().await;
        self.try_claim(&mut state, ask).await
    }

    /// Any statement shows the server that its client lives.
    async fn extend(&self, hold: &mut HoldHold) -> Result<(), SourceError> {
        let session = hold.session().ok_or(SourceError::Fenced)?;
        session.run("select 1").await.map_err(|error| {
            session.spoil();
            self.looks.failed(error)
        })
    }

    async fn settle(
        &self,
        hold: &mut HoldHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let session = hold.session().ok_or(SourceError::Fenced)?;
        let rows = hold.rows();
        let fresh = settlements.iter().filter(|(at, _)| rows.get(*at).is_some_and(|row| !row.settled));
        let fresh: Vec<&(usize, Settlement)> = fresh.collect();
        let sorted = fresh.iter().map(|(at, settlement)| (&rows[*at], settlement));
        let (published, returned) = Settling::sort(&self.config.layout, self.error_chars_max, sorted);
        self.write(session, [published, returned]).await.map_err(|error| {
            // What the transaction has is not known, or it is over: nobody commits it.
            session.spoil();
            self.looks.failed(error)
        })?;
        let settled: Vec<usize> = fresh.iter().map(|(at, _)| *at).collect();
        let back = fresh.iter().filter(|(_, to)| *to != Settlement::Published).map(|(at, _)| *at);
        hold.settled(&settled, back);
        Ok(())
    }

    async fn release(&self, mut hold: HoldHold) -> Result<(), SourceError> {
        let session = hold.end().ok_or(SourceError::Fenced)?;
        point::pass("postgres.settling");
        session.run("commit").await.map_err(|error| self.looks.failed(error))?;
        point::pass("postgres.settled");
        hold.committed();
        drop(hold);
        self.keep(session);
        Ok(())
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.state.lock().await = State::default();
        Ok(())
    }
}
