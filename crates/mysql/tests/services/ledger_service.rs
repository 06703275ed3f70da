//! The ledger's service: transaction, journal entries, balance and event in one transaction, tried again on a conflict.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use postrider_core::{Envelope, Layout};
use postrider_mysql::{AppendError, Outbox};
use tokio::sync::Barrier;

/// The team's tables.
pub(crate) const TABLES: &str = "
    create table ledger_transaction (id bigint primary key, kind varchar(20) not null, reverses bigint);
    create table journal_entry (id bigint auto_increment primary key, transaction_id bigint not null,
        account_id bigint not null, amount bigint not null, check (amount <> 0));
    create table account_balance (account_id bigint primary key, balance bigint not null, version bigint not null);
    create table outbox_event (
        id bigint auto_increment primary key, aggregate_type varchar(50) not null, aggregate_id bigint not null,
        event_type varchar(100) not null, payload json not null, status varchar(20) not null default 'PENDING',
        retry_count int not null default 0, created_at datetime(6) not null, processed_at datetime(6) null,
        index idx_outbox_status_created (status, created_at));
    insert into account_balance values (1, 0, 0), (2, 0, 0);";

/// The account on the other side of every deposit.
const CASH: i64 = 9;

/// Why a deposit was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another transaction has changed the balance meanwhile: to be tried again.
    Conflict,
    Database(String),
}

impl From<mysql_async::Error> for Refused {
    fn from(error: mysql_async::Error) -> Self {
        Self::Database(error.to_string())
    }
}

#[derive(Clone)]
pub(crate) struct Service {
    url: String,
    outbox: Outbox,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) transaction: i64,
    pub(crate) account: i64,
    pub(crate) amount: i64,
    /// The transaction that it takes back, if it is a reversal.
    pub(crate) reverses: Option<i64>,
}

impl Service {
    pub(crate) fn new(url: String, layout: &Layout) -> Self {
        Self { url, outbox: Outbox::new(layout).unwrap() }
    }

    /// Tries until there is no conflict; answers how many there were. The first try waits for the others at the barrier, after
    /// it has read the balance.
    pub(crate) async fn post(&self, command: Command, meeting: Option<Arc<Barrier>>) -> Result<u32, Refused> {
        let mut conn = Conn::from_url(&self.url).await.unwrap();
        let (mut conflicts, mut meeting) = (0, meeting);
        loop {
            match self.attempt(&mut conn, command, meeting.take()).await {
                Err(Refused::Conflict) => conflicts += 1,
                Err(refused) => return Err(refused),
                Ok(()) => {
                    conn.disconnect().await?;
                    return Ok(conflicts);
                }
            }
        }
    }

    async fn attempt(
        &self,
        conn: &mut Conn,
        command: Command,
        meeting: Option<Arc<Barrier>>,
    ) -> Result<(), Refused> {
        let mut transaction = conn.start_transaction(TxOpts::default()).await?;
        let read = "select balance, version from account_balance where account_id = ?";
        let read: Option<(i64, i64)> = transaction.exec_first(read, (command.account,)).await?;
        let (balance, version) = read.ok_or_else(|| Refused::Database("no such account".into()))?;
        if let Some(meeting) = meeting {
            meeting.wait().await;
        }
        let written = self.write(&mut transaction, command, balance, version).await;
        match written {
            Ok(()) => Ok(transaction.commit().await?),
            Err(refused) => {
                transaction.rollback().await?;
                Err(refused)
            }
        }
    }

    async fn write<C: Queryable>(
        &self,
        transaction: &mut C,
        command: Command,
        balance: i64,
        version: i64,
    ) -> Result<(), Refused> {
        let Command { transaction: id, account, amount, reverses } = command;
        let kind = if reverses.is_some() { "REVERSAL" } else { "DEPOSIT" };
        transaction
            .exec_drop("insert into ledger_transaction values (?, ?, ?)", (id, kind, reverses))
            .await?;
        let entries =
            "insert into journal_entry (transaction_id, account_id, amount) values (?, ?, ?), (?, ?, ?)";
        transaction.exec_drop(entries, (id, account, amount, id, CASH, -amount)).await?;
        self.outbox.append(transaction, &event(command)).await.map_err(|error| match error {
            AppendError::Database(error) => Refused::from(error),
            AppendError::Refused(fault) => Refused::Database(fault.to_string()),
        })?;
        let update = "update account_balance set balance = ?, version = version + 1 where account_id = ? and version = ?";
        let result = transaction.exec_iter(update, (balance + amount, account, version)).await?;
        let rows = result.affected_rows();
        result.drop_result().await?;
        if rows == 1 { Ok(()) } else { Err(Refused::Conflict) }
    }
}

fn event(command: Command) -> Envelope {
    let Command { transaction, account, amount, reverses } = command;
    Envelope {
        id: format!("transaction-{transaction}").into(),
        source: "/ledger".into(),
        event_type: if reverses.is_some() { "LEDGER_REVERSED".into() } else { "LEDGER_POSTED".into() },
        time: Timestamp::UNIX_EPOCH,
        content_type: None,
        aggregate_type: "TRANSACTION".into(),
        aggregate_id: reverses.unwrap_or(transaction).to_string().into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!("{{\"transactionId\": {transaction}, \"accountId\": {account}, \"amount\": {amount}}}")
            .into(),
    }
}
