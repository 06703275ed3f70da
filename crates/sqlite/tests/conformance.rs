//! The Source and Store suites over every way that SQLite has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{STATUS_TABLE, native, status_layout};
use postrider_conformance::clock::ManualClock;
use postrider_conformance::source::SourceHarness;
use postrider_core::clock::Clock;
use postrider_core::layout::{OnDead, Order};
use postrider_core::source::{Ask, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope, Fault, Layout, Settlement};
use postrider_sqlite::{Config, Hold, Outbox, SqliteSource, migrate, open_source, open_store};
use rusqlite::Connection;
use tempfile::NamedTempFile;

struct Harness {
    file: NamedTempFile,
    layout: Layout,
    clock: ManualClock,
    loses: Arc<AtomicBool>,
}

/// A source whose next reply can be lost.
struct Lossy {
    source: SqliteSource,
    loses: Arc<AtomicBool>,
}

impl Lossy {
    fn reply(&self, done: Result<(), SourceError>) -> Result<(), SourceError> {
        if done.is_ok() && self.loses.swap(false, Ordering::SeqCst) {
            return Err(SourceError::Unreachable(Fault::new("test", "the reply was lost", "ask again")));
        }
        done
    }
}

impl Source for Lossy {
    type Hold = Hold;

    fn features(&self) -> SourceFeatures {
        self.source.features()
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<Hold>, SourceError> {
        self.source.claim(ask).await
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        self.source.extend(hold).await
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        self.reply(self.source.settle(hold, settlements).await)
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        self.reply(self.source.release(hold).await)
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.source.retire().await
    }
}

impl Harness {
    fn new(layout: Layout) -> Self {
        let file = NamedTempFile::new().unwrap();
        if layout.name != "native" {
            Connection::open(file.path()).unwrap().execute_batch(STATUS_TABLE).unwrap();
        }
        let harness = Self { file, layout, clock: ManualClock::default(), loses: Arc::default() };
        migrate(&harness.config("migrate")).unwrap();
        harness
    }

    fn config(&self, holder: &str) -> Config {
        Config::new(self.file.path(), self.layout.clone(), holder)
    }

    fn connection(&self) -> Connection {
        let connection = Connection::open(self.file.path()).unwrap();
        connection.execute_batch("pragma synchronous = off").unwrap();
        connection
    }

    fn write(&self, envelopes: &[Envelope], commit: bool) -> Vec<EntryId> {
        let mut connection = self.connection();
        let transaction = connection.transaction().unwrap();
        let appended = Outbox::new(&self.layout).unwrap().append_all(&transaction, envelopes).unwrap();
        if commit { transaction.commit() } else { transaction.rollback() }.unwrap();
        appended.into_iter().map(|appended| appended.id).collect()
    }
}

impl SourceHarness for Harness {
    type Source = Lossy;
    type Transaction = ();

    async fn open(&self, holder: &str) -> Lossy {
        let source = open_source(&self.config(holder), Arc::new(self.clock.clone())).unwrap();
        Lossy { source, loses: Arc::clone(&self.loses) }
    }

    async fn store(&self) -> Box<dyn Store> {
        Box::new(open_store(&self.config("store"), Arc::new(self.clock.clone())).unwrap())
    }

    async fn append(&self, envelopes: Vec<Envelope>) -> Vec<EntryId> {
        self.write(&envelopes, true)
    }

    async fn append_and_roll_back(&self, envelopes: Vec<Envelope>) {
        self.write(&envelopes, false);
    }

    /// SQLite has one writer: nobody commits while a transaction that has written is open.
    async fn begin(&self, _envelopes: Vec<Envelope>) -> Option<()> {
        None
    }

    async fn commit(&self, (): ()) {}

    async fn roll_back(&self, (): ()) {}

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn corrupt(&self, id: &EntryId) -> bool {
        let sql = format!(
            "update {} set {} = 'no time' where id = ?1",
            self.layout.table,
            time_column(&self.layout)
        );
        self.connection().execute(&sql, [id.int().unwrap()]).unwrap() == 1
    }

    fn lose_next_reply(&self) -> bool {
        self.loses.store(true, Ordering::SeqCst);
        true
    }

    fn holds_dead(&self) -> bool {
        self.layout.on_dead == OnDead::Hold
    }
}

fn time_column(layout: &Layout) -> &str {
    layout.columns.time.as_ref().unwrap().name().unwrap().as_str()
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
}

mod native_cursor {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(native()));
    postrider_conformance::store_suite!(block_on, Harness::new(native()));
}

mod native_cursor_skipping_the_dead {
    use super::*;
    fn layout() -> Layout {
        Layout { on_dead: OnDead::Skip, ..native() }
    }
    postrider_conformance::source_suite!(block_on, Harness::new(layout()));
    postrider_conformance::store_suite!(block_on, Harness::new(layout()));
}

mod status_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(status_layout(Order::Key)));
    postrider_conformance::store_suite!(block_on, Harness::new(status_layout(Order::Key)));
}

mod status_lease_without_order {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(status_layout(Order::None)));
    postrider_conformance::store_suite!(block_on, Harness::new(status_layout(Order::None)));
}

/// Every state column of its own: nothing but leases lives beside the table.
mod full_status_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(common::full_status_layout(Order::Key)));
    postrider_conformance::store_suite!(block_on, Harness::new(common::full_status_layout(Order::Key)));
}

mod full_status_lease_without_order {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(common::full_status_layout(Order::None)));
    postrider_conformance::store_suite!(block_on, Harness::new(common::full_status_layout(Order::None)));
}
