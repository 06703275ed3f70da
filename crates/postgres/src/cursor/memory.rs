//! What this process knows while it holds the lease.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use postrider_core::cursor::{Draft, Loaded};

use super::CursorHold;
use crate::fault::Error;
use crate::session::Session;

/// It belongs to one session: another one may be on a server that has crashed since and lost what was written last, and knows
/// its transactions by other names.
#[derive(Default)]
pub(super) struct Memory {
    session: Option<Arc<Session>>,
    /// None without the lease.
    pub(super) held: Option<Held>,
    /// A claim that is being made: who asked for it may go away before it is.
    pub(super) unfinished: Option<u64>,
}

/// The lease, and what was loaded under it.
pub(super) struct Held {
    pub(super) fence: i64,
    pub(super) loaded: Loaded,
    /// The position that was written last.
    pub(super) position: i64,
    /// The database's time when it was last asked.
    pub(super) now: Timestamp,
    /// The highest id that was ever drawn, as it was then.
    pub(super) drawn: i64,
    /// When rows were last read.
    pub(super) read_at: Option<Timestamp>,
    /// How often in a row there were none.
    pub(super) idle: u32,
    /// When it was last asked who may fill gaps.
    pub(super) looked_at: Option<Timestamp>,
    /// When the team's table of failed entries was last looked at.
    pub(super) heeded_at: Option<Timestamp>,
    /// When it was last looked at for rows that others have written.
    pub(super) strangers_at: Option<Timestamp>,
    /// Prepared transactions that have outlived a restart of the server, as far as they are known.
    pub(super) survivors: BTreeSet<String>,
    /// Rows that appeared in closed gaps, as far as they were told of.
    pub(super) late_told: u64,
    /// Bytes of a row, about; zero while that is not known.
    pub(super) row_bytes: usize,
}

/// What has come of something while somebody else had the memory.
pub(super) enum News {
    /// A write was answered.
    Answered { session: Arc<Session>, draft: Box<Draft>, outcome: Outcome },
    /// A claim is settled as a whole, and was released.
    Done(CursorHold),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The lease is gone.
    Fenced,
    /// Nobody knows; it is made again.
    Failed,
}

impl News {
    pub(super) fn answered(session: &Arc<Session>, draft: Draft, answer: &Result<bool, Error>) -> Self {
        let outcome = match answer {
            Ok(true) => Outcome::Written,
            Ok(false) => Outcome::Fenced,
            Err(_) => Outcome::Failed,
        };
        Self::Answered { session: Arc::clone(session), draft: Box::new(draft), outcome }
    }
}

impl Memory {
    pub(super) fn hear(&mut self, news: News) {
        match news {
            // Another session or another lease has loaded everything anew since.
            News::Answered { session, draft, .. }
                if !self.is_of(&session)
                    || self.held.as_ref().is_none_or(|held| held.fence != draft.fence) => {}
            News::Answered { outcome: Outcome::Fenced, .. } => self.held = None,
            News::Answered { draft, outcome, .. } => {
                if let Some(held) = &mut self.held {
                    held.answered(*draft, outcome == Outcome::Written);
                }
            }
            News::Done(hold) => {
                if self.is_open(&hold)
                    && let Some(held) = &mut self.held
                {
                    held.loaded.drop_claim(hold.claim);
                }
            }
        }
    }

    pub(super) fn is_open(&self, hold: &CursorHold) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.fence == hold.fence && held.loaded.open.contains_key(&hold.claim))
    }

    /// Forgets everything if this is another session than before.
    pub(super) fn belongs_to(&mut self, session: &Arc<Session>) {
        if !self.is_of(session) {
            self.held = None;
            self.session = Some(Arc::clone(session));
        }
    }

    /// Whether it was learnt on this session.
    pub(super) fn is_of(&self, session: &Arc<Session>) -> bool {
        self.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session))
    }

    /// Gives back what was claimed for somebody who did not wait for it.
    pub(super) fn drop_unfinished(&mut self) {
        if let (Some(claim), Some(held)) = (self.unfinished.take(), &mut self.held) {
            held.loaded.drop_claim(claim);
        }
    }

    /// The claims that are open.
    pub(super) fn holds(&self) -> impl Iterator<Item = CursorHold> {
        self.held.iter().flat_map(|held| {
            held.loaded.open.keys().map(|claim| CursorHold {
                claim: *claim,
                fence: held.fence,
                is_done: false,
            })
        })
    }
}
