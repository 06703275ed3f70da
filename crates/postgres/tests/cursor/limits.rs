//! F8: memory is bounded by what a claim asks for, however large the rows are.

use postrider_core::source::{Ask, Claimed, Source};

use crate::harness::{Harness, block_on, native};
use crate::late::{ask, publish};

const ROW_BYTES: usize = 1_000_000;
const BYTES_MAX: usize = 4 * ROW_BYTES;

/// B5: rows of 1 MB, a limit of 4 MB: a claim stops there, whether or not sizes were known before.
#[test]
fn a_claim_of_large_rows_stops_at_its_bytes() {
    let outbox = Harness::by_the_real_clock(native());
    let rows = |count: usize, bytes: usize| {
        outbox.query(&format!(
            "insert into outbox (type, aggregate_type, aggregate_id, payload) \
             select 'scene.row.written.v1', 'Row', g::text, repeat('x', {bytes}) from generate_series(1, {count}) as g"
        ));
    };
    rows(300, 10);
    rows(40, ROW_BYTES);
    let ask = Ask { entries_max: 1_000, bytes_max: BYTES_MAX, ..ask() };
    block_on(async {
        let source = outbox.source("relay").await;
        let (mut came, mut claims) = (0, 0);
        while came < 340 {
            let Claimed::Batch(claim) = source.claim(&ask).await.unwrap() else { panic!("there is more") };
            let bytes: usize = claim.entries.iter().map(|entry| entry.envelope.data.len()).sum();
            assert!(bytes <= BYTES_MAX + ROW_BYTES, "{bytes} bytes in one claim");
            assert!(claim.more || came + claim.entries.len() == 340, "it stopped early, and says so");
            came += claim.entries.len();
            claims += 1;
            publish(&source, claim).await;
        }
        assert!((8..=20).contains(&claims), "{claims} claims for 40 MB by 4");
        assert!(matches!(source.claim(&ask).await.unwrap(), Claimed::Nothing(_)));
    });
}
