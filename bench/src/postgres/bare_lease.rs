//! The bare loop over OrderService's table: rows are leased beside it in one statement, and settled in another.

use tokio_postgres::{Client, Row, Statement};

use super::link::{connect, connect_durable, take_all};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;

const CLAIM: &str = "\
with locked as materialized (select t.id from outbox as t left join postrider_entries as s on s.outbox = 'outbox' and s.entry = t.id::text \
where t.status = 'NEW' and (s.leased_until is null or s.leased_until <= clock_timestamp()) \
order by t.created_at, t.id limit $1 for update of t skip locked), \
leased as (insert into postrider_entries as e (outbox, entry, owner, leased_until, fence) \
select 'outbox', l.id::text, 'bench', clock_timestamp() + interval '30 s', 1 from locked as l \
on conflict (outbox, entry) do update set owner = excluded.owner, leased_until = excluded.leased_until, fence = excluded.fence \
returning e.entry) \
select t.id, t.aggregate_type, t.aggregate_id, t.event_type, t.payload, t.created_at, g.entry \
from leased as g join outbox as t on t.id = g.entry::uuid order by t.created_at, t.id";

const SETTLE: &str = "\
with mine as (delete from postrider_entries as e where e.outbox = 'outbox' and e.entry = any($1::text[]) and e.owner = 'bench' \
and e.fence = 1 returning e.entry) \
update outbox as t set status = 'SENT', sent_at = clock_timestamp() at time zone 'UTC' from mine as g where t.id = g.entry::uuid";

pub(crate) struct Loop {
    claims: Client,
    receipts: Client,
    claim: Statement,
    settle: Statement,
}

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        let (claims, receipts) = (connect_durable(&outbox.url()).await?, connect(&outbox.url()).await?);
        let (claim, settle) = (claims.prepare(CLAIM).await?, receipts.prepare(SETTLE).await?);
        Ok(Self { claims, receipts, claim, settle })
    }

    pub(crate) async fn run(&self, rows: usize) -> Outcome<()> {
        let mut settled = 0;
        loop {
            let batch: Vec<Row> = self.claims.query(&self.claim, &[&(BATCH_ENTRIES as i64)]).await?;
            let Some(last) = batch.first() else { break };
            take_all(&batch)?;
            let at = last.len() - 1;
            let entries: Vec<&str> = batch.iter().map(|row| row.try_get(at)).collect::<Result<_, _>>()?;
            settled += self.receipts.execute(&self.settle, &[&entries]).await?;
        }
        assert_eq!(settled, rows as u64, "the bare loop settles every row");
        Ok(())
    }
}
