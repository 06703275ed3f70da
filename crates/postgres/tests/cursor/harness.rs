//! A database of the test's own, with a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_conformance::clock::ManualClock;
use postrider_conformance::source::SourceHarness;
use postrider_core::clock::Clock;
use postrider_core::layout::OnDead;
use postrider_core::source::{Ask, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope, Fault, Layout, Settlement};
use postrider_postgres::{Config, Hold, PostgresSource, migrate, open_source, open_store};
use postrider_servers::{Database, Rows, query};
use tokio_postgres::{Client, NoTls};

pub(crate) fn native() -> Layout {
    Layout::built_in("native").unwrap()
}

/// The team's tables (B19).
const COMMERCE: &str = "
    create table outbox (
        id bigserial primary key, event_id varchar(36) not null, event_type varchar(255) not null, source varchar(255) not null,
        aggregate_type varchar(100) not null, aggregate_id varchar(255) not null, payload jsonb not null,
        created_at timestamptz not null default now()
    );
    create table outbox_cursor (
        id bigserial primary key, last_processed_id bigint not null, created_at timestamptz not null default now()
    );
    create table outbox_failed (
        id bigserial primary key, event_id varchar(36) not null, event_type varchar(255) not null, source varchar(255) not null,
        aggregate_type varchar(100) not null, aggregate_id varchar(255) not null, payload jsonb not null,
        retry_count int not null default 0, last_error varchar(20), failed_at timestamptz not null,
        next_retry_at timestamptz not null
    );
";

pub(crate) fn commerce() -> Layout {
    Layout::built_in("commerce").unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn block_on(future: impl Future<Output = ()>) {
    runtime().block_on(future);
}

/// What stands before `pg_catalog` in the search path is found first: the product asks for the time by these. It stands still
/// until a test moves it.
const CLOCK: &str = "
    create schema shifted;
    create table shifted.clock (time timestamptz not null);
    insert into shifted.clock values ('1970-01-01 00:00:00Z'); -- where the suite's own clock begins
    create function shifted.clock_timestamp() returns timestamptz language sql volatile as $$ select time from shifted.clock $$;
    create function shifted.now() returns timestamptz language sql volatile as $$ select time from shifted.clock $$;
";

pub(crate) struct Harness {
    pub(crate) database: Database,
    pub(crate) layout: Layout,
    clock: ManualClock,
    loses: Arc<AtomicBool>,
    path: &'static str,
}

/// A source whose next reply can be lost.
pub(crate) struct Lossy {
    source: PostgresSource,
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
    /// Time passes when the test says so.
    pub(crate) fn new(layout: Layout) -> Self {
        let outbox = Self::bare(Database::create_blocking(), layout, "shifted");
        outbox.create();
        outbox
    }

    pub(crate) fn by_the_real_clock(layout: Layout) -> Self {
        Self::within(Database::create_blocking(), layout)
    }

    /// By the real clock, in a database that is there already.
    pub(crate) fn within(database: Database, layout: Layout) -> Self {
        let outbox = Self::bare(database, layout, "public");
        outbox.create();
        outbox
    }

    /// Without any tables.
    fn bare(database: Database, layout: Layout, path: &'static str) -> Self {
        database.query(CLOCK);
        Self { database, layout, clock: ManualClock::default(), loses: Arc::default(), path }
    }

    fn create(&self) {
        if self.layout.name == "commerce" {
            self.query(COMMERCE);
        }
        runtime().block_on(migrate(&self.config("migrate"))).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        let url = self.database.url();
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}options=-c%20search_path%3D{}%2Cpg_catalog%2Cpublic", self.path)
    }

    pub(crate) fn config(&self, holder: &str) -> Config {
        Config::new(&self.url(), self.layout.clone(), holder).unwrap()
    }

    pub(crate) fn query(&self, text: &str) -> Rows {
        query(&self.url(), text).unwrap_or_else(|error| panic!("{error}, of: {text}"))
    }

    pub(crate) async fn source(&self, holder: &str) -> PostgresSource {
        open_source(&self.config(holder)).await.unwrap()
    }

    /// A connection of a writer's own.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    fn insert(&self, envelopes: &[Envelope]) -> String {
        let columns = &self.layout.columns;
        let name = |column: &Option<postrider_core::layout::Column>| {
            column.as_ref().unwrap().name().unwrap().quoted()
        };
        let (time, per_second) =
            if self.layout.name == "native" { ("", 1) } else { ("to_timestamp", 1_000_000) };
        let rows: Vec<String> = envelopes
            .iter()
            .map(|envelope| {
                format!(
                    "('{}', '{}', '{}', '{}', '{}', {time}({}), '{}')",
                    envelope.id,
                    envelope.event_type,
                    envelope.source,
                    envelope.aggregate_type,
                    envelope.aggregate_id,
                    envelope.time.as_microsecond() / per_second,
                    std::str::from_utf8(&envelope.data).unwrap()
                )
            })
            .collect();
        format!(
            "insert into {} ({}, {}, {}, {}, {}, {}, {}) values {} returning id",
            self.layout.table.quoted(),
            name(&columns.event_id),
            name(&columns.event_type),
            name(&columns.source),
            name(&columns.aggregate_type),
            name(&columns.aggregate_id),
            name(&columns.time),
            name(&columns.payload),
            rows.join(", ")
        )
    }
}

pub(crate) fn id(row: &[Option<String>]) -> i64 {
    row[0].as_ref().unwrap().parse().unwrap()
}

impl SourceHarness for Harness {
    type Source = Lossy;
    type Transaction = Client;

    async fn open(&self, holder: &str) -> Lossy {
        Lossy { source: self.source(holder).await, loses: Arc::clone(&self.loses) }
    }

    async fn store(&self) -> Box<dyn Store> {
        Box::new(open_store(&self.config("store")).await.unwrap())
    }

    async fn append(&self, envelopes: Vec<Envelope>) -> Vec<EntryId> {
        self.query(&self.insert(&envelopes)).iter().map(|row| EntryId::Int(id(row))).collect()
    }

    async fn append_and_roll_back(&self, envelopes: Vec<Envelope>) {
        self.query(&format!("begin; {}; rollback", self.insert(&envelopes)));
    }

    async fn begin(&self, envelopes: Vec<Envelope>) -> Option<Client> {
        let client = self.client().await;
        client.batch_execute(&format!("begin; {}", self.insert(&envelopes))).await.unwrap();
        Some(client)
    }

    async fn commit(&self, client: Client) {
        client.batch_execute("commit").await.unwrap();
    }

    async fn roll_back(&self, client: Client) {
        client.batch_execute("rollback").await.unwrap();
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.query(&format!(
            "update shifted.clock set time = time + {} * interval '1 microsecond'",
            span.as_micros()
        ));
    }

    async fn corrupt(&self, id: &EntryId) -> bool {
        let never = if self.layout.name == "native" { "9223372036854775807" } else { "'infinity'" };
        let time = self.layout.columns.time.as_ref().unwrap().name().unwrap().quoted();
        let update = format!("update {} set {time} = {never} where id = {id}", self.layout.table.quoted());
        self.query(&update);
        true
    }

    fn lose_next_reply(&self) -> bool {
        self.loses.store(true, Ordering::SeqCst);
        true
    }

    fn holds_dead(&self) -> bool {
        self.layout.on_dead == OnDead::Hold
    }
}
