//! A claim of the hold way: the connection with the open transaction.

use std::fmt;

use crate::session::Session;
use crate::status::{Hands, OpenRow};

/// A claim of the hold way. Dropped before its end it closes its connection, and the server frees its rows.
pub(crate) struct HoldHold {
    session: Option<Session>,
    rows: Vec<OpenRow>,
    hands: Hands,
    /// Whether something goes back.
    returns: bool,
}

impl HoldHold {
    pub(super) fn new(session: Session, rows: Vec<OpenRow>, hands: &Hands) -> Self {
        hands.take(&rows);
        Self { session: Some(session), rows, hands: hands.clone(), returns: false }
    }

    pub(super) fn rows(&self) -> &[OpenRow] {
        &self.rows
    }

    /// The connection, as long as its transaction is known to be open.
    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref().filter(|session| session.is_good())
    }

    pub(super) fn settled(&mut self, at: &[usize], returns: bool) {
        self.returns |= returns;
        at.iter().for_each(|at| self.rows[*at].settled = true);
    }

    /// Whether any of its rows is to be looked at again.
    pub(super) fn returns(&self) -> bool {
        self.returns || self.rows.iter().any(|row| !row.settled)
    }

    /// The connection, to be committed.
    pub(super) fn end(&mut self) -> Option<Session> {
        self.session.take().filter(Session::is_good)
    }
}

impl Drop for HoldHold {
    fn drop(&mut self) {
        self.hands.let_go(&self.rows);
    }
}

impl fmt::Debug for HoldHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHold").field("rows", &self.rows).finish_non_exhaustive()
    }
}
