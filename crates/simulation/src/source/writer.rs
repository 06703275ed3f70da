//! A writer's transaction: ids are drawn when it appends, and seen when it commits.

use postrider_core::{Envelope, Key};

use super::Outbox;

/// An open transaction. Dropped without a commit, it is rolled back, and its ids are gone.
pub struct Writer {
    outbox: Outbox,
    transaction: u64,
    ids: Vec<i64>,
}

impl Writer {
    pub(super) fn new(outbox: &Outbox) -> Self {
        let transaction = outbox.lock().begin();
        Self { outbox: outbox.clone(), transaction, ids: Vec::new() }
    }

    /// Appends an event; nobody sees it yet.
    pub fn append(&mut self, envelope: Envelope) -> i64 {
        let key = Key { scope: envelope.aggregate_type.clone(), id: envelope.aggregate_id.clone() };
        let id = self.outbox.lock().insert(envelope, key);
        self.ids.push(id);
        id
    }

    /// Makes everything visible at once.
    pub fn commit(mut self) {
        let ids = std::mem::take(&mut self.ids);
        self.outbox.lock().commit(&ids);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut database = self.outbox.lock();
        database.end(self.transaction, &self.ids);
    }
}
