//! What the tests share: databases whose clock stands still until it is moved, tables in them, rows written by plain SQL.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

pub mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_conformance::clock::ManualClock;
use postrider_conformance::source::SourceHarness;
use postrider_core::clock::Clock;
use postrider_core::layout::{Column, OnDead, TimeForm};
use postrider_core::route::Router;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope, Fault, Layout, Settlement};
use postrider_postgres::{Config, Hold, PostgresSource, migrate, open_source, open_store};
use postrider_servers::{Database, until};

/// The database's clock: unqualified names are sought there first.
const CLOCK: &str = "
    create schema shifted;
    create table shifted.clock (at timestamptz not null);
    insert into shifted.clock values ('1970-01-01 00:00:00+00');
    create table shifted.passed (at timestamptz not null default pg_catalog.clock_timestamp(), span interval not null);
    create function shifted.clock_timestamp() returns timestamptz language sql volatile as 'select at from shifted.clock';
    create function shifted.now() returns timestamptz language sql volatile as 'select at from shifted.clock';
";

/// An outbox in a database of its own, whose clock is moved by hand.
pub struct Harness {
    pub database: Database,
    pub layout: Layout,
    clock: ManualClock,
    loses: Arc<AtomicBool>,
}

impl Harness {
    /// With the team's own tables in it.
    pub fn new(layout: Layout, tables: &str) -> Self {
        Self::within(Database::create_blocking(), layout, tables)
    }

    /// The same in a database on another server.
    pub fn within(database: Database, layout: Layout, tables: &str) -> Self {
        database.query(CLOCK);
        database.query(&format!(
            "alter database {} set search_path = shifted, pg_catalog, public",
            database.name()
        ));
        database.query(tables);
        let harness = Self { database, layout, clock: ManualClock::default(), loses: Arc::default() };
        block_on(async { migrate(&harness.config("migrate")).await.map(drop).unwrap() });
        harness
    }

    pub fn config(&self, holder: &str) -> Config {
        let url = self.database.url();
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}application_name={holder}");
        Config::new(&url, self.layout.clone(), holder).unwrap()
    }

    /// Rows as an application writes them, by plain SQL.
    pub fn insert(&self, envelopes: &[Envelope]) -> String {
        envelopes.iter().map(|envelope| insert(&self.layout, envelope)).collect::<Vec<_>>().join("; ")
    }

    /// The one value that a query answers.
    pub fn value(&self, sql: &str) -> Option<String> {
        self.database.query(sql).into_iter().next().and_then(|row| row.into_iter().next()).flatten()
    }

    fn id(&self, text: String) -> EntryId {
        let counts = text.parse::<i64>().ok();
        counts.map_or_else(|| EntryId::Text(text.into()), EntryId::Int)
    }

    /// As the server does with clients that are silent in a transaction for too long, but by the clock of the tests.
    fn end_the_silent(&self, longest: Duration) {
        let sql = format!(
            "select pg_terminate_backend(a.pid, 60000) from pg_stat_activity as a where a.datname = current_database() \
             and a.state like 'idle in transaction%' and a.application_name <> 'writer' \
             and (select coalesce(sum(span), '0') from shifted.passed as p where p.at >= a.state_change) \
             >= {} * interval '1 microsecond'",
            longest.as_micros()
        );
        self.database.query(&sql);
    }
}

fn insert(layout: &Layout, envelope: &Envelope) -> String {
    let columns = &layout.columns;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let time = |form: &TimeForm| {
        let number = form.number(envelope.time);
        number.map_or_else(|| quoted(&layout.zone.write(envelope.time)), |number| number.to_string())
    };
    let data = String::from_utf8_lossy(&envelope.data).into_owned();
    let texts = [
        (&columns.event_id, &*envelope.id),
        (&columns.event_type, &*envelope.event_type),
        (&columns.source, &*envelope.source),
        (&columns.aggregate_type, &*envelope.aggregate_type),
        (&columns.aggregate_id, &*envelope.aggregate_id),
        (&columns.payload, data.as_str()),
        (&columns.status, layout.status.as_ref().map_or("", |words| words.pending.as_str())),
    ];
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (column, text) in texts {
        if let Some(name) = column.as_ref().and_then(Column::name) {
            names.push(name.quoted());
            values.push(quoted(text));
        }
    }
    if let Some(Column::Named(name, form)) = &columns.time {
        names.push(name.quoted());
        values.push(time(form));
    }
    let id = columns.id.as_ref().and_then(Column::name).unwrap().quoted();
    let schema = layout.schema.as_ref().map_or(String::new(), |schema| format!("{}.", schema.quoted()));
    format!(
        "insert into {schema}{} ({}) values ({}) returning {id}",
        layout.table.quoted(),
        names.join(", "),
        values.join(", ")
    )
}

impl SourceHarness for Harness {
    type Source = Lossy;
    type Transaction = tokio_postgres::Client;

    async fn open(&self, holder: &str) -> Lossy {
        let source = open_source(&self.config(holder)).await.unwrap();
        Lossy { source, holder: holder.to_owned(), loses: Arc::clone(&self.loses) }
    }

    async fn store(&self) -> Box<dyn Store> {
        Box::new(open_store(&self.config("store")).await.unwrap())
    }

    async fn kill(&self, source: Lossy) {
        let holder = source.holder.clone();
        drop(source);
        // The connection's task tells the server, which then frees what it held.
        let gone = format!(
            "select 1 from pg_stat_activity where datname = current_database() and application_name = '{holder}'"
        );
        const LOOKS_MAX: usize = 20_000;
        for _ in 0..LOOKS_MAX {
            if self.value(&gone).is_none() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{holder} is dead, and its connections stay");
    }

    async fn append(&self, envelopes: Vec<Envelope>) -> Vec<EntryId> {
        let sql = format!("begin; {}; commit", self.insert(&envelopes));
        self.database.query(&sql).into_iter().flatten().flatten().map(|id| self.id(id)).collect()
    }

    async fn append_and_roll_back(&self, envelopes: Vec<Envelope>) {
        self.database.query(&format!("begin; {}; rollback", self.insert(&envelopes)));
    }

    async fn begin(&self, envelopes: Vec<Envelope>) -> Option<tokio_postgres::Client> {
        let mut config: tokio_postgres::Config = self.database.url().parse().unwrap();
        config.application_name("writer");
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("begin; {}", self.insert(&envelopes))).await.unwrap();
        Some(client)
    }

    async fn commit(&self, transaction: tokio_postgres::Client) {
        transaction.batch_execute("commit").await.unwrap();
    }

    async fn roll_back(&self, transaction: tokio_postgres::Client) {
        transaction.batch_execute("rollback").await.unwrap();
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        let span = format!("{} * interval '1 microsecond'", span.as_micros());
        self.database.query(&format!(
            "insert into shifted.passed (span) values ({span}); update shifted.clock set at = at + {span}"
        ));
        self.end_the_silent(Duration::from_secs(40));
    }

    async fn corrupt(&self, id: &EntryId) -> bool {
        let column = |column: &Option<Column>| column.as_ref().and_then(Column::name).unwrap().quoted();
        let (id_column, type_column) =
            (column(&self.layout.columns.id), column(&self.layout.columns.event_type));
        let sql = format!(
            "update {}{} set {type_column} = null where {id_column} = '{id}' returning 1",
            self.layout.schema.as_ref().map_or(String::new(), |schema| format!("{}.", schema.quoted())),
            self.layout.table.quoted()
        );
        self.value(&sql).is_some()
    }

    fn lose_next_reply(&self) -> bool {
        self.loses.store(true, Ordering::SeqCst);
        true
    }

    fn holds_dead(&self) -> bool {
        self.layout.on_dead == OnDead::Hold
    }
}

/// A source whose next reply can be lost.
pub struct Lossy {
    pub source: PostgresSource,
    holder: String,
    loses: Arc<AtomicBool>,
}

impl Lossy {
    fn reply(&self, done: Result<(), SourceError>) -> Result<(), SourceError> {
        if done.is_ok() && self.loses.swap(false, Ordering::SeqCst) {
            return Err(SourceError::Unreachable(Fault::new("test", "the reply was lost", "ask again")));
        }
        done
    }

    /// Publishes whatever there is; answers the events' ids in order.
    pub async fn drain(&self, ask: &Ask) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            match self.claim(ask).await.unwrap() {
                Claimed::Batch(Claim { mut hold, entries, .. }) => {
                    let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
                    self.settle(&mut hold, &all).await.unwrap();
                    self.release(hold).await.unwrap();
                    came.extend(entries.iter().map(|entry| entry.envelope.id.to_string()));
                }
                Claimed::Nothing(idle) if idle.more => {}
                Claimed::Nothing(_) | Claimed::Standby => return came,
            }
        }
    }

    /// One claim that brings something.
    pub async fn take(&self, ask: &Ask) -> Claim<Hold> {
        loop {
            match self.claim(ask).await.unwrap() {
                Claimed::Batch(claim) => return claim,
                Claimed::Nothing(idle) if idle.more => {}
                other => panic!("there is something to claim, and got {:?}", std::mem::discriminant(&other)),
            }
        }
    }

    /// Settles a whole claim and ends it.
    pub async fn finish(
        &self,
        claim: Claim<Hold>,
        settlement: impl Fn(&postrider_core::Entry) -> Settlement,
    ) {
        let Claim { mut hold, entries, .. } = claim;
        let all: Vec<_> = entries.iter().map(settlement).enumerate().collect();
        self.settle(&mut hold, &all).await.unwrap();
        self.release(hold).await.unwrap();
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
        let answer = self.source.settle(hold, settlements).await;
        if self.source.features().settles == postrider_core::source::Settles::AtRelease {
            return answer;
        }
        self.reply(answer)
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        self.reply(self.source.release(hold).await)
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.source.retire().await
    }
}

pub fn ask() -> Ask {
    ask_for(1_000)
}

pub fn ask_for(entries_max: usize) -> Ask {
    let router = Arc::new(Router::new(vec![], "sink", "{type}"));
    Ask { entries_max, bytes_max: 16 << 20, holds: Arc::default(), router }
}

pub fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// Waits until a query answers something.
pub fn until_answered(harness: &Harness, sql: &str) {
    until(sql, || harness.value(sql).is_some());
}
