//! What relays say about themselves.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::limits::REPORT_KEPT;
use postrider_core::report::{Report, Reported, Role, Trouble};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::view::microseconds;
use crate::fault::Error;
use crate::session::{Durable, Session};
use crate::sql::Names;
use crate::sql::time::interval;

/// $1 is the outbox.
#[derive(Debug)]
pub(crate) struct Reports {
    outbox: String,
    put: String,
    forget: String,
    read: String,
}

impl Reports {
    pub(crate) fn new(names: &Names, outbox: &str) -> Self {
        let reports = &names.reports;
        let micros = |time: &str| format!("(extract(epoch from {time}) * 1000000)::int8");
        Self {
            outbox: outbox.to_owned(),
            put: format!(
                "insert into {reports} (outbox, holder, at, role, published, per_second, circuits, trouble, trouble_at) \
                 values ($1, $2, clock_timestamp(), $3, $4, $5, $6, $7, timestamptz 'epoch' + {}) \
                 on conflict (outbox, holder) do update set at = excluded.at, role = excluded.role, \
                 published = excluded.published, per_second = excluded.per_second, circuits = excluded.circuits, \
                 trouble = excluded.trouble, trouble_at = excluded.trouble_at",
                interval("$8")
            ),
            forget: format!(
                "delete from {reports} where outbox = $1 and at < clock_timestamp() - {}",
                interval("$2")
            ),
            read: format!(
                "select holder, {age}, role, published, per_second, circuits, trouble, {trouble_at} from {reports} \
                 where outbox = $1 and at >= clock_timestamp() - {} order by at desc, holder",
                interval("$2"),
                age = micros("(clock_timestamp() - at)"),
                trouble_at = micros("trouble_at"),
            ),
        }
    }

    /// The next report makes up for one that a power cut takes: no relay waits for a disk on its account.
    pub(crate) async fn put(&self, session: &Session, report: &Report) -> Result<(), Error> {
        let trouble = report.trouble.as_ref();
        let circuits = report.circuits_text();
        let published = i64::try_from(report.published).unwrap_or(i64::MAX);
        let reason = trouble.map(|trouble| trouble.reason.replace('\0', "\u{fffd}"));
        let at = trouble.map(|trouble| trouble.at.as_microsecond());
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&report.holder as _, Type::TEXT),
            (&report.role.word() as _, Type::TEXT),
            (&published as _, Type::INT8),
            (&report.per_second as _, Type::FLOAT8),
            (&circuits as _, Type::TEXT),
            (&reason as _, Type::TEXT),
            (&at as _, Type::INT8),
        ];
        let transaction = session.begin(Durable::Soon).await?;
        transaction.execute(&self.put, &params).await?;
        transaction.execute(&self.forget, &[(&self.outbox, Type::TEXT), (&kept(), Type::INT8)]).await?;
        transaction.commit().await
    }

    pub(crate) async fn read(&self, session: &Session) -> Result<Vec<Reported>, Error> {
        let rows = session.query(&self.read, &[(&self.outbox, Type::TEXT), (&kept(), Type::INT8)]).await?;
        Ok(rows.iter().map(reported).collect())
    }
}

fn kept() -> i64 {
    microseconds(REPORT_KEPT)
}

fn reported(row: &Row) -> Reported {
    let trouble = row.get::<_, Option<String>>(6).zip(row.get::<_, Option<i64>>(7));
    let report = Report {
        holder: row.get(0),
        role: Role::of(row.get(2)),
        published: u64::try_from(row.get::<_, i64>(3)).unwrap_or_default(),
        per_second: row.get(4),
        circuits: Report::circuits_from(row.get(5)),
        full: Report::full_from(row.get(5)),
        trouble: trouble.map(|(reason, at)| Trouble {
            reason: reason.into(),
            at: Timestamp::from_microsecond(at).unwrap_or_default(),
        }),
    };
    Reported { report, age: Duration::from_micros(u64::try_from(row.get::<_, i64>(1)).unwrap_or_default()) }
}
