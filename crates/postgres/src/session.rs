//! One connection: statements are prepared once, every call has an end, and one that was left in mid-transaction is
//! not used again.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{Either, select};
use postrider_core::Fault;
use postrider_core::source::SourceError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::config::Config;
use crate::fault::{Error, fault, source_error};
use crate::tls::connector;

/// No single call takes longer: a server that is silent for so long is as good as gone.
const CALL_MAX: Duration = Duration::from_secs(60);

/// A database without an encoding holds any bytes, and refuses to hand over a row with some that are no UTF-8: without an
/// encoding on this side either, they come as they are, and such a row is an entry with a flaw.
const BYTES_AS_THEY_ARE: &str = "select set_config('client_encoding', 'SQL_ASCII', false) \
    where current_setting('server_encoding') = 'SQL_ASCII'";

/// A parameter and its type: said, not asked for, so that a call is one round trip behind a pooler too.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// How much a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Receipts: a lost one is a duplicate, which at-least-once allows (`synchronous_commit = off`).
    Soon,
    /// Leases, dead letters, operators' verbs.
    Now,
}

/// One connection.
pub(crate) struct Session {
    client: Client,
    pooled: bool,
    durable: Durable,
    statements: Mutex<HashMap<Box<str>, Statement>>,
    /// Somebody went away in the middle of a transaction.
    spoilt: AtomicBool,
}

impl Session {
    pub(crate) async fn open(config: &Config, durable: Durable) -> Result<Self, Fault> {
        let place = config.connect.shown();
        let connected = config.connect.postgres.connect(connector(&config.connect)?);
        let (client, connection) = within(connected).await.map_err(|error| fault(&place, error))?;
        // It ends with the client, or with the server: the next call says which.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database has ended");
            }
        });
        let session = Self {
            client,
            pooled: config.connect.pooled,
            durable,
            statements: Mutex::default(),
            spoilt: AtomicBool::new(false),
        };
        if !session.pooled {
            let off = if durable == Durable::Soon { "; set synchronous_commit = off" } else { "" };
            // Postrider's statements are short; a plan that knows the parameters is never worth planning for each batch.
            let settings = format!(
                "set timezone = 'UTC'; set client_min_messages = warning; set plan_cache_mode = force_generic_plan; \
                 set statement_timeout = '60s'; set lock_timeout = '30s'{off}; {BYTES_AS_THEY_ARE}"
            );
            session.run(&settings).await.map_err(|error| fault(&place, error))?;
        }
        Ok(session)
    }

    /// Whether the next call can be made on it.
    pub(crate) fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.spoilt.load(Ordering::Relaxed)
    }

    /// Nobody knows what state it is in.
    pub(crate) fn spoil(&self) {
        self.spoilt.store(true, Ordering::Relaxed);
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Rows of a statement that was compiled once.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        if self.pooled {
            return self.within(self.client.query_typed(sql, params)).await;
        }
        let statement = self.prepared(sql, params).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        self.within(self.client.query(&statement, &values)).await
    }

    /// The first row of a statement, if there is one.
    pub(crate) async fn first(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Hands the rows of a statement over one by one, until it is enough: what is not wanted is never gathered.
    pub(crate) async fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        take: impl FnMut(&Row) -> Result<Flow, tokio_postgres::Error>,
    ) -> Result<(), Error> {
        if self.pooled {
            let rows = self.client.query_typed_raw(sql, params.iter().cloned());
            return self.within(async { gather(rows.await?, take).await }).await;
        }
        let statement = self.prepared(sql, params).await?;
        let rows = self.client.query_raw(&statement, params.iter().map(|(value, _)| *value));
        self.within(async { gather(rows.await?, take).await }).await
    }

    /// How many rows a statement changed.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        if self.pooled {
            return self.within(self.client.execute_typed(sql, params)).await;
        }
        let statement = self.prepared(sql, params).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        self.within(self.client.execute(&statement, &values)).await
    }

    /// The server's process that serves this call; it is not prepared, so that a pooler that nobody spoke of is found.
    pub(crate) async fn server_process(&self) -> Result<i32, Error> {
        let rows = self.within(self.client.query_typed("select pg_backend_pid()", &[])).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// Statements without parameters, as they are.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Error> {
        self.within(self.client.batch_execute(sql)).await
    }

    /// Opens a transaction that waits for the disk as asked.
    pub(crate) async fn begin(&self, durable: Durable) -> Result<Transaction<'_>, Error> {
        let transaction = Transaction { session: self, over: false };
        self.run(match (durable, self.durable, self.pooled) {
            (Durable::Soon, _, true) | (Durable::Soon, Durable::Now, false) => {
                "begin; set local synchronous_commit = off"
            }
            (Durable::Now, Durable::Soon, false) => "begin; set local synchronous_commit = on",
            _ => "begin",
        })
        .await?;
        Ok(transaction)
    }

    /// Whether calls that are made at once go out together, in the order in which they are made: what is yet to be prepared
    /// takes a turn of its own.
    pub(crate) fn pipelines(&self, statements: [&str; 2]) -> bool {
        !self.pooled && statements.iter().all(|sql| self.knows(sql))
    }

    /// Whether a statement is prepared.
    pub(crate) fn knows(&self, sql: &str) -> bool {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).contains_key(sql)
    }

    /// Whether a transaction pooler stands between.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// Gives a call an end. After one that had none, and after one whose statement was made for a table that has changed,
    /// the next is made on another connection.
    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let answer = within(call).await;
        if answer.as_ref().is_err_and(|error| error.code().is_none_or(is_outdated)) {
            self.spoil();
        }
        answer
    }

    /// Opens a transaction in which every statement sees the same rows.
    pub(crate) async fn begin_snapshot(&self) -> Result<Transaction<'_>, Error> {
        let transaction = Transaction { session: self, over: false };
        self.run("begin isolation level repeatable read, read only").await?;
        Ok(transaction)
    }

    async fn prepared(&self, sql: &str, params: &[Param<'_>]) -> Result<Statement, Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = self.within(self.client.prepare_typed(sql, &types)).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.into(), statement.clone());
        Ok(statement)
    }
}

/// Whether more rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Enough,
}

async fn gather(
    rows: tokio_postgres::RowStream,
    mut take: impl FnMut(&Row) -> Result<Flow, tokio_postgres::Error>,
) -> Result<(), tokio_postgres::Error> {
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await? {
        if take(&row)? == Flow::Enough {
            break;
        }
    }
    Ok(())
}

/// "cached plan must not change result type": a column has another type since.
fn is_outdated(code: &SqlState) -> bool {
    *code == SqlState::FEATURE_NOT_SUPPORTED
}

/// An open transaction. Dropped before its end it spoils the session, whose end rolls it back.
pub(crate) struct Transaction<'s> {
    session: &'s Session,
    over: bool,
}

impl Transaction<'_> {
    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        self.session.run("commit").await?;
        self.over = true;
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<(), Error> {
        self.session.run("rollback").await?;
        self.over = true;
        Ok(())
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.session.spoil();
        }
    }
}

/// A session that is opened when it is needed, and opened anew when it is gone.
pub(crate) struct Link {
    config: Arc<Config>,
    durable: Durable,
    /// What else is set on each session.
    settings: String,
    place: String,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Link {
    pub(crate) fn new(config: &Arc<Config>, durable: Durable) -> Self {
        Self::tuned(config, durable, String::new())
    }

    /// One whose sessions have further settings.
    pub(crate) fn tuned(config: &Arc<Config>, durable: Durable, settings: String) -> Self {
        Self {
            place: config.place(),
            config: Arc::clone(config),
            durable,
            settings,
            session: tokio::sync::Mutex::default(),
        }
    }

    /// The same, with a session that is open already.
    pub(crate) fn with(config: &Arc<Config>, durable: Durable, session: Session) -> Self {
        let session = tokio::sync::Mutex::new(Some(Arc::new(session)));
        Self { session, ..Self::new(config, durable) }
    }

    /// The session; a new one where the last is gone. Who holds things in memory that belong to a session asks
    /// [`Arc::ptr_eq`] whether it is still that one.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, SourceError> {
        let mut slot = self.session.lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.is_good()) {
            return Ok(Arc::clone(session));
        }
        *slot = None;
        let opened = self.another().await?;
        Ok(Arc::clone(slot.insert(Arc::new(opened))))
    }

    /// A session beside it, of the caller's own.
    pub(crate) async fn another(&self) -> Result<Session, SourceError> {
        let session = Session::open(&self.config, self.durable).await.map_err(SourceError::Unreachable)?;
        if !session.pooled && !self.settings.is_empty() {
            session.run(&self.settings).await.map_err(|error| self.failed(error))?;
        }
        Ok(session)
    }

    /// What an error of a call means to the relay.
    pub(crate) fn failed(&self, error: Error) -> SourceError {
        source_error(&self.place, error)
    }
}

/// Makes a call, and does something else every so often until it is answered.
pub(crate) async fn meanwhile<T, F: Future>(
    call: impl Future<Output = T>,
    every: Duration,
    mut also: impl FnMut() -> F,
) -> T {
    let others = async {
        loop {
            tokio::time::sleep(every).await;
            also().await;
        }
    };
    match select(pin!(call), pin!(others)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((never, _)) => never,
    }
}

/// Gives a call an end.
async fn within<T>(call: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_MAX, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Silent(CALL_MAX)),
    }
}
