//! What relays say about themselves.

use std::time::Duration;

use mysql_async::{Row, params};
use postrider_core::limits::REPORT_KEPT;
use postrider_core::report::{Report, Reported, Role, Trouble};

use super::view::{microseconds, moment};
use crate::fault::Error;
use crate::rows::{number, text, value};
use crate::session::Session;
use crate::sql::Names;
use crate::sql::time::LONG_AGO;

#[derive(Debug)]
pub(super) struct Reports {
    outbox: String,
    put: String,
    forget: String,
    read: String,
}

impl Reports {
    pub(super) fn new(names: &Names, outbox: &str) -> Self {
        let (reports, now) = (&names.reports, &names.now);
        let kept = format!("{now} - interval :kept_us microsecond");
        Self {
            outbox: outbox.to_owned(),
            put: format!(
                "replace into {reports} (outbox, holder, at, role, published, per_second, circuits, trouble, trouble_at) \
                 values (:outbox, :holder, {now}, :role, :published, :per_second, :circuits, :trouble, \
                 {LONG_AGO} + interval :trouble_us microsecond)"
            ),
            forget: format!("delete from {reports} where outbox = :outbox and at < {kept}"),
            read: format!(
                "select holder, timestampdiff(microsecond, at, {now}), role, published, per_second, circuits, trouble, trouble_at \
                 from {reports} where outbox = :outbox and at >= {kept} order by at desc, holder"
            ),
        }
    }

    pub(super) async fn put(&self, session: &mut Session, report: &Report) -> Result<(), Error> {
        let trouble = report.trouble.as_ref();
        let params = params! {
            "outbox" => &self.outbox,
            "holder" => &report.holder,
            "role" => report.role.word(),
            "published" => i64::try_from(report.published).unwrap_or(i64::MAX),
            "per_second" => report.per_second,
            "circuits" => report.circuits_text(),
            "trouble" => trouble.map(|trouble| trouble.reason.to_string()),
            "trouble_us" => trouble.map(|trouble| trouble.at.as_microsecond()),
        };
        session.execute(&self.put, params).await?;
        let params = params! { "outbox" => &self.outbox, "kept_us" => microseconds(REPORT_KEPT) };
        session.execute(&self.forget, params).await.map(drop)
    }

    pub(super) async fn read(&self, session: &mut Session) -> Result<Vec<Reported>, Error> {
        let params = params! { "outbox" => &self.outbox, "kept_us" => microseconds(REPORT_KEPT) };
        let rows = session.query(&self.read, params).await?;
        Ok(rows.iter().map(reported).collect())
    }
}

fn reported(row: &Row) -> Reported {
    let part = |at| text(row, at).unwrap_or_default();
    let count = |at| number(row, at).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let trouble = text(row, 6).zip(moment(value(row, 7)));
    let report = Report {
        holder: part(0),
        role: Role::of(&part(2)),
        published: count(3),
        per_second: row.get::<f64, _>(4).unwrap_or(0.0),
        circuits: Report::circuits_from(&part(5)),
        full: Report::full_from(&part(5)),
        trouble: trouble.map(|(reason, at)| Trouble { reason: reason.into(), at }),
    };
    Reported { report, age: Duration::from_micros(count(1)) }
}
