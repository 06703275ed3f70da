//! What relays say about themselves.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::limits::REPORT_KEPT;
use postrider_core::report::{Report, Reported, Role, Trouble};
use rusqlite::{Connection, Row, TransactionBehavior};

use crate::connection::{Durable, set_durable};
use crate::run::{all, execute};
use crate::sql::Names;

/// ?1 is the outbox.
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
        Self {
            outbox: outbox.to_owned(),
            put: format!(
                "insert into {reports} (outbox, holder, at, role, published, per_second, circuits, trouble, trouble_at) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict (outbox, holder) do update \
                 set at = excluded.at, role = excluded.role, published = excluded.published, \
                 per_second = excluded.per_second, circuits = excluded.circuits, trouble = excluded.trouble, \
                 trouble_at = excluded.trouble_at"
            ),
            forget: format!("delete from {reports} where outbox = ?1 and at < ?2"),
            read: format!(
                "select holder, at, role, published, per_second, circuits, trouble, trouble_at from {reports} \
                 where outbox = ?1 and at >= ?2 order by at desc, holder"
            ),
        }
    }

    pub(crate) fn put(
        &self,
        connection: &mut Connection,
        now: Timestamp,
        report: &Report,
    ) -> rusqlite::Result<()> {
        // The next report makes up for one that a power cut takes: no writer waits for a disk on its account.
        set_durable(connection, Durable::Normal)?;
        let written = self.write(connection, now, report);
        set_durable(connection, Durable::Full)?;
        written
    }

    pub(crate) fn read(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Reported>> {
        all(connection, &self.read, &[&self.outbox, &oldest(now)], |row| reported(row, now))
    }

    fn write(&self, connection: &mut Connection, now: Timestamp, report: &Report) -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let trouble = report.trouble.as_ref();
        execute(
            &transaction,
            &self.put,
            &[
                &self.outbox,
                &report.holder,
                &now.as_microsecond(),
                &report.role.word(),
                &i64::try_from(report.published).unwrap_or(i64::MAX),
                &report.per_second,
                &report.circuits_text(),
                &trouble.map(|trouble| &*trouble.reason),
                &trouble.map(|trouble| trouble.at.as_microsecond()),
            ],
        )?;
        execute(&transaction, &self.forget, &[&self.outbox, &oldest(now)])?;
        transaction.commit()
    }
}

fn oldest(now: Timestamp) -> i64 {
    now.saturating_sub(REPORT_KEPT).unwrap_or(Timestamp::MIN).as_microsecond()
}

fn reported(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Reported> {
    let time = |us: i64| Timestamp::from_microsecond(us).unwrap_or_default();
    let trouble = row.get::<_, Option<String>>(6)?.zip(row.get::<_, Option<i64>>(7)?);
    let report = Report {
        holder: row.get(0)?,
        role: Role::of(&row.get::<_, String>(2)?),
        published: u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default(),
        per_second: row.get(4)?,
        circuits: Report::circuits_from(&row.get::<_, String>(5)?),
        full: Report::full_from(&row.get::<_, String>(5)?),
        trouble: trouble.map(|(reason, at)| Trouble { reason: reason.into(), at: time(at) }),
    };
    let age = Duration::try_from(now.duration_since(time(row.get(1)?))).unwrap_or_default();
    Ok(Reported { report, age })
}
