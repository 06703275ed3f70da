//! Donation's service: a guest's points go to an admin, with history and event, in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, TxOpts, params};
use postrider_core::lock::Held;
use postrider_core::{Envelope, Layout};
use postrider_mysql::{AppendError, Locks, Outbox};

/// The team's tables, with a clock that the tests move.
pub(crate) const TABLES: &str = "
    create table clock (at datetime(6) not null) engine = MEMORY;
    insert into clock values ('2026-01-01');
    create table member (uuid varchar(36) primary key, fingerprint varchar(64), point bigint not null);
    create table donation_history (id bigint auto_increment primary key, request_id varchar(50) not null unique,
        guest_uuid varchar(36) not null, admin_fingerprint varchar(64) not null, amount bigint not null);
    create table donation_outbox (
        id bigint auto_increment primary key, version bigint default 0, request_id varchar(50) not null unique,
        event_type varchar(50) not null, payload text not null, content_hash varchar(64) not null,
        status varchar(20) not null default 'PENDING', locked_by varchar(100), locked_at datetime, retry_count int default 0,
        max_retries int default 3, last_error varchar(500), next_retry_at datetime, created_at datetime, updated_at datetime,
        index idx_pending_poll (status, next_retry_at, id), index idx_locked (locked_by, locked_at));
    create table donation_dlq (id bigint auto_increment primary key, original_id bigint not null,
        request_id varchar(50) not null, event_type varchar(50) not null, payload text not null, reason varchar(500),
        created_at datetime, index idx_request_id (request_id));
    insert into member values ('guest', null, 100), ('other', null, 100), ('admin', 'fp', 0);";

const LOCK_TTL: Duration = Duration::from_secs(10);

/// Why a donation was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    UnknownAdmin,
    NoAmount,
    NotEnough,
    /// The credit did not hit exactly one row.
    NoAdmin,
    /// Somebody else has the guest's lock by now.
    LostLock,
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
    pub(crate) locks: Locks,
    /// Whether the guest is locked: without, only the unique keys are left.
    pub(crate) locking: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Donation<'a> {
    pub(crate) guest: &'a str,
    pub(crate) admin: &'a str,
    pub(crate) amount: i64,
    pub(crate) request: &'a str,
}

/// Three points for the admin.
pub(crate) fn coffee(request: &str) -> Donation<'_> {
    Donation { guest: "guest", admin: "fp", amount: 3, request }
}

impl Service {
    pub(crate) fn new(url: String) -> Self {
        let layout = Layout::built_in("donation").unwrap();
        let locks = Locks::by(&layout, "(select at from clock)");
        Self { url, outbox: Outbox::new(&layout).unwrap(), locks, locking: true }
    }

    pub(crate) async fn connect(&self) -> Conn {
        Conn::from_url(&self.url).await.unwrap()
    }

    /// Sends a coffee: success also where the request was served before.
    pub(crate) async fn send(&self, donation: Donation<'_>) -> Result<(), Refused> {
        let mut conn = self.connect().await;
        self.admit(&mut conn, &donation).await?;
        if !self.locking {
            return self.transfer(&mut conn, &donation, None).await;
        }
        let held = loop {
            let name = format!("guest:{}", donation.guest);
            let taken = self.locks.take(&mut conn, &name, donation.request, LOCK_TTL).await;
            match taken.map_err(|error| Refused::Database(error.to_string()))? {
                Some(held) => break held,
                None => tokio::task::yield_now().await,
            }
        };
        let sent = self.transfer(&mut conn, &donation, Some(&held)).await;
        self.locks.release(&mut conn, &held).await.map_err(|error| Refused::Database(error.to_string()))?;
        sent
    }

    /// What is refused before anything is written.
    async fn admit(&self, conn: &mut Conn, donation: &Donation<'_>) -> Result<(), Refused> {
        let known: Option<i64> =
            conn.exec_first("select 1 from member where fingerprint = ?", (donation.admin,)).await?;
        known.ok_or(Refused::UnknownAdmin)?;
        if donation.amount > 0 { Ok(()) } else { Err(Refused::NoAmount) }
    }

    pub(crate) async fn transfer(
        &self,
        conn: &mut Conn,
        donation: &Donation<'_>,
        held: Option<&Held>,
    ) -> Result<(), Refused> {
        let mut transaction = conn.start_transaction(TxOpts::default()).await?;
        if let Some(held) = held {
            let mine = self.locks.check(&mut transaction, held).await;
            if !mine.map_err(|error| Refused::Database(error.to_string()))? {
                return Err(Refused::LostLock);
            }
        }
        let served = "select 1 from donation_history where request_id = ?";
        if transaction.exec_first::<i64, _, _>(served, (donation.request,)).await?.is_some() {
            return Ok(());
        }
        match self.write(&mut transaction, donation).await {
            Ok(()) => Ok(transaction.commit().await?),
            // The unique keys decided between two at the same time: the other one's is the request's.
            Err(Refused::Database(error)) if error.contains("1062") => {
                transaction.rollback().await?;
                let found: Option<i64> = conn.exec_first(served, (donation.request,)).await?;
                found.map(drop).ok_or(Refused::Database(error))
            }
            Err(refused) => {
                transaction.rollback().await?;
                Err(refused)
            }
        }
    }

    async fn write<C: Queryable>(&self, transaction: &mut C, donation: &Donation<'_>) -> Result<(), Refused> {
        let given = || -> Params {
            params! { "guest" => donation.guest, "admin" => donation.admin, "amount" => donation.amount,
            "request" => donation.request }
        };
        let debit = "update member set point = point - :amount where uuid = :guest and point >= :amount";
        if changed(transaction, debit, given()).await? != 1 {
            return Err(Refused::NotEnough);
        }
        let credit = "update member set point = point + :amount where fingerprint = :admin";
        if changed(transaction, credit, given()).await? != 1 {
            return Err(Refused::NoAdmin);
        }
        let history = "insert into donation_history (request_id, guest_uuid, admin_fingerprint, amount) \
            values (:request, :guest, :admin, :amount)";
        changed(transaction, history, given()).await?;
        self.outbox.append(transaction, &completed(donation)).await.map(drop).map_err(|error| match error {
            AppendError::Database(error) => error.into(),
            AppendError::Refused(fault) => Refused::Database(fault.to_string()),
        })
    }
}

fn completed(donation: &Donation<'_>) -> Envelope {
    Envelope {
        id: donation.request.into(),
        source: "/donation".into(),
        event_type: "DONATION_COMPLETED".into(),
        time: Timestamp::UNIX_EPOCH,
        content_type: None,
        aggregate_type: "Donation".into(),
        aggregate_id: donation.request.into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!("{{\"guest\": \"{}\", \"amount\": {}}}", donation.guest, donation.amount).into(),
    }
}

async fn changed<C: Queryable>(
    connection: &mut C,
    sql: &str,
    given: Params,
) -> Result<u64, mysql_async::Error> {
    let result = connection.exec_iter(sql, given).await?;
    let rows = result.affected_rows();
    result.drop_result().await?;
    Ok(rows)
}
