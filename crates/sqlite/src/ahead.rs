//! Reading ahead: while one connection hands rows out and settles them, another reads the rows behind.
//!
//! On SQLite rows commit in the order of their ids, so what is read early is what a later read would show: no row appears
//! between two that were seen. Whether a row may go out is decided when it is taken.

use std::sync::{Arc, mpsc};

use postrider_core::Fault;
use postrider_core::rows::{Batch, Decoder, Pools, RawRows};
use rusqlite::Connection;

use crate::config::Config;
use crate::connection::{Worker, open};
use crate::fault::fault;
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
    pools: Pools,
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
            pools: Pools::new(),
            asked: None,
        })
    }

    /// Reads the rows behind an id from now on, page after page: one is read while one waits.
    pub(crate) fn begin(&mut self, after: i64, limit: usize, bytes_max: usize) {
        let (sql, decoder, pools) = (Arc::clone(&self.sql), Arc::clone(&self.decoder), self.pools.clone());
        let (send, pages) = mpsc::sync_channel(PAGES_WAITING);
        self.reader.post(move |connection| {
            let mut next = Some(after);
            while let Some(after) = next {
                let mut batch = Batch::of(&decoder, RawRows::pooled(&pools));
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
        if batch.is_empty() || batch.bytes() > bytes_max {
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

#[cfg(test)]
mod tests {
    use postrider_core::Layout;

    use super::*;
    use crate::migrate::migrate;
    use crate::sql::{CursorSql, Names};

    const BYTES_MAX: usize = 1 << 20;

    fn filled(folder: &tempfile::TempDir, rows: i64) -> Ahead {
        let layout = Layout::built_in("native").unwrap();
        let config = Config::new(folder.path().join("shop.db"), layout.clone(), "relay");
        migrate(&config).unwrap();
        let insert = "insert into outbox (type, aggregate_type, aggregate_id) \
                      with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1) \
                      select 'shop.order.placed.v1', 'Order', i from n";
        open(&config).unwrap().execute(insert, [rows]).unwrap();
        let sql = CursorSql::new(&layout, &Names::new(&layout));
        Ahead::start(&config, &sql.after, Arc::new(Decoder::new(&layout))).unwrap()
    }

    fn taken(ahead: &mut Ahead, after: i64) -> Option<(usize, Option<i64>, bool)> {
        ahead.take(after, 10, BYTES_MAX).map(|(batch, complete)| (batch.len(), batch.last_id(), complete))
    }

    #[test]
    fn pages_come_one_after_the_other_until_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let mut ahead = filled(&folder, 25);
        assert_eq!(taken(&mut ahead, 0), None, "nobody asked");
        ahead.begin(0, 10, BYTES_MAX);
        assert_eq!(taken(&mut ahead, 0), Some((10, Some(10), false)));
        assert_eq!(taken(&mut ahead, 10), Some((10, Some(20), false)));
        assert_eq!(taken(&mut ahead, 20), Some((5, Some(25), true)));
        assert!(!ahead.is_reading());
    }

    /// SRC-13: after a release the cursor goes back, and what lies ahead of where it was is not what it wants.
    #[test]
    fn a_cursor_that_went_back_reads_for_itself_and_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut ahead = filled(&folder, 1_000);
        ahead.begin(0, 10, BYTES_MAX);
        assert_eq!(taken(&mut ahead, 0), Some((10, Some(10), false)));
        assert_eq!(taken(&mut ahead, 4), None);
        assert!(!ahead.is_reading());
        ahead.begin(14, 10, BYTES_MAX);
        assert_eq!(taken(&mut ahead, 14), Some((10, Some(24), false)));
    }

    /// SRC-07: a claim that has little room gets no page that was read for a larger one.
    #[test]
    fn a_page_that_is_too_large_is_not_handed_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut ahead = filled(&folder, 100);
        ahead.begin(0, 10, BYTES_MAX);
        assert!(ahead.take(0, 10, 600).is_none());
    }
}
