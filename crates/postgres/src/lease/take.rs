//! Looking for rows, and taking them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use postrider_core::layout::OnDead;
use postrider_core::source::{Ask, Claim, Claimed, Idle};
use postrider_core::status::{Late, OpenRow, Page, Pass, Rank, Taken, Why};
use postrider_core::{Key, limits};
use tokio_postgres::types::Type;

use super::{LeaseHold, LeaseSource, State};
use crate::fault::Error;
use crate::session::{Session, Transaction};
use crate::status::{Scanner, Taking};

/// Rows that one claim looks at in one snapshot, before it says that too many are held back.
const SNAPSHOT_ROWS_MAX: usize = 1_000_000;
/// How often a claim goes back for rows that came late, before it looks at everything in one snapshot.
const LATE_MAX: u32 = 8;

impl LeaseSource {
    pub(super) async fn try_claim(
        &self,
        session: &Session,
        state: &mut State,
        ask: &Ask,
    ) -> Result<Claimed<LeaseHold>, Error> {
        if !self.hold_lease(session, state).await? {
            return Ok(Claimed::Standby);
        }
        self.refresh(session, state, ask).await?;
        let mut snapshot: Option<Transaction<'_>> = None;
        let (mut rows, mut in_vain, mut late) = (0, 0, 0);
        loop {
            if state.pass.is_full() && state.pass.stops() {
                end(&mut snapshot).await?;
                return Ok(nothing(&state.pass, Idle { full: true, ..Idle::default() }));
            }
            let scanner = self.scanner(session, &state.holders);
            let page = scanner.page(ask, &mut state.pass, in_vain).await?;
            rows += page.rows;
            in_vain += 1;
            if self.fence.is_some() {
                state.watch.saw(&page);
            }
            let offers = !page.candidates.ranks.is_empty();
            if snapshot.is_none() {
                match self.late(session, state, &page).await? {
                    Late::Nothing => {}
                    Late::From(first) if late < LATE_MAX => {
                        late += 1;
                        state.pass.go_back(first);
                        continue;
                    }
                    Late::From(_) | Late::Unknown => {
                        snapshot = Some(session.begin_snapshot().await?);
                        state.pass.start_over();
                        rows = 0;
                        continue;
                    }
                }
            }
            let mut mark = page.last.clone();
            if offers {
                state.pass.end_look();
                end(&mut snapshot).await?;
                let (taken, claim) = self.take(session, state, &page, ask).await?;
                let Some(taken) = taken else {
                    // They are larger than they were thought to be: they are free again, and fewer are asked for.
                    self.put_down(session, claim).await?;
                    page.first.into_iter().for_each(|first| state.pass.go_back(first));
                    continue;
                };
                self.pass_by(&mut state.pass, &page, &taken);
                let more;
                (mark, more) = page.mark(&taken);
                if !taken.entries.is_empty() {
                    state.pass.hand_out(mark, &page);
                    let fence = state.fence.unwrap_or(0);
                    let hold = LeaseHold::new(claim, fence, taken.rows, &self.hands);
                    return Ok(Claimed::Batch(Claim { hold, entries: taken.entries, more }));
                }
                state.pass.elsewhere = true;
            }
            state.pass.reach(mark, &page);
            if page.end {
                end(&mut snapshot).await?;
                if state.pass.ends() {
                    return Ok(nothing(&state.pass, Idle::default()));
                }
            } else if snapshot.is_none() && rows >= limits::SCAN_ROWS_MAX {
                return Ok(nothing(&state.pass, Idle { more: true, ..Idle::default() }));
            } else if rows >= SNAPSHOT_ROWS_MAX {
                end(&mut snapshot).await?;
                state.pass.start_over();
                return Ok(nothing(&state.pass, Idle { full: true, ..Idle::default() }));
            }
        }
    }

    /// A row that commits late may stand before any mark, and later ones of its key must not be handed out before it: whether
    /// there is one is asked after a page was read. While nothing is handed out, only what a question by id finds is worth it.
    async fn late(&self, session: &Session, state: &mut State, page: &Page) -> Result<Late, Error> {
        if self.fence.is_none() {
            return Ok(Late::Nothing);
        }
        let State { pass, watch, holders, .. } = state;
        let Some(up_to) = pass.passes(page) else { return Ok(Late::Nothing) };
        let asks = if page.candidates.ranks.is_empty() {
            page.end && self.drawn.is_some() && watch.is_due(Some(up_to), pass.now_us())
        } else {
            true
        };
        if !asks {
            return Ok(Late::Nothing);
        }
        self.scanner(session, holders).late(watch, self.drawn.as_ref(), up_to, pass.now_us()).await
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
    async fn refresh(&self, session: &Session, state: &mut State, ask: &Ask) -> Result<(), Error> {
        let State { pass, watch, holders, epoch, .. } = state;
        let pulse = self.scanner(session, holders).pulse().await?;
        watch.begin(pulse.oldest);
        pass.comparable = self.comparable;
        for (key, rank) in self.hands.given_back() {
            pass.leave(key.as_ref(), &rank, Why::Next);
        }
        let is_changed = *epoch != Some(pulse.epoch);
        if is_changed {
            pass.start_over();
        }
        let holds_dead = self.config.keeps_order() && self.config.layout.on_dead == OnDead::Hold;
        if (is_changed || self.buried.load(Ordering::SeqCst)) && holds_dead {
            self.buried.store(false, Ordering::SeqCst);
            let found = self.scanner(session, holders).holders().await?;
            *holders = found;
        }
        *epoch = Some(pulse.epoch);
        pass.begin(pulse.now_us, pulse.now_lead, &ask.holds);
        Ok(())
    }

    fn scanner<'a>(&'a self, session: &'a Session, holders: &'a HashMap<Key, Rank>) -> Scanner<'a> {
        Scanner {
            session,
            outbox: &self.outbox,
            sql: &self.scan,
            decoder: &self.decoder,
            keeps_order: self.config.keeps_order(),
            holders,
            hands: &self.hands,
            swell: &self.swell,
        }
    }

    /// None where they do not fit into the claim; and its number.
    async fn take(
        &self,
        session: &Session,
        state: &State,
        page: &Page,
        ask: &Ask,
    ) -> Result<(Option<Taken>, i64), Error> {
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

fn nothing(pass: &Pass, idle: Idle) -> Claimed<LeaseHold> {
    Claimed::Nothing(Idle { due_in: pass.due_in(), elsewhere: pass.elsewhere, ..idle })
}

async fn end(snapshot: &mut Option<Transaction<'_>>) -> Result<(), Error> {
    match snapshot.take() {
        Some(snapshot) => snapshot.commit().await,
        None => Ok(()),
    }
}
