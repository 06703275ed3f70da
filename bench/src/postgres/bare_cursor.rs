//! The bare loop over an append-only table, and the stream that is the fastest way of all to read it.

use std::hint::black_box;
use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::link::{Acks, connect, take, take_all};
use crate::Outcome;
use crate::load::BATCH_ENTRIES;

const COLUMNS: &str = "id, event_id, type, source, aggregate_type, aggregate_id, key, time, content_type, trace, trace_state, \
     sequence, extensions, payload";
const ACK: &str = "update postrider_position set position = $1 where outbox = 'outbox'";

/// Reads by id; one write of the position per batch.
pub(crate) struct Loop {
    client: Client,
}

impl Loop {
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        Ok(Self { client: connect(url).await? })
    }

    pub(crate) async fn run(&self, rows: usize) -> Outcome<()> {
        let read = self
            .client
            .prepare(&format!("select {COLUMNS} from outbox where id > $1 order by id limit $2"))
            .await?;
        let write = self.client.prepare(ACK).await?;
        let (mut position, mut seen) = (0i64, 0);
        loop {
            let batch = self.client.query(&read, &[&position, &(BATCH_ENTRIES as i64)]).await?;
            let Some(last) = batch.last() else { break };
            position = last.try_get(0)?;
            take_all(&batch)?;
            seen += batch.len();
            self.client.execute(&write, &[&position]).await?;
        }
        assert_eq!(seen, rows, "the bare loop reads every row");
        Ok(())
    }
}

/// One statement over all rows; positions are written behind its back.
pub(crate) struct Stream {
    client: Client,
    acks: Acks,
}

impl Stream {
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        Ok(Self { client: connect(url).await?, acks: Acks::begin(url, ACK).await? })
    }

    pub(crate) async fn run(self, rows: usize) -> Outcome<()> {
        let read =
            self.client.prepare(&format!("select {COLUMNS} from outbox where id > $1 order by id")).await?;
        let after: [&(dyn ToSql + Sync); 1] = [&0i64];
        let mut stream = pin!(self.client.query_raw(&read, after).await?);
        let (mut seen, mut values) = (0usize, Vec::new());
        while let Some(row) = stream.try_next().await? {
            take(&row, &mut values)?;
            seen += 1;
            if seen.is_multiple_of(BATCH_ENTRIES) {
                black_box(&values);
                values.clear();
                self.acks.send(row.try_get(0)?);
            }
        }
        assert_eq!(seen, rows, "the stream reads every row");
        self.acks.end().await
    }
}
