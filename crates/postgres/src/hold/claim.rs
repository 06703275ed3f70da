//! A claim of the hold way: the connection with the open transaction.

use std::fmt;

use postrider_core::status::{Hands, OpenRow};

use crate::session::Session;

/// A claim of the hold way. Dropped before its end it closes its connection, and the server frees its rows.
pub(crate) struct HoldHold {
    session: Option<Session>,
    rows: Vec<OpenRow>,
    hands: Hands,
    /// Rows that go back are to be looked at again.
    returns: Vec<usize>,
    /// Whether it was committed.
    done: bool,
}

impl HoldHold {
    pub(super) fn new(session: Session, rows: Vec<OpenRow>, hands: &Hands) -> Self {
        hands.take(&rows);
        Self { session: Some(session), rows, hands: hands.clone(), returns: Vec::new(), done: false }
    }

    pub(super) fn rows(&self) -> &[OpenRow] {
        &self.rows
    }

    /// The connection, as long as its transaction is known to be open.
    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref().filter(|session| session.is_good())
    }

    pub(super) fn settled(&mut self, at: &[usize], returns: impl Iterator<Item = usize>) {
        self.returns.extend(returns);
        at.iter().for_each(|at| self.rows[*at].settled = true);
    }

    /// It was committed.
    pub(super) fn committed(&mut self) {
        self.done = true;
    }

    /// The connection, to be committed.
    pub(super) fn end(&mut self) -> Option<Session> {
        self.session.take().filter(Session::is_good)
    }
}

impl Drop for HoldHold {
    fn drop(&mut self) {
        let settled = |(at, row): &(usize, &OpenRow)| self.done && row.settled && !self.returns.contains(at);
        let (done, back): (Vec<_>, Vec<_>) = self.rows.iter().enumerate().partition(settled);
        self.hands.let_go(done.into_iter().map(|(_, row)| row));
        self.hands.give_back(back.into_iter().map(|(_, row)| row));
    }
}

impl fmt::Debug for HoldHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHold").field("rows", &self.rows).finish_non_exhaustive()
    }
}
