//! The bare loop over Logistics' table: rows stay locked in an open transaction until they are settled.

use tokio_postgres::{Client, Row, Statement};

use super::link::{connect, take_all};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;

const CLAIM: &str = "\
select t.id, t.aggregate_type, t.aggregate_id, t.event_type, t.payload, t.occurred_at, t.retry_count, t.id::text from outbox_events as t \
where t.status = 'PENDING' and t.next_attempt_at <= clock_timestamp() \
order by t.next_attempt_at, t.occurred_at, t.id limit $1 for update skip locked";

const SETTLE: &str = "update outbox_events as t set status = 'PUBLISHED', processed_at = clock_timestamp() \
where t.id = any($1::text[]::uuid[])";

pub(crate) struct Loop {
    client: Client,
    claim: Statement,
    settle: Statement,
}

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        let client = connect(&outbox.url()).await?;
        let (claim, settle) = (client.prepare(CLAIM).await?, client.prepare(SETTLE).await?);
        Ok(Self { client, claim, settle })
    }

    pub(crate) async fn run(&self, rows: usize) -> Outcome<()> {
        let mut settled = 0;
        loop {
            self.client.batch_execute("begin").await?;
            let batch: Vec<Row> = self.client.query(&self.claim, &[&(BATCH_ENTRIES as i64)]).await?;
            let Some(first) = batch.first() else { break };
            take_all(&batch)?;
            let at = first.len() - 1;
            let entries: Vec<&str> = batch.iter().map(|row| row.try_get(at)).collect::<Result<_, _>>()?;
            settled += self.client.execute(&self.settle, &[&entries]).await?;
            self.client.batch_execute("commit").await?;
        }
        assert_eq!(settled, rows as u64, "the bare loop settles every row");
        Ok(())
    }
}
