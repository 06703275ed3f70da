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

/// Pages that wait to be taken while the next is read.
const PAGES_WAITING: usize = 1;
/// What is read ahead is held beside what is in flight: each page is this part of what a claim may have.
const SHARE: usize = 8;

/// A second connection, and where it reads.
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
    pages: mpsc::Receiver<rusqlite::Result<(RawRows, bool)>>,
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

    /// Reads the rows behind an id from now on, page after page: one is read while one waits.
    pub(crate) fn begin(&mut self, after: i64, limit: usize, bytes_max: usize) {
        let (sql, decoder, pool) = (Arc::clone(&self.sql), Arc::clone(&self.decoder), self.pool.clone());
        let (send, pages) = mpsc::sync_channel(PAGES_WAITING);
        self.reader.post(move |connection| {
            let mut next = Some(after);
            while let Some(after) = next {
                let mut batch = Batch::of(&decoder, RawRows::pooled(&pool));
                let complete = read_after(connection, &sql, after, limit, bytes_max / SHARE, &mut batch);
                next = batch.last_id().filter(|_| matches!(complete, Ok(false)));
                if send.send(complete.map(|complete| (batch.into_rows(), complete))).is_err() {
                    return;
                }
            }
        });
        self.asked = Some(Asked { after, limit, pages });
    }

    /// Whether the rows behind what was taken are being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.asked.is_some()
    }

    /// The rows behind an id and whether they are all there are, if these are what was read. What failed, or found nothing
    /// when it was read, is to be read again.
    pub(crate) fn take(&mut self, after: i64, limit: usize, bytes_max: usize) -> Option<(Batch<'_>, bool)> {
        let asked = self.asked.take().filter(|asked| asked.after == after && asked.limit == limit)?;
        let (rows, complete) = asked.pages.recv().ok()?.ok()?;
        let batch = Batch::of(&self.decoder, rows);
        if batch.len() == 0 || batch.bytes() > bytes_max {
            return None;
        }
        let next = batch.last_id().filter(|_| !complete);
        self.asked = next.map(|after| Asked { after, ..asked });
        Some((batch, complete))
    }

    /// The lease is lost: what is read is not wanted.
    pub(crate) fn forget(&mut self) {
        self.asked = None;
    }
}
