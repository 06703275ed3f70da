//! What this process knows while it holds the lease.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use postrider_core::cursor::Loaded;

use super::CursorHold;
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
    /// Whether there were none.
    pub(super) is_idle: bool,
    /// When it was last asked who may fill gaps.
    pub(super) looked_at: Option<Timestamp>,
    /// When the team's table of failed entries was last looked at.
    pub(super) heeded_at: Option<Timestamp>,
    /// Prepared transactions that have outlived a restart of the server, as far as they are known.
    pub(super) survivors: BTreeSet<String>,
    /// Rows that appeared in closed gaps, as far as they were told of.
    pub(super) late_told: u64,
    /// Bytes of a row, about; zero while that is not known.
    pub(super) row_bytes: usize,
}

impl Memory {
    /// Forgets everything if this is another session than before.
    pub(super) fn belongs_to(&mut self, session: &Arc<Session>) {
        if !self.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            self.held = None;
            self.session = Some(Arc::clone(session));
        }
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
            held.loaded.open.keys().map(|claim| CursorHold { claim: *claim, fence: held.fence })
        })
    }
}
