//! The bare loop over an append-only table: read by id, one write of the position per batch.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::link::{connect, take_all};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;

const READ: &str = "select id, event_id, type, source, aggregate_type, aggregate_id, `key`, time, content_type, trace, \
    trace_state, sequence, extensions, payload from outbox where id > ? order by id limit ?";
const ACK: &str = "update postrider_position set position = ?, claimed = ? where outbox = 'outbox'";

pub(crate) struct Loop {
    conn: Conn,
}

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        Ok(Self { conn: connect(&outbox.url()).await? })
    }

    pub(crate) async fn run(&mut self, rows: usize) -> Outcome<()> {
        let (mut position, mut seen) = (0u64, 0);
        loop {
            let batch: Vec<Row> = self.conn.exec(READ, (position, BATCH_ENTRIES)).await?;
            let Some(last) = batch.last() else { break };
            position = last.get(0).ok_or("a row has an id")?;
            seen += batch.len();
            take_all(batch);
            self.conn.exec_drop(ACK, (position, position)).await?;
        }
        assert_eq!(seen, rows, "the bare loop reads every row");
        Ok(())
    }
}
