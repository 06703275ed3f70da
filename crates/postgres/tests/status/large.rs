//! SRC-07, F8: a claim stops at its bytes, also where the server does not know how large a document is.

use postrider_conformance::source::SourceHarness;
use postrider_core::Settlement;
use postrider_core::layout::Order;
use postrider_core::source::{Ask, Source};

use crate::common::tables::{full_status_layout, logistics_layout, logistics_tables, status_tables};
use crate::common::{Harness, ask_for, block_on};

const ROW_BYTES: usize = 1_000_000;
const BYTES_MAX: usize = 4 * ROW_BYTES;
const ROWS: usize = 40;

/// Documents that are stored in a hundredth of their size.
fn stops_at_its_bytes(harness: &Harness, columns: &str, values: &str) {
    harness.database.query(&format!(
        "insert into {} (event_id, event_type, payload, {columns}) \
         select 'e' || i, 't', jsonb_build_object('x', repeat('x', {ROW_BYTES})), {values} from generate_series(1, {ROWS}) as i",
        harness.layout.table.quoted()
    ));
    let ask = Ask { bytes_max: BYTES_MAX, ..ask_for(1_000) };
    block_on(async {
        let (source, neighbour) = (harness.open("one").await, harness.open("two").await);
        let (mut came, mut claims) = (0, 0);
        while came < ROWS {
            let claim = source.take(&ask).await;
            let bytes: usize = claim.entries.iter().map(|entry| entry.envelope.data.len()).sum();
            assert!(bytes <= BYTES_MAX + BYTES_MAX / 8 + 2 * ROW_BYTES, "{bytes} bytes in one claim");
            assert!(claim.more || came + claim.entries.len() == ROWS, "it stopped early, and says so");
            came += claim.entries.len();
            claims += 1;
            if claims == 1 {
                // What was looked at and did not fit is left to others.
                let beside = neighbour.take(&ask).await;
                assert!(
                    !beside.entries.iter().any(|entry| claim.entries.iter().any(|one| one.id == entry.id))
                );
                came += beside.entries.len();
                neighbour.finish(beside, |_| Settlement::Published).await;
            }
            source.finish(claim, |_| Settlement::Published).await;
        }
        assert!((6..=24).contains(&claims), "{claims} claims for 40 MB by 4");
        assert_eq!(source.drain(&ask).await.len() + neighbour.drain(&ask).await.len(), 0, "each came once");
        source.retire().await.unwrap();
        neighbour.retire().await.unwrap();
    });
}

#[test]
fn a_hold_of_large_documents_stops_at_its_bytes() {
    let harness = Harness::new(logistics_layout(), &logistics_tables());
    stops_at_its_bytes(&harness, "aggregate_type, aggregate_id", "'k', 's'");
}

#[test]
fn a_lease_of_large_documents_stops_at_its_bytes() {
    let harness = Harness::new(full_status_layout(Order::None), &status_tables());
    stops_at_its_bytes(&harness, "kind, subject, created_at, status", "'k', 's', 0, 'PENDING'");
}
