//! What this process knows while it holds the lease.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::Text;
use postrider_core::cursor::{Draft, Loaded};
use postrider_core::gaps::{Check, Look, Owner};

use super::CursorHold;
use super::page::Page;
use crate::session::Timer;
use crate::status::LIST;

/// It is had for moments only, never while the database is waited for: a claim reads on while a settlement is written.
#[derive(Default)]
pub(super) struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// None without the lease.
    held: Option<Held>,
    /// A claim that is being made: who asked for it may go away before it is.
    unfinished: Option<u64>,
}

/// The lease, and what was loaded under it. It belongs to two sessions: others may be on a server that has crashed since and lost
/// what was written last, and knows its transactions by other names.
pub(super) struct Held {
    pub(super) reader: u64,
    pub(super) writer: u64,
    pub(super) fence: i64,
    pub(super) loaded: Loaded,
    /// The position that was written last.
    pub(super) position: i64,
    /// The database's time when it was last asked.
    pub(super) now: Timestamp,
    /// The highest id in the table, as it was then.
    pub(super) highest: i64,
    /// While it runs, rows are read without asking whether the lease is held: the mark tells.
    pub(super) pulse: Option<Timer>,
    /// While it runs, an empty table is not asked for the ids that it has drawn.
    pub(super) emptied: Option<Timer>,
    /// How often in a row there were no rows.
    pub(super) idle: u32,
    /// What is asked about next, once it is over.
    look: Option<(Look, Timer)>,
    /// How often in a row the answer was an old one.
    old: u32,
    /// Who was alive at the last look.
    alive: BTreeSet<String>,
    /// Rows that appeared in closed gaps, as far as they were told of.
    pub(super) late_told: u64,
    /// Bytes of a row, about; zero while that is not known.
    pub(super) row_bytes: usize,
}

impl Memory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with what is held; none where nothing is.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.inner().held.as_mut().map(work)
    }

    pub(super) fn is_held(&self) -> bool {
        self.inner().held.is_some()
    }

    pub(super) fn hold(&self, held: Held) {
        self.inner().held = Some(held);
    }

    pub(super) fn forget(&self) {
        self.inner().held = None;
    }

    /// A claim begins on a session: another one than before knows nothing. What was claimed for somebody who did not wait for it
    /// is given back.
    pub(super) fn read_by(&self, session: u64) {
        let mut inner = self.inner();
        let unfinished = inner.unfinished.take();
        if inner.held.as_ref().is_some_and(|held| held.reader != session) {
            inner.held = None;
        }
        if let (Some(claim), Some(held)) = (unfinished, &mut inner.held) {
            held.loaded.drop_claim(claim);
        }
    }

    /// Something is to be written on a session; the same of another one.
    pub(super) fn written_by(&self, session: u64) {
        let mut inner = self.inner();
        if inner.held.as_ref().is_some_and(|held| held.writer != session) {
            inner.held = None;
        }
    }

    pub(super) fn is_open(&self, hold: &CursorHold) -> bool {
        self.inner().held.as_ref().is_some_and(|held| held.is_open(hold))
    }

    /// A page goes into the relay's hands, once it is marked.
    pub(super) fn hand_out(&self, page: &Page) -> Option<CursorHold> {
        let mut inner = self.inner();
        let held = inner.held.as_mut()?;
        held.loaded.hand_out(page.claim, page.ids.clone(), &page.again);
        let hold = CursorHold { claim: page.claim, fence: held.fence };
        inner.unfinished = Some(page.claim);
        Some(hold)
    }

    /// It was marked, or not; says whether it is in the relay's hands.
    pub(super) fn finish(&self, claim: u64, is_marked: bool) -> bool {
        let mut inner = self.inner();
        inner.unfinished = None;
        let Some(held) = inner.held.as_mut() else { return false };
        if !is_marked {
            held.loaded.drop_claim(claim);
            held.pulse = None;
        }
        is_marked
    }

    /// The claims that are open.
    pub(super) fn holds(&self) -> Vec<CursorHold> {
        self.with(|held| {
            let hold = |claim: &u64| CursorHold { claim: *claim, fence: held.fence };
            held.loaded.open.keys().map(hold).collect()
        })
        .unwrap_or_default()
    }
}

impl Held {
    pub(super) fn new(sessions: (u64, u64), fence: i64, loaded: Loaded, position: i64) -> Self {
        Self {
            reader: sessions.0,
            writer: sessions.1,
            fence,
            loaded,
            position,
            now: Timestamp::default(),
            highest: i64::MAX,
            pulse: None,
            emptied: None,
            idle: 0,
            look: None,
            old: 0,
            alive: BTreeSet::new(),
            late_told: 0,
            row_bytes: 0,
        }
    }

    pub(super) fn is_open(&self, hold: &CursorHold) -> bool {
        self.fence == hold.fence && self.loaded.open.contains_key(&hold.claim)
    }

    /// What is to be written; for a claim, whatever changed.
    pub(super) fn draft(&mut self, settling: bool) -> Option<Draft> {
        self.loaded.draft(self.fence, self.position, settling)
    }

    pub(super) fn answered(&mut self, draft: Draft, is_written: bool) {
        let position = self.loaded.answered(draft, is_written);
        self.position = self.position.max(position.unwrap_or(self.position));
    }

    /// The look that owners are to be asked for now.
    pub(super) fn due_look(&mut self) -> Option<Look> {
        let (look, mut noted) = match self.look.take() {
            Some(pending) => pending,
            None => (self.loaded.cursor.look()?, Timer::new(noted_for())),
        };
        if noted.is_over() {
            return Some(look);
        }
        self.look = Some((look, noted));
        None
    }

    /// Takes those who were found alive. A transaction that was prepared has no thread once its session is gone, or has let go
    /// of it: it stands for all that had the same start.
    pub(super) fn check(&mut self, look: Look, found: BTreeSet<String>) -> Check {
        let goes_on = |name: &&String| (LIST.alias)(name).is_some_and(|alias| found.contains(&alias));
        let kept: Vec<String> = self.alive.iter().filter(goes_on).cloned().collect();
        self.alive = found;
        self.alive.extend(kept);
        let owner = |name: &String| Owner { name: Text::from(name.as_str()), epoch: 0 };
        self.old = 0;
        let check = self.loaded.cursor.check(look, self.alive.iter().map(owner));
        self.look = self.loaded.cursor.look().map(|look| (look, Timer::new(noted_for())));
        check
    }
}

impl Held {
    /// Others read the list of transactions all the time: with longer and longer pauses, whose lengths differ from relay to
    /// relay, everybody comes to see a new one.
    pub(super) fn look_later(&mut self, look: Look) {
        self.old = (self.old + 1).min(5);
        let span = noted_for().saturating_mul(1 << self.old) / 8;
        let own = span.saturating_mul(std::process::id().wrapping_mul(7).wrapping_add(self.old) % 16) / 8;
        self.look = Some((look, Timer::new(noted_for() / 2 + span + own)));
    }
}

/// Owners are asked for so long after the gaps were noted that get them: what the server shows of its transactions may be
/// older, and one that has drawn an id is to be in it.
fn noted_for() -> Duration {
    Duration::from_micros(u64::try_from(LIST.grace_us).unwrap_or(0))
}
