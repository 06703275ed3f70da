//! One connection: statements are prepared once, every call has an end, and one that was left in mid-call or in
//! mid-transaction is not used again.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Params, Row};
use postrider_core::Fault;
use postrider_core::source::SourceError;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::config::{Config, Connect, Tls};
use crate::fault::{Error, fault, source_error};
use crate::tls::encryption;

/// A server that does not answer is given up after this long, and tried again.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// No single call takes longer: a server that is silent for so long is as good as gone.
const CALL_MAX: Duration = Duration::from_secs(60);
/// How often a transaction is made anew that somebody was in the way of.
const TRIES_MAX: u32 = 10;

/// Whatever the server and its user have by default. Times are UTC, a value that does not fit is refused, not cut, and a
/// backslash means what it always did.
const SETTINGS: &str = "set session transaction isolation level read committed, autocommit = 1, time_zone = '+00:00', \
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', sql_safe_updates = 0, \
    sql_select_limit = default, group_concat_max_len = 1048576";

/// Sessions that were opened so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// One connection, in one user's hands at a time.
pub(crate) struct Session {
    conn: Conn,
    serial: u64,
    /// Somebody asked, and has not heard the answer.
    asking: bool,
    in_transaction: bool,
}

/// What a statement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Rows that it found.
    pub(crate) rows: u64,
    /// What it said by `last_insert_id(…)`.
    pub(crate) said: u64,
}

impl Session {
    pub(crate) async fn open(config: &Config) -> Result<Self, Fault> {
        Self::open_waiting(config, CALL_MAX / 2).await
    }

    /// One that waits for so long for others' locks.
    pub(crate) async fn open_waiting(config: &Config, longest: Duration) -> Result<Self, Fault> {
        let place = config.connect.shown();
        let conn = connect(&config.connect).await?;
        let serial = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        let mut session = Self { conn, serial, asking: false, in_transaction: false };
        let seconds = longest.as_secs().clamp(1, 30);
        let settings =
            format!("{SETTINGS}, innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}");
        // The isolation level has a syntax of its own.
        let (level, others) = settings.split_once(", ").unwrap_or((&settings, ""));
        for sql in [level.to_owned(), format!("set session {others}")] {
            session.run(&sql).await.map_err(|error| fault(&place, error))?;
        }
        Ok(session)
    }

    /// A number that no other session of this process has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The connection itself, for appends in its transaction.
    pub(crate) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Whether the next call can be made on it.
    pub(crate) fn is_good(&self) -> bool {
        !self.asking && !self.in_transaction
    }

    /// Whether its transaction is open, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.asking && self.in_transaction
    }

    /// Rows of a statement that was compiled once.
    pub(crate) async fn query(&mut self, sql: &str, params: Params) -> Result<Vec<Row>, Error> {
        self.asking = true;
        let answer = within(CALL_MAX, self.conn.exec(sql, params)).await;
        self.heard(answer)
    }

    /// Each row of a statement as it comes: they may be more than fits into memory.
    pub(crate) async fn each(
        &mut self,
        sql: &str,
        params: Params,
        mut take: impl FnMut(Row),
    ) -> Result<(), Error> {
        self.asking = true;
        let answer = within(CALL_MAX, async {
            let mut result = self.conn.exec_iter(sql, params).await?;
            while let Some(row) = result.next().await? {
                take(row);
            }
            result.drop_result().await
        });
        let answer = answer.await;
        self.heard(answer)
    }

    /// The first row of a statement, if there is one.
    pub(crate) async fn first(&mut self, sql: &str, params: Params) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// What a statement changed.
    pub(crate) async fn execute(&mut self, sql: &str, params: Params) -> Result<Done, Error> {
        self.asking = true;
        let answer = within(CALL_MAX, async {
            let result = self.conn.exec_iter(sql, params).await?;
            let done = Done { rows: result.affected_rows(), said: result.last_insert_id().unwrap_or(0) };
            result.drop_result().await?;
            Ok(done)
        });
        let answer = answer.await;
        self.heard(answer)
    }

    /// Rows of a statement without parameters, which is not prepared.
    pub(crate) async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.asking = true;
        let answer = within(CALL_MAX, self.conn.query(sql)).await;
        self.heard(answer)
    }

    /// A statement without parameters, as it is.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.asking = true;
        let answer = within(CALL_MAX, self.conn.query_drop(sql)).await;
        self.heard(answer)
    }

    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        self.in_transaction = true;
        self.run("start transaction").await
    }

    /// Opens a transaction in which every statement sees the same rows.
    pub(crate) async fn begin_snapshot(&mut self) -> Result<(), Error> {
        self.in_transaction = true;
        self.run("set transaction isolation level repeatable read").await?;
        self.run("start transaction with consistent snapshot, read only").await
    }

    /// Opens a transaction that is shown among those that live, before it has done anything.
    pub(crate) async fn begin_shown(&mut self) -> Result<(), Error> {
        self.in_transaction = true;
        self.run("start transaction with consistent snapshot").await
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.run("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), Error> {
        self.run("rollback").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Ends a transaction that went wrong: whether it is to be made anew, because somebody was in the way. The error stays
    /// where it is not.
    pub(crate) async fn again(&mut self, error: Error, tries: &mut u32) -> Result<(), Error> {
        // Without an answer there is nothing to say goodbye to.
        if error.code().is_some() {
            self.roll_back().await?;
        }
        *tries += 1;
        if error.is_in_the_way() && *tries < TRIES_MAX { Ok(()) } else { Err(error) }
    }

    fn heard<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        // After a call without an answer, nobody knows what state the connection is in.
        self.asking = answer.as_ref().is_err_and(|error| error.code().is_none());
        answer
    }
}

async fn connect(connect: &Connect) -> Result<Conn, Fault> {
    let place = connect.shown();
    let with = |ssl| Conn::new(OptsBuilder::from_opts(connect.opts.clone()).ssl_opts(ssl));
    match within(CONNECT_MAX, with(encryption(connect)?)).await {
        Err(error) if connect.tls == Tls::Prefer && error.offers_no_tls() => {
            within(CONNECT_MAX, with(None)).await
        }
        answer => answer,
    }
    .map_err(|error| fault(&place, error))
}

/// A session that is opened when it is needed, and opened anew when it is gone. One uses it at a time.
pub(crate) struct Link {
    config: Arc<Config>,
    /// How long others' locks are waited for.
    longest: Duration,
    place: String,
    session: Mutex<Option<Session>>,
}

impl Link {
    pub(crate) fn new(config: &Arc<Config>, longest: Duration) -> Self {
        Self { place: config.place(), config: Arc::clone(config), longest, session: Mutex::default() }
    }

    /// The session; a new one where the last is gone.
    pub(crate) async fn session(&self) -> Result<MappedMutexGuard<'_, Session>, SourceError> {
        let mut slot = self.session.lock().await;
        if !slot.as_ref().is_some_and(Session::is_good) {
            *slot = None;
            let opened = Session::open_waiting(&self.config, self.longest).await;
            *slot = Some(opened.map_err(SourceError::Unreachable)?);
        }
        MutexGuard::try_map(slot, Option::as_mut).map_err(|_| SourceError::Fenced)
    }

    /// The session, if there is one and nobody uses it.
    pub(crate) fn free_session(&self) -> Option<MappedMutexGuard<'_, Session>> {
        let slot = self.session.try_lock().ok()?;
        let slot = MutexGuard::try_map(slot, Option::as_mut).ok()?;
        slot.is_good().then_some(slot)
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

/// A while that passes, whatever any clock says.
pub(crate) struct Timer(Pin<Box<tokio::time::Sleep>>);

impl Timer {
    pub(crate) fn new(span: Duration) -> Self {
        Self(Box::pin(tokio::time::sleep(span)))
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.0.is_elapsed() || self.0.as_mut().now_or_never().is_some()
    }
}

/// Gives a call an end.
async fn within<T>(
    longest: Duration,
    call: impl Future<Output = mysql_async::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(longest, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Silent(longest)),
    }
}
