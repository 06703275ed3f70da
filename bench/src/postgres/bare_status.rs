//! The bare loop of the statements that the relay runs over a status table, by lease or held.

use postrider_postgres::StatusStatements;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::link::{connect, connect_durable, take_all};
use super::outbox::{Kind, Outbox};
use crate::Outcome;
use crate::load::{BATCH_ENTRIES, failed};

/// Looks at a batch of rows, takes them, settles them.
pub(crate) struct Loop {
    kind: Kind,
    outbox: String,
    /// Leases are durable, and a hold's transaction is not.
    claims: Client,
    receipts: Client,
    first: Statement,
    on: Statement,
    take: Statement,
    published: Statement,
}

/// Where a row stands.
type Rank = (Vec<Option<String>>, String);

impl Loop {
    pub(crate) async fn open(outbox: &Outbox<'_>) -> Outcome<Self> {
        let sql = StatusStatements::read(&outbox.config()?).await.map_err(|fault| failed(&fault))?;
        let receipts = connect(&outbox.url()).await?;
        let claims = match outbox.kind {
            Kind::Held => connect(&outbox.url()).await?,
            _ => connect_durable(&outbox.url()).await?,
        };
        for client in [&claims, &receipts] {
            client.batch_execute("set enable_seqscan = off").await?;
        }
        let scan = [Type::TEXT, Type::TEXT_ARRAY, Type::TEXT, Type::INT8];
        let lock = [Type::TEXT, Type::TEXT_ARRAY, Type::INT8];
        let take = [Type::TEXT, Type::TEXT_ARRAY, Type::TEXT, Type::INT8, Type::INT8];
        let settle = [Type::TEXT, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT, Type::INT8, Type::INT8];
        // A hold settles in the transaction that has the rows.
        let (settles, take) = match outbox.kind {
            Kind::Held => (&claims, lock.as_slice()),
            _ => (&receipts, take.as_slice()),
        };
        Ok(Self {
            kind: outbox.kind,
            outbox: outbox.layout.table.as_str().to_owned(),
            first: claims.prepare_typed(&sql.first, &scan).await?,
            on: claims.prepare_typed(&sql.on, &scan).await?,
            take: claims.prepare_typed(&sql.take, take).await?,
            published: settles.prepare_typed(&sql.published, &settle).await?,
            claims,
            receipts,
        })
    }

    pub(crate) async fn run(&self, rows: usize) -> Outcome<()> {
        let (mut settled, mut mark) = (0, None::<Rank>);
        loop {
            let ranks = self.look(mark.as_ref()).await?;
            let Some(last) = ranks.last() else { break };
            mark = Some(last.clone());
            let entries: Vec<&str> = ranks.iter().map(|(_, entry)| entry.as_str()).collect();
            if self.kind == Kind::Held {
                self.claims.batch_execute("begin").await?;
            }
            let batch = self.take(&entries).await?;
            take_all(&batch)?;
            self.settle(&batch).await?;
            if self.kind == Kind::Held {
                self.claims.batch_execute("commit").await?;
            }
            settled += batch.len();
        }
        assert_eq!(settled, rows, "the bare loop settles every row");
        Ok(())
    }

    async fn look(&self, mark: Option<&Rank>) -> Outcome<Vec<Rank>> {
        let statement = if mark.is_some() { &self.on } else { &self.first };
        let (leads, entry) = (mark.map(|(leads, _)| leads), mark.map(|(_, entry)| entry));
        let rows =
            self.claims.query(statement, &[&self.outbox, &leads, &entry, &(BATCH_ENTRIES as i64)]).await?;
        let (leads, entry) = StatusStatements::RANK;
        let ranks = rows
            .iter()
            .map(|row| Ok::<Rank, tokio_postgres::Error>((row.try_get(leads)?, row.try_get(entry)?)));
        Ok(ranks.collect::<Result<_, _>>()?)
    }

    async fn take(&self, entries: &[&str]) -> Outcome<Vec<Row>> {
        let most = BATCH_ENTRIES as i64;
        Ok(match self.kind {
            Kind::Held => self.claims.query(&self.take, &[&self.outbox, &entries, &most]).await?,
            _ => self.claims.query(&self.take, &[&self.outbox, &entries, &"bench", &most, &0i64]).await?,
        })
    }

    async fn settle(&self, batch: &[Row]) -> Outcome<()> {
        let (entry, claim) = StatusStatements::TAKEN;
        let entries: Vec<&str> = batch.iter().map(|row| row.try_get(entry)).collect::<Result<_, _>>()?;
        let claim: i64 = batch.first().map_or(Ok(0), |row| row.try_get(claim))?;
        let versions = vec![0i64; entries.len()];
        let client = if self.kind == Kind::Held { &self.claims } else { &self.receipts };
        let answer = client
            .query_one(&self.published, &[&self.outbox, &entries, &versions, &"bench", &claim, &0i64])
            .await?;
        let lost: Vec<String> = answer.try_get(0)?;
        assert!(lost.is_empty(), "the bare loop settles what it has taken");
        Ok(())
    }
}
