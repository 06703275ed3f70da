//! C1: due times without a zone, in a zone whose clock changes with the seasons.

use std::time::Duration;

use jiff::Timestamp;
use postrider_conformance::source::SourceHarness;
use postrider_core::layout::{Layout, Order, Way, Zone};
use postrider_core::source::{Claimed, Source};
use postrider_core::store::Filter;

use crate::common::tables::{full_status_layout, status_tables};
use crate::common::{Harness, ask, block_on};

/// The events that are due at a moment, and those that the store counts as such.
async fn due(harness: &Harness, moment: &str) -> Vec<String> {
    let now: Timestamp = harness
        .value("select to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from shifted.clock")
        .unwrap()
        .parse()
        .unwrap();
    let moment: Timestamp = moment.parse().unwrap();
    harness.pass(Duration::try_from(moment.duration_since(now)).unwrap()).await;
    let store = harness.store().await;
    let depth = store.depth().await.unwrap();
    let listed = store.list(&Filter::default()).await.unwrap().len();
    let source = harness.open("one").await;
    let came = source.drain(&ask()).await;
    assert_eq!(came.len() as u64, depth.pending, "of {listed} at {moment}");
    assert!(matches!(source.claim(&ask()).await.unwrap(), Claimed::Nothing(_)));
    came
}

/// C1, F8: a due time in the hour that comes twice is the earlier one, so that its row is not held back for another hour when
/// the clock is set back; one in the hour that does not come is due all the same.
#[test]
fn c1_a_clock_that_is_set_back_or_forward_hides_no_row() {
    for way in [Way::Lease, Way::Hold] {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let layout = Layout { way, zone, ..full_status_layout(Order::None) };
        let harness = Harness::new(layout, &status_tables());
        for (event, local) in [
            ("summer", "2026-10-25 01:59"),
            ("twice", "2026-10-25 02:45"),
            ("winter", "2026-10-25 03:01"),
            ("never", "2027-03-28 02:30"),
            ("spring", "2027-03-28 03:31"),
        ] {
            harness.database.query(&format!(
                "insert into full_letters (event_id, event_type, kind, subject, payload, created_at, status, next_retry_at) \
                 values ('{event}', 't', 'k', '{event}', '{{}}', 0, 'PENDING', '{local}')"
            ));
        }
        block_on(async {
            for (moment, expected) in [
                ("2026-10-24T23:58:00Z", &[][..]),
                ("2026-10-24T23:59:30Z", &["summer"]),
                ("2026-10-25T00:44:00Z", &[]),
                // The clock shows ten past two again.
                ("2026-10-25T01:10:00Z", &["twice"]),
                ("2026-10-25T02:00:30Z", &[]),
                ("2026-10-25T02:01:30Z", &["winter"]),
                ("2027-03-28T00:59:00Z", &[]),
                ("2027-03-28T01:30:30Z", &["never"]),
                ("2027-03-28T01:31:30Z", &["spring"]),
            ] {
                assert_eq!(due(&harness, moment).await, expected, "{way:?} at {moment}");
            }
        });
        assert_eq!(
            harness.value("select count(*) from full_letters where status = 'COMPLETED'").as_deref(),
            Some("5")
        );
    }
}
