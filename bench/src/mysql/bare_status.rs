//! The bare loop of the statements that the relay runs over a status table, by lease.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, params};
use postrider_mysql::StatusStatements;

use super::link::{connect, list, take_all};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::{BATCH_ENTRIES, failed};

/// Looks at a batch of rows, takes them, settles them.
pub(crate) struct Loop {
    outbox: String,
    claims: Conn,
    receipts: Conn,
    sql: StatusStatements,
}

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        let sql = StatusStatements::read(&outbox.config()?).await.map_err(|fault| failed(&fault))?;
        let (mut claims, receipts) = (connect(&outbox.url()).await?, connect(&outbox.url()).await?);
        let table = outbox.layout.table.as_str().to_owned();
        let lease = "insert into postrider_leases (outbox, name, owner, fence, expires_at) \
                     values (?, 'relay', 'bench', 1, utc_timestamp(6) + interval 1 hour)";
        claims.exec_drop(lease, (&table,)).await?;
        Ok(Self { outbox: table, claims, receipts, sql })
    }

    pub(crate) async fn run(&mut self, rows: usize) -> Outcome<()> {
        let (mut settled, mut mark) = (0, None::<i64>);
        loop {
            let pulse: Option<Row> =
                self.claims.exec_first(self.sql.pulse.as_str(), params! { "outbox" => &self.outbox }).await?;
            let claim = pulse.and_then(|row| row.get(1)).unwrap_or(1);
            let ids = self.look(mark).await?;
            let Some(last) = ids.last() else { break };
            let sealed = mark.replace(*last).unwrap_or(0);
            let late = params! {
                "outbox" => &self.outbox, "sealed" => sealed, "id" => *last, "lead" => None::<String>,
                "rows" => BATCH_ENTRIES,
            };
            let late: Vec<Row> = self.claims.exec(self.sql.late.as_str(), late).await?;
            take_all(late);
            settled += self.take(&ids, claim).await?;
            self.settle(&ids, claim).await?;
        }
        assert_eq!(settled, rows, "the bare loop settles every row");
        Ok(())
    }

    async fn look(&mut self, mark: Option<i64>) -> Outcome<Vec<i64>> {
        let sql = if mark.is_some() { self.sql.on.as_str() } else { self.sql.first.as_str() };
        let params: Params = match mark {
            None => params! { "outbox" => &self.outbox, "rows" => BATCH_ENTRIES },
            Some(id) => params! { "outbox" => &self.outbox, "rows" => BATCH_ENTRIES, "id" => id },
        };
        let rows: Vec<Row> = self.claims.exec(sql, params).await?;
        let id = |row: &Row| row.get::<String, _>(StatusStatements::ENTRY).and_then(|id| id.parse().ok());
        let ids = rows.iter().filter_map(id).collect();
        take_all(rows);
        Ok(ids)
    }

    async fn take(&mut self, ids: &[i64], claim: u64) -> Outcome<usize> {
        let (conn, sql, list) = (&mut self.claims, &self.sql, list(ids));
        conn.query_drop("start transaction").await?;
        let guard = params! { "outbox" => &self.outbox, "owner" => "bench", "fence" => 1 };
        let _: Option<Row> = conn.exec_first(sql.guard.as_str(), guard).await?;
        let of_outbox = params! { "outbox" => &self.outbox, "list" => &list, "rows" => ids.len() };
        let rows: Vec<Row> = conn.exec(sql.lock.as_str(), of_outbox).await?;
        let taken = rows.len();
        take_all(rows);
        let of_claim =
            params! { "outbox" => &self.outbox, "list" => &list, "owner" => "bench", "claim" => claim };
        conn.exec_drop(sql.hold.as_str(), of_claim.clone()).await?;
        let held: Vec<Row> = conn.exec(sql.held.as_str(), of_claim).await?;
        take_all(held);
        conn.query_drop("commit").await?;
        Ok(taken)
    }

    async fn settle(&mut self, ids: &[i64], claim: u64) -> Outcome<()> {
        let (conn, sql, list) = (&mut self.receipts, &self.sql, list(ids));
        conn.query_drop("start transaction").await?;
        let guard = params! { "outbox" => &self.outbox, "owner" => "bench", "fence" => 1 };
        let _: Option<Row> = conn.exec_first(sql.guard.as_str(), guard).await?;
        let of_list = params! { "outbox" => &self.outbox, "list" => &list };
        let locked: Vec<Row> = conn.exec(sql.settle_lock.as_str(), params! { "list" => &list }).await?;
        take_all(locked);
        let of_claim =
            params! { "outbox" => &self.outbox, "list" => &list, "owner" => "bench", "claim" => claim };
        let mine: Vec<Row> = conn.exec(sql.mine.as_str(), of_claim).await?;
        assert_eq!(mine.len(), ids.len(), "the bare loop settles what it has taken");
        conn.exec_drop(sql.published.as_str(), params! { "list" => &list }).await?;
        conn.exec_drop(sql.forget.as_str(), of_list).await?;
        conn.query_drop("commit").await?;
        Ok(())
    }
}
