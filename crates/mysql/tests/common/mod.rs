//! What the tests share: databases whose clock stands still until it is moved, tables in them, rows written by plain SQL.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

pub mod tables;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider_conformance::clock::ManualClock;
use postrider_conformance::source::SourceHarness;
use postrider_core::clock::Clock;
use postrider_core::layout::{Column, Identifier, OnDead, TimeForm, Way};
use postrider_core::route::Router;
use postrider_core::rows::content_hash;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope, Fault, Layout, Settlement};
use postrider_mysql::{Config, Hold, MysqlSource, migrate, open_source, open_store};
use postrider_servers::MysqlDatabase;

/// The database's clock: an engine without transactions shows it to all of them at once, and is locked by none.
const CLOCK: &str =
    "create table clock (at datetime(6) not null) engine = MEMORY; insert into clock values ('1970-01-01')";

/// What a relay that holds rows by their locks may be silent for.
const HOLD_TTL: Duration = Duration::from_secs(2);

/// An outbox in a database of its own, whose clock is moved by hand.
pub struct Harness {
    pub database: MysqlDatabase,
    pub layout: Layout,
    clock: ManualClock,
    loses: Arc<AtomicBool>,
    /// Ids that were given to rows of tables that hand none out.
    ids: AtomicU64,
    hands_out: bool,
    /// Whether time passes by itself.
    by_the_real_clock: bool,
}

impl Harness {
    /// With the team's own tables in it.
    pub fn new(layout: Layout, tables: &str) -> Self {
        Self::on(&postrider_servers::mariadb(), layout, tables)
    }

    /// The same on another server.
    pub fn on(server: &str, layout: Layout, tables: &str) -> Self {
        Self::within(MysqlDatabase::create_blocking_on(server), layout, tables, false)
    }

    /// On another server, where time passes by itself.
    pub fn by_the_real_clock(server: &str, layout: Layout, tables: &str) -> Self {
        Self::within(MysqlDatabase::create_blocking_on(server), layout, tables, true)
    }

    fn within(database: MysqlDatabase, layout: Layout, tables: &str, by_the_real_clock: bool) -> Self {
        database.query(CLOCK);
        if !tables.is_empty() {
            database.query(tables);
        }
        let mut harness = Self {
            database,
            layout,
            clock: ManualClock::default(),
            loses: Arc::default(),
            ids: AtomicU64::new(0),
            hands_out: false,
            by_the_real_clock,
        };
        block_on(async { migrate(&harness.config("migrate")).await.map(drop).unwrap() });
        let counts = format!(
            "select 1 from information_schema.columns where table_schema = database() and table_name = '{}' \
             and extra like '%auto_increment%'",
            harness.layout.table
        );
        harness.hands_out = !harness.database.query(&counts).is_empty();
        harness
    }

    pub fn config(&self, holder: &str) -> Config {
        let mut config = Config::new(&self.database.url(), self.layout.clone(), holder).unwrap();
        if self.layout.way == Way::Hold {
            config.lease_ttl = HOLD_TTL;
        }
        if self.by_the_real_clock { config } else { config.clock("(select at from clock)") }
    }

    /// Rows as an application writes them, by plain SQL; each answers its id.
    pub fn insert(&self, envelopes: &[Envelope]) -> String {
        let one = |envelope: &Envelope| {
            let id = (!self.hands_out).then(|| {
                let number = self.ids.fetch_add(1, Ordering::SeqCst);
                format!("00000000-0000-0000-0000-{number:012x}")
            });
            let answer = id.as_ref().map_or("last_insert_id()".into(), |id| format!("'{id}'"));
            format!("{}; select {answer}", insert(&self.layout, envelope, id.as_deref()))
        };
        envelopes.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// The one value that a query answers.
    pub fn value(&self, sql: &str) -> Option<String> {
        self.database.query(sql).into_iter().next().and_then(|row| row.into_iter().next()).flatten()
    }

    /// One row, its columns as texts; NULL is `-`.
    pub fn row(&self, sql: &str) -> Vec<String> {
        let row = self.database.query(sql).into_iter().next().unwrap_or_default();
        row.into_iter().map(|value| value.unwrap_or_else(|| "-".into())).collect()
    }

    fn id(&self, text: String) -> EntryId {
        let counts = text.parse::<i64>().ok().filter(|_| self.hands_out);
        counts.map_or_else(|| EntryId::Text(text.into()), EntryId::Int)
    }

    /// Lets time pass without a source that would notice.
    pub fn pass_blocking(&self, span: Duration) {
        self.clock.advance(span);
        self.database.query(&format!("update clock set at = at + interval {} microsecond", span.as_micros()));
    }
}

pub fn quoted(name: &Identifier) -> String {
    format!("`{}`", name.as_str().replace('`', "``"))
}

fn insert(layout: &Layout, envelope: &Envelope, id: Option<&str>) -> String {
    let columns = &layout.columns;
    let text = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    let time = |form: &TimeForm| {
        // Postrider's own table has a datetime here, whatever the layout says for other databases.
        let number = form.number(envelope.time).filter(|_| layout.name != "native");
        number.map_or_else(|| text(&layout.zone.write(envelope.time)), |number| number.to_string())
    };
    let data = String::from_utf8_lossy(&envelope.data).into_owned();
    let hash = content_hash(&envelope.id, &envelope.event_type, &envelope.data);
    let texts = [
        (&columns.id, id.unwrap_or_default()),
        (&columns.event_id, &*envelope.id),
        (&columns.event_type, &*envelope.event_type),
        (&columns.source, &*envelope.source),
        (&columns.aggregate_type, &*envelope.aggregate_type),
        (&columns.aggregate_id, &*envelope.aggregate_id),
        (&columns.payload, data.as_str()),
        (&columns.hash, hash.as_str()),
        (&columns.status, layout.status.as_ref().map_or("", |words| words.pending.as_str())),
    ];
    let (mut names, mut values): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut put = |column: &Option<Column>, value: String| {
        if let Some(name) = column.as_ref().and_then(Column::name).map(quoted)
            && !names.contains(&name)
        {
            names.push(name);
            values.push(value);
        }
    };
    for (column, value) in texts {
        // A table that hands ids out gives its own.
        if id.is_some() || column != &columns.id {
            put(column, text(value));
        }
    }
    if let Some(Column::Named(_, form)) = &columns.time {
        put(&columns.time, time(form));
    }
    format!("insert into {} ({}) values ({})", quoted(&layout.table), names.join(", "), values.join(", "))
}

impl SourceHarness for Harness {
    type Source = Lossy;
    type Transaction = mysql_async::Conn;

    async fn open(&self, holder: &str) -> Lossy {
        let source = open_source(&self.config(holder)).await.unwrap();
        Lossy { source, loses: Arc::clone(&self.loses) }
    }

    async fn store(&self) -> Box<dyn Store> {
        Box::new(open_store(&self.config("store")).await.unwrap())
    }

    async fn append(&self, envelopes: Vec<Envelope>) -> Vec<EntryId> {
        let sql = format!("begin; {}; commit", self.insert(&envelopes));
        self.database.query(&sql).into_iter().flatten().flatten().map(|id| self.id(id)).collect()
    }

    async fn append_and_roll_back(&self, envelopes: Vec<Envelope>) {
        self.database.query(&format!("begin; {}; rollback", self.insert(&envelopes)));
    }

    async fn begin(&self, envelopes: Vec<Envelope>) -> Option<mysql_async::Conn> {
        let mut conn = mysql_async::Conn::from_url(self.database.url()).await.unwrap();
        conn.query_drop(format!("begin; {}", self.insert(&envelopes))).await.unwrap();
        Some(conn)
    }

    async fn commit(&self, mut transaction: mysql_async::Conn) {
        transaction.query_drop("commit").await.unwrap();
    }

    async fn roll_back(&self, mut transaction: mysql_async::Conn) {
        transaction.query_drop("rollback").await.unwrap();
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.pass_blocking(span);
        // Who is silent, and who is alive, is told by the server's own clock.
        match self.layout.way {
            Way::Cursor => wait::nap(span.min(Duration::from_millis(100))).await,
            Way::Hold if (HOLD_TTL..HOLD_TTL * 2).contains(&span) => wait::nap(span + HOLD_TTL / 4).await,
            _ => {}
        }
    }

    async fn corrupt(&self, id: &EntryId) -> bool {
        let column = |column: &Option<Column>| quoted(column.as_ref().and_then(Column::name).unwrap());
        let (id_column, type_column) =
            (column(&self.layout.columns.id), column(&self.layout.columns.event_type));
        let spoilt = match self.layout.name.as_str() {
            "native" => "extensions = 'none'".to_owned(),
            _ => format!("{type_column} = null"),
        };
        let sql = format!("update {} set {spoilt} where {id_column} = '{id}'", quoted(&self.layout.table));
        self.database.try_query(&sql).is_ok()
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
    pub source: MysqlSource,
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
                Claimed::Batch(claim) => {
                    came.extend(claim.entries.iter().map(|entry| entry.envelope.id.to_string()));
                    self.finish(claim, |_| Settlement::Published).await;
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
        self.reply(self.source.settle(hold, settlements).await)
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
