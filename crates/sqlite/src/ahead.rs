//! Reading ahead: while one connection hands rows out and settles them, another reads the rows behind.
//!
//! On SQLite rows commit in the order of their ids, so what is read early is what a later read would show: no row appears
//! between two that were seen. Whether a row may go out is decided when it is taken.

use std::sync::{Arc, mpsc};

use postrider_core::Fault;
use rusqlite::Connection;

use crate::config::Config;
use crate::connection::{Worker, open};
use crate::decode::{Batch, Decoder};
use crate::fault::fault;
use crate::pool::Pool;
use crate::raw::RawRows;
use crate::reading::read_after;

/// What is read ahead is held beside what is in flight: this part of what a claim may have.
const SHARE: usize = 4;

/// A second connection, and what it was last asked for.
pub(crate) struct Ahead {
    reader: Worker<Connection>,
    sql: Arc<str>,
    decoder: Arc<Decoder>,
    pool: Pool,
    asked: Option<Asked>,
}

struct Asked {
    after: i64,
    limit: usize,
    answer: mpsc::Receiver<rusqlite::Result<(RawRows, bool)>>,
}

impl Ahead {
    /// `sql` reads the rows behind an id.
    pub(crate) fn start(config: &Config, sql: &str, decoder: Arc<Decoder>) -> Result<Self, Fault> {
        let connection = open(config)?;
        // Every page is read once, and all are dropped when the other connection commits: so few are got and freed in one piece.
        connection
            .execute_batch("pragma cache_size = 16; pragma query_only = on")
            .map_err(|error| fault(&config.place(), error))?;
        Ok(Self {
            reader: Worker::start("postrider-ahead", config.place(), connection)?,
            sql: sql.into(),
            decoder,
            pool: Pool::new(),
            asked: None,
        })
    }

    /// Begins to read the rows behind an id.
    pub(crate) fn begin(&mut self, after: i64, limit: usize, bytes_max: usize) {
        let (sql, decoder, pool) = (Arc::clone(&self.sql), Arc::clone(&self.decoder), self.pool.clone());
        let (send, answer) = mpsc::channel();
        self.reader.post(move |connection| {
            let mut batch = Batch::of(&decoder, RawRows::pooled(&pool));
            let complete = read_after(connection, &sql, after, limit, bytes_max / SHARE, &mut batch);
            // Nobody waits where the rows were not wanted after all.
            let _ = send.send(complete.map(|complete| (batch.into_rows(), complete)));
        });
        self.asked = Some(Asked { after, limit, answer });
    }

    /// The rows behind an id and whether they are all there are, if that was asked for. What failed, or found nothing when
    /// it was read, is to be read again.
    pub(crate) fn take(&mut self, after: i64, limit: usize, bytes_max: usize) -> Option<(Batch<'_>, bool)> {
        let asked = self.asked.take().filter(|asked| asked.after == after && asked.limit == limit)?;
        let (rows, complete) = asked.answer.recv().ok()?.ok()?;
        let batch = Batch::of(&self.decoder, rows);
        (batch.len() > 0 && batch.bytes() <= bytes_max).then_some((batch, complete))
    }

    /// The lease is lost: what is read is not wanted.
    pub(crate) fn forget(&mut self) {
        self.asked = None;
    }
}
