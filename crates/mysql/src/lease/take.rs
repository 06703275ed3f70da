//! Looking for rows, and taking them in one short transaction.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use mysql_async::{Params, params};
use postrider_core::layout::OnDead;
use postrider_core::limits;
use postrider_core::source::{Ask, Claim, Claimed, Idle};
use postrider_core::status::{Late, OpenRow, Page, Pass, Taken, Why};

use super::{LeaseHold, LeaseSource, State};
use crate::fault::Error;
use crate::rows::{count, number, text};
use crate::session::Session;
use crate::sql::ids;
use crate::status::{Owners, Pulse, place};

/// Rows that one claim looks at in one snapshot, before it says that too many are held back.
const SNAPSHOT_ROWS_MAX: usize = 1_000_000;
/// How often a claim goes back for rows that came late, before it looks at everything in one snapshot.
const LATE_MAX: u32 = 8;

/// What came of taking rows.
enum Took {
    Rows(Taken),
    /// They are larger than they were thought to be, and do not fit.
    TooLarge,
    /// The outbox's lease was lost.
    Fenced,
}

impl LeaseSource {
    pub(super) async fn try_claim(
        &self,
        session: &mut Session,
        state: &mut State,
        ask: &Ask,
    ) -> Result<Claimed<LeaseHold>, Error> {
        if !self.hold_lease(session, state).await? {
            return Ok(Claimed::Standby);
        }
        let pulse = self.refresh(session, state, ask).await?;
        let mut in_snapshot = false;
        let (mut rows, mut in_vain, mut late) = (0, 0, 0);
        loop {
            if state.pass.is_full() && state.pass.stops() {
                end(session, &mut in_snapshot).await?;
                return Ok(nothing(&state.pass, Idle { full: true, ..Idle::default() }));
            }
            let page = self.scanner.page(session, ask, &mut state.pass, &state.holders, in_vain).await?;
            rows += page.rows;
            in_vain += 1;
            if self.fence.is_some() {
                state.watch.saw(&page);
            }
            if !in_snapshot {
                match self.late(session, state, &page, &pulse).await? {
                    Late::Nothing => {}
                    Late::From(first) if late < LATE_MAX => {
                        late += 1;
                        state.pass.go_back(first);
                        continue;
                    }
                    Late::From(_) | Late::Unknown => {
                        session.begin_snapshot().await?;
                        in_snapshot = true;
                        state.pass.start_over();
                        rows = 0;
                        continue;
                    }
                }
            }
            let mut mark = page.last.clone();
            if !page.candidates.ranks.is_empty() {
                state.pass.end_look();
                end(session, &mut in_snapshot).await?;
                let taken = match self.take(session, state, &page, ask, pulse.number).await? {
                    Took::Rows(taken) => taken,
                    Took::TooLarge => {
                        page.first.into_iter().for_each(|first| state.pass.go_back(first));
                        continue;
                    }
                    Took::Fenced => {
                        *state = State::default();
                        return Ok(Claimed::Standby);
                    }
                };
                self.pass_by(&mut state.pass, &page, &taken);
                let more;
                (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    state.pass.hand_out(mark, &page);
                    let fence = state.fence.unwrap_or(0);
                    let hold = LeaseHold::new(pulse.number, fence, taken.rows, &self.scanner.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                state.pass.elsewhere = true;
            }
            state.pass.reach(mark, &page);
            if page.end {
                end(session, &mut in_snapshot).await?;
                if state.pass.ends() {
                    return Ok(nothing(&state.pass, Idle::default()));
                }
            } else if !in_snapshot && rows >= limits::SCAN_ROWS_MAX {
                return Ok(nothing(&state.pass, Idle { more: true, ..Idle::default() }));
            } else if rows >= SNAPSHOT_ROWS_MAX {
                end(session, &mut in_snapshot).await?;
                state.pass.start_over();
                return Ok(nothing(&state.pass, Idle { full: true, ..Idle::default() }));
            }
        }
    }

    /// A row that commits late may stand before any mark, and later ones of its key must not be handed out before it: whether
    /// there is one is asked after a page was read. While nothing is handed out, only what a question by id finds is worth it.
    async fn late(
        &self,
        session: &mut Session,
        state: &mut State,
        page: &Page,
        pulse: &Pulse,
    ) -> Result<Late, Error> {
        if self.fence.is_none() {
            return Ok(Late::Nothing);
        }
        let State { pass, watch, .. } = state;
        let Some(up_to) = pass.passes(page) else { return Ok(Late::Nothing) };
        let asks = if page.candidates.ranks.is_empty() {
            page.end && self.owners == Owners::Listed && watch.is_due(Some(up_to), pulse.server_us)
        } else {
            true
        };
        if !asks {
            return Ok(Late::Nothing);
        }
        self.scanner.late(session, watch, self.owners, up_to, pulse.server_us).await
    }

    /// What was offered in vain is in other hands, or gone. Where order is kept, nothing goes before it.
    fn pass_by(&self, pass: &mut Pass, page: &Page, taken: &Taken) {
        let candidates = &page.candidates;
        if self.fence.is_none() || taken.rows.len() == candidates.ranks.len() {
            return;
        }
        let came: HashSet<&str> = taken.rows.iter().map(OpenRow::entry).collect();
        for (rank, key) in candidates.ranks.iter().zip(&candidates.keys) {
            if !came.contains(rank.entry.as_str()) {
                pass.leave(key.as_ref(), rank, Why::Next);
                pass.elsewhere = true;
            }
        }
    }

    /// Takes in what was given back, and what a verb may have changed: then everything is looked at.
    async fn refresh(&self, session: &mut Session, state: &mut State, ask: &Ask) -> Result<Pulse, Error> {
        let pulse = self.scanner.pulse(session).await?;
        let State { pass, holders, epoch, .. } = state;
        pass.comparable = self.scanner.comparable;
        for (key, rank) in self.scanner.hands.given_back() {
            pass.leave(key.as_ref(), &rank, Why::Next);
        }
        let is_changed = *epoch != Some(pulse.epoch);
        if is_changed {
            pass.start_over();
        }
        let holds_dead = self.config.keeps_order() && self.config.layout.on_dead == OnDead::Hold;
        if (is_changed || self.buried.load(Ordering::SeqCst)) && holds_dead {
            self.buried.store(false, Ordering::SeqCst);
            *holders = self.scanner.holders(session).await?;
        }
        *epoch = Some(pulse.epoch);
        pass.begin(pulse.now_us, pulse.now_lead.clone(), &ask.holds);
        Ok(pulse)
    }

    async fn take(
        &self,
        session: &mut Session,
        state: &State,
        page: &Page,
        ask: &Ask,
        claim: u64,
    ) -> Result<Took, Error> {
        session.begin().await?;
        if !self.is_guarded(session, state.fence.unwrap_or(0)).await? {
            session.commit().await?;
            return Ok(Took::Fenced);
        }
        let candidates = &page.candidates;
        let list = ids(candidates.ranks.iter().map(|rank| rank.entry.as_str()));
        let params = params! { "outbox" => &self.outbox, "list" => &list, "rows" => candidates.most };
        let rows = session.query(&self.sql.lock, params).await?;
        let Some(mut taken) = self.scanner.taken(&rows, candidates, ask) else {
            session.roll_back().await?;
            return Ok(Took::TooLarge);
        };
        if self.fence.is_some() && taken.rows.len() < candidates.ranks.len() {
            self.leave_stuck(session, page, &list, &mut taken).await?;
        }
        if !taken.rows.is_empty() {
            self.hold(session, &mut taken, claim).await?;
        }
        session.commit().await?;
        Ok(Took::Rows(taken))
    }

    /// Where order is kept: whether the outbox's lease is held, which nobody takes before the transaction has ended.
    pub(super) async fn is_guarded(&self, session: &mut Session, fence: i64) -> Result<bool, Error> {
        if self.fence.is_none() {
            return Ok(true);
        }
        let params = params! { "outbox" => &self.outbox, "owner" => &self.config.holder, "fence" => fence };
        Ok(session.first(&self.sql.guard, params).await?.is_some())
    }

    /// A row that somebody has locked is passed by, and so are those of its key that come after it.
    async fn leave_stuck(
        &self,
        session: &mut Session,
        page: &Page,
        list: &str,
        taken: &mut Taken,
    ) -> Result<(), Error> {
        let candidates = &page.candidates;
        let rows = session.query(&self.sql.available, self.of_outbox(list)).await?;
        let places = candidates.ranks.iter().enumerate().map(|(at, rank)| (rank.entry.as_str(), at));
        let places: HashMap<&str, usize> = places.collect();
        let mine: HashSet<usize> =
            taken.rows.iter().filter_map(|row| places.get(row.entry()).copied()).collect();
        let mut first_stuck = HashMap::new();
        for at in rows.iter().filter_map(|row| place(number(row, 0))).filter(|at| !mine.contains(at)) {
            if let Some(Some(key)) = candidates.keys.get(at) {
                let first = first_stuck.entry(key).or_insert(at);
                *first = at.min(*first);
            }
        }
        taken.amend(|entry| {
            let at = places.get(entry).copied()?;
            let key = candidates.keys.get(at).and_then(Option::as_ref);
            let stuck = key.and_then(|key| first_stuck.get(key));
            stuck.is_none_or(|first| at < *first).then_some(None)
        });
        Ok(())
    }

    /// The row's lock keeps out whoever claims or settles it; whoever has claimed it since it was looked at, and still holds
    /// it, is found out here.
    async fn hold(&self, session: &mut Session, taken: &mut Taken, claim: u64) -> Result<(), Error> {
        let listed = |taken: &Taken| ids(taken.rows.iter().map(OpenRow::entry));
        let offered = listed(taken);
        session.execute(&self.sql.hold, self.of_claim(offered.clone(), claim)).await?;
        let rows = session.query(&self.sql.held, self.of_claim(offered, claim)).await?;
        let mut held: HashMap<String, Option<u32>> = HashMap::with_capacity(rows.len());
        for row in &rows {
            let open = place(number(row, 0)).and_then(|at| taken.rows.get(at));
            held.extend(open.map(|open| (open.entry().to_owned(), count(row, 1))));
        }
        let own_retries = self.config.layout.columns.retries.is_some();
        taken.amend(|entry| held.get(entry).map(|retries| retries.filter(|_| !own_retries)));
        let Some(sql) = self.sql.mark.as_ref().filter(|_| !taken.rows.is_empty()) else { return Ok(()) };
        session.execute(sql, params! { "list" => listed(taken), "owner" => &self.config.holder }).await?;
        if self.config.layout.columns.version.is_some() {
            let most = crate::sql::status::version_max(&self.config.layout, &self.table);
            taken.rows.iter_mut().for_each(|row| row.version = row.version % most + 1);
        }
        Ok(())
    }

    /// Gives back rows that a statement lists.
    pub(super) async fn give_back(&self, session: &mut Session, which: &str) -> Result<(), Error> {
        let params = params! { "outbox" => &self.outbox, "owner" => &self.config.holder };
        let held = session.query(which, params).await?;
        if held.is_empty() {
            return Ok(());
        }
        let entries: Vec<String> = held.iter().filter_map(|row| text(row, 0)).collect();
        let list = ids(entries.iter().map(String::as_str));
        session.begin().await?;
        session.query(&self.sql.wait_for, params! { "list" => &list }).await?;
        if let Some(sql) = &self.sql.give_back {
            session.execute(sql, params! { "list" => &list }).await?;
        }
        session.execute(&self.sql.let_go, self.of_outbox(&list)).await?;
        session.commit().await
    }

    fn of_outbox(&self, list: &str) -> Params {
        params! { "outbox" => &self.outbox, "list" => list }
    }

    pub(super) fn of_claim(&self, list: String, claim: u64) -> Params {
        params! {
            "outbox" => &self.outbox,
            "list" => list,
            "owner" => &self.config.holder,
            "claim" => claim,
        }
    }
}

fn nothing(pass: &Pass, idle: Idle) -> Claimed<LeaseHold> {
    Claimed::Nothing(Idle { due_in: pass.due_in(), elsewhere: pass.elsewhere, ..idle })
}

async fn end(session: &mut Session, in_snapshot: &mut bool) -> Result<(), Error> {
    if std::mem::take(in_snapshot) { session.commit().await } else { Ok(()) }
}
