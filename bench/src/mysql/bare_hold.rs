//! The bare loop over a status table whose rows stay locked in an open transaction until they are settled.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::link::{connect, list, take_all};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;

/// By ids, in order, without locks: `SKIP LOCKED` with a sort locks all that it sorts.
const LOOK: &str = "select id from outbox_event where status = 'PENDING' and id > ? order by id limit ?";
const LOCK: &str = "select t.* from json_table(?, '$[*]' columns (n for ordinality, id bigint path '$.e')) as g \
    straight_join outbox_event as t force index (primary) on t.id = g.id where t.status = 'PENDING' for update skip locked";
const SETTLE: &str = "update json_table(?, '$[*]' columns (n for ordinality, id bigint path '$.e')) as g \
    straight_join outbox_event as t force index (primary) on t.id = g.id \
    set t.status = 'PROCESSED', t.processed_at = utc_timestamp(6)";

pub(crate) struct Loop {
    conn: Conn,
}

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        Ok(Self { conn: connect(&outbox.url()).await? })
    }

    pub(crate) async fn run(&mut self, rows: usize) -> Outcome<()> {
        let (mut settled, mut mark) = (0, 0);
        loop {
            let ids: Vec<i64> = self.conn.exec(LOOK, (mark, BATCH_ENTRIES)).await?;
            let Some(last) = ids.last() else { break };
            mark = *last;
            let list = list(&ids);
            self.conn.query_drop("start transaction").await?;
            let batch: Vec<Row> = self.conn.exec(LOCK, (&list,)).await?;
            settled += batch.len();
            take_all(batch);
            self.conn.exec_drop(SETTLE, (&list,)).await?;
            self.conn.query_drop("commit").await?;
        }
        assert_eq!(settled, rows, "the bare loop settles every row");
        Ok(())
    }
}
