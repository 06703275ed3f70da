//! One connection, and the one thread that owns it.

use std::sync::mpsc;
use std::thread;

use futures_channel::oneshot;
use postrider_core::Fault;
use postrider_core::source::SourceError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::config::Config;
use crate::fault::{fault, missing};

/// How much a commit waits for.
///
/// With a write-ahead log, `Normal` survives the death of the process and `Full` also that of the machine. What a power
/// cut takes back under `Normal` is a suffix of the log: a receipt (a duplicate, which at-least-once allows), or a lease
/// whose holder died with the machine. Whatever else was committed stays consistent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Receipts, positions, the renewal of leases.
    Normal,
    /// Dead letters, operators' verbs, migrations.
    Full,
}

/// Opens the file, which must exist.
pub(crate) fn open(config: &Config) -> Result<Connection, Fault> {
    open_with(config, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Opens the file, or creates it: only for `migrate`.
pub(crate) fn create(config: &Config) -> Result<Connection, Fault> {
    open_with(config, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
}

fn open_with(config: &Config, flags: OpenFlags) -> Result<Connection, Fault> {
    let path = &config.path;
    if !flags.contains(OpenFlags::SQLITE_OPEN_CREATE) && !path.exists() {
        return Err(missing(path));
    }
    let place = path.display().to_string();
    let set_up = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(config.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without this a plan is made anew whenever a parameter changes that it may depend on: with every batch.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // A read, so that what is no database is found out here.
        connection.query_row("pragma journal_mode", [], |_| Ok(()))?;
        connection.execute_batch("pragma foreign_keys = off")?;
        set_durable(&connection, Durable::Full)?;
        Ok(connection)
    };
    set_up().map_err(|error| fault(&place, error))
}

/// Switches the file to the write-ahead log, in which readers and the writer do not wait for each other: only for what
/// relays and migrates. Asking first spares the lock that setting takes.
pub(crate) fn log_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        connection.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Sets how much the next commits wait for; only outside of a transaction.
pub(crate) fn set_durable(connection: &Connection, durable: Durable) -> rusqlite::Result<()> {
    connection.execute_batch(match durable {
        Durable::Normal => "pragma synchronous = normal",
        Durable::Full => "pragma synchronous = full",
    })
}

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A thread that owns a connection and all that goes with it, and does one job after the other.
pub(crate) struct Worker<S> {
    jobs: mpsc::Sender<Job<S>>,
    place: String,
}

impl<S: Send + 'static> Worker<S> {
    /// Starts the thread: the only place where this crate spawns one.
    pub(crate) fn start(name: &str, place: String, mut state: S) -> Result<Self, Fault> {
        let (jobs, queue) = mpsc::channel::<Job<S>>();
        thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                while let Ok(job) = queue.recv() {
                    job(&mut state);
                }
            })
            .map_err(|error| {
                Fault::new(
                    &place,
                    "the database's thread could not be started",
                    "Raise the limit on threads.",
                )
                .caused_by(error)
            })?;
        Ok(Self { jobs, place })
    }

    /// Does a job on the thread and waits for its answer.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Result<R, SourceError> + Send + 'static,
    ) -> Result<R, SourceError> {
        self.run_or_undo(job, |_, _| ()).await
    }

    /// The same; when nobody waits for the answer any more, what it holds is undone.
    pub(crate) async fn run_or_undo<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Result<R, SourceError> + Send + 'static,
        undo: fn(&mut S, R),
    ) -> Result<R, SourceError> {
        let (answer, waiting) = oneshot::channel();
        let boxed: Job<S> = Box::new(move |state| {
            let result = job(state);
            if let Err(Ok(unheard)) = answer.send(result) {
                undo(state, unheard);
            }
        });
        self.jobs.send(boxed).map_err(|_| self.ended())?;
        let mut waiting = Waiting { answer: waiting, jobs: &self.jobs, undo };
        (&mut waiting.answer).await.map_err(|_| self.ended())?
    }

    /// Leaves a job to the thread. Whoever wants an answer brings a way for it.
    pub(crate) fn post(&self, job: impl FnOnce(&mut S) + Send + 'static) {
        // A thread that has ended drops the job, and with it the way for its answer.
        let _ = self.jobs.send(Box::new(job));
    }

    fn ended(&self) -> SourceError {
        SourceError::Broken(Fault::new(
            &self.place,
            "the thread that owns the database connection has ended",
            "This is a fault in Postrider: restart it and report the log.",
        ))
    }
}

/// Waits for an answer. Dropped after the answer was given and before it was taken, it has it undone.
struct Waiting<'a, S: 'static, R: Send + 'static> {
    answer: oneshot::Receiver<Result<R, SourceError>>,
    jobs: &'a mpsc::Sender<Job<S>>,
    undo: fn(&mut S, R),
}

impl<S: 'static, R: Send + 'static> Drop for Waiting<'_, S, R> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Some(Ok(unheard))) = self.answer.try_recv() {
            let undo = self.undo;
            // Without its thread there is nothing left to undo.
            let _ = self.jobs.send(Box::new(move |state| undo(state, unheard)));
        }
    }
}
