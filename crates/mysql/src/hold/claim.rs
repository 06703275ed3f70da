//! A claim of the hold way: the connection with the open transaction.

use std::fmt;

use postrider_core::Settlement;
use postrider_core::status::{Hands, OpenRow};

use crate::session::Session;

/// A claim of the hold way. Dropped before its end it closes its connection, and the server frees its rows.
pub(crate) struct HoldHold {
    session: Option<Session>,
    rows: Vec<OpenRow>,
    hands: Hands,
    /// What became of rows, as far as it is written in the open transaction.
    settled: Vec<(usize, Settlement)>,
    /// Whether it was committed.
    done: bool,
}

impl HoldHold {
    pub(super) fn new(session: Session, rows: Vec<OpenRow>, hands: &Hands) -> Self {
        hands.take(&rows);
        Self { session: Some(session), rows, hands: hands.clone(), settled: Vec::new(), done: false }
    }

    pub(super) fn rows(&self) -> &[OpenRow] {
        &self.rows
    }

    pub(super) fn settled(&self) -> &[(usize, Settlement)] {
        &self.settled
    }

    /// The connection, as long as its transaction is known to be open. Whoever does not put it back has ended the claim.
    pub(super) fn take(&mut self) -> Option<Session> {
        self.session.take().filter(Session::is_open)
    }

    pub(super) fn put_back(&mut self, session: Session, fresh: Vec<(usize, Settlement)>) {
        fresh.iter().for_each(|(at, _)| self.rows[*at].settled = true);
        self.settled.extend(fresh);
        self.session = Some(session);
    }

    pub(super) fn committed(mut self) {
        self.done = true;
    }
}

impl Drop for HoldHold {
    fn drop(&mut self) {
        let is_done = |at: &usize| {
            self.done && self.settled.iter().any(|(of, to)| of == at && *to == Settlement::Published)
        };
        let (done, back): (Vec<_>, Vec<_>) = self.rows.iter().enumerate().partition(|(at, _)| is_done(at));
        self.hands.let_go(done.into_iter().map(|(_, row)| row));
        self.hands.give_back(back.into_iter().map(|(_, row)| row));
    }
}

impl fmt::Debug for HoldHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHold").field("rows", &self.rows).finish_non_exhaustive()
    }
}
