//! STO-10: what relays say about themselves.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::breaker::Circuit;
use postrider_core::report::{Report, Role, Tripped, Trouble};
use postrider_core::store::Store;

use crate::source::SourceHarness;

const MINUTE: Duration = Duration::from_secs(60);

/// STO-10: the newest word of each, whole, whoever reads it.
pub async fn sto_10_a_report_replaces_its_holders_older_one<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.store().await, harness.store().await);
    assert_eq!(one.reports().await.expect("nothing is wrong"), []);
    let active = troubled("one");
    let standby = quiet("two", Role::Standby);
    one.report(&quiet("one", Role::Standby)).await.expect("nothing is wrong");
    two.report(&standby).await.expect("nothing is wrong");
    harness.pass(MINUTE).await;
    one.report(&active).await.expect("nothing is wrong");
    let found = two.reports().await.expect("nothing is wrong");
    let reports: Vec<&Report> = found.iter().map(|reported| &reported.report).collect();
    assert_eq!(reports, [&active, &standby], "the newest first");
    assert!(found[0].age < MINUTE && found[1].age >= MINUTE, "{found:?}");
}

/// STO-10: silence of a day.
pub async fn sto_10_a_report_is_forgotten_after_a_day<H: SourceHarness>(harness: &H) {
    let store = harness.store().await;
    store.report(&quiet("one", Role::Active)).await.expect("nothing is wrong");
    harness.pass(23 * 60 * MINUTE).await;
    assert_eq!(holders(&*store).await, ["one"], "not before its time");
    store.report(&quiet("two", Role::Stopped)).await.expect("nothing is wrong");
    harness.pass(2 * 60 * MINUTE).await;
    assert_eq!(holders(&*store).await, ["two"]);
    store.report(&quiet("three", Role::Active)).await.expect("nothing is wrong");
    assert_eq!(holders(&*store).await, ["three", "two"]);
}

async fn holders(store: &dyn Store) -> Vec<String> {
    let found = store.reports().await.expect("nothing is wrong");
    found.into_iter().map(|reported| reported.report.holder).collect()
}

fn quiet(holder: &str, role: Role) -> Report {
    let holder = holder.to_owned();
    Report { holder, role, published: 0, per_second: 0.0, circuits: Vec::new(), full: false, trouble: None }
}

fn troubled(holder: &str) -> Report {
    let since = Timestamp::UNIX_EPOCH + Duration::from_micros(1_234_567);
    let tripped = |topic: Option<&str>, circuit| Tripped {
        sink: "broker".into(),
        topic: topic.map(Into::into),
        circuit,
        since,
    };
    Report {
        full: true,
        published: 12_345,
        per_second: 67.5,
        circuits: vec![tripped(None, Circuit::Open), tripped(Some("orders"), Circuit::HalfOpen)],
        trouble: Some(Trouble { reason: "no \"answer\"".into(), at: since }),
        ..quiet(holder, Role::Active)
    }
}
