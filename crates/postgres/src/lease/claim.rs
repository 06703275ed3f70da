//! A claim of the lease way.

use postrider_core::status::{Hands, OpenRow};

/// Rows that are held until they are settled, or the lease runs out.
#[derive(Debug)]
pub(crate) struct LeaseHold {
    pub(super) claim: i64,
    pub(super) fence: i64,
    pub(super) rows: Vec<OpenRow>,
    /// A call was left without an answer: what it wrote may be there already.
    pub(super) unsure: bool,
    hands: Hands,
}

impl LeaseHold {
    pub(super) fn new(claim: i64, fence: i64, rows: Vec<OpenRow>, hands: &Hands) -> Self {
        hands.take(&rows);
        Self { claim, fence, rows, unsure: false, hands: hands.clone() }
    }

    /// The entries that are not settled.
    pub(super) fn left(&self) -> Vec<String> {
        self.rows.iter().filter(|row| !row.settled).map(|row| row.entry().to_owned()).collect()
    }

    /// These are settled; whether they are to be looked at again.
    pub(super) fn settled(&mut self, places: impl Iterator<Item = usize>, returns: bool) {
        for at in places {
            self.rows[at].settled = true;
            if returns {
                self.hands.give_back([&self.rows[at]]);
            } else {
                self.hands.let_go([&self.rows[at]]);
            }
        }
    }
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        self.hands.give_back(self.rows.iter().filter(|row| !row.settled));
    }
}
