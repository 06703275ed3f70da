//! One write of a cursor: what it says, so that memory is free while it is on its way.

use super::{Loaded, Shelf, Write};

/// One write: it owns what it says.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Under which it is to be written.
    pub fence: i64,
    /// Everything up to here is published or kept beside the position.
    pub position: i64,
    /// What lies between the position and this id is in the holder's hands,
    pub claimed: i64,
    /// but for these.
    pub returned: Vec<i64>,
    /// What was marked as in hand and is not any more.
    pub unclaimed: Vec<i64>,
    /// What has changed beside that.
    pub write: Option<Write>,
}

impl Draft {
    /// Whether something is given up: that is to be durable.
    #[must_use]
    pub fn buries(&self) -> bool {
        let buries = |write: &Write| write.upserts.iter().any(|exception| exception.shelf == Shelf::Dead);
        self.write.as_ref().is_some_and(buries)
    }

    /// Whether only the position and the gaps change.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        self.write.as_ref().is_none_or(|Write { closed, reopened, upserts, deletes, ranges, .. }| {
            let alike = closed.is_empty() && reopened.is_empty() && upserts.is_empty() && deletes.is_empty();
            alike && ranges.is_none()
        })
    }

    /// Whether only the position moves.
    #[must_use]
    pub fn is_move(&self) -> bool {
        self.is_narrow() && self.write.as_ref().is_none_or(|write| write.gaps.is_none())
    }
}

impl Loaded {
    /// What is to be written since the last write that succeeded, which left `position`; for a claim that is settled, whatever
    /// changed.
    pub fn draft(&mut self, fence: i64, position: i64, settling: bool) -> Option<Draft> {
        let write = self.cursor.write();
        if write.is_none() && !settling {
            return None;
        }
        let position = write.as_ref().map_or(position, |write| write.position);
        self.returned = self.returned.split_off(&position.saturating_add(1));
        let unclaimed: Vec<i64> = self.no_longer_again().into_iter().collect();
        // Who is handed out again before the answer is here is marked again, behind this write.
        self.again.retain(|id| unclaimed.binary_search(id).is_err());
        Some(Draft {
            fence,
            position,
            claimed: self.claimed(position),
            returned: self.returned.iter().copied().collect(),
            unclaimed,
            write,
        })
    }

    /// A write was answered; says the position where it was written. One that did not succeed is made again with the next.
    pub fn answered(&mut self, draft: Draft, is_written: bool) -> Option<i64> {
        if !is_written {
            self.again.extend(draft.unclaimed);
            return None;
        }
        if let Some(write) = draft.write {
            self.cursor.applied(write);
        }
        Some(draft.position)
    }
}
