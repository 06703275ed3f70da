//! B9: who lives keeps the lease while what it writes waits for somebody's lock.

use std::time::Duration;

use postrider_core::source::{Claim, Claimed, Source};
use postrider_core::{Settlement, Start};
use postrider_postgres::{PostgresSource, open_source};

use crate::harness::{Harness, block_on, commerce};
use crate::late::ask;

async fn open(outbox: &Harness, holder: &str) -> PostgresSource {
    let mut config = outbox.config(holder).start(Start::Beginning);
    config.lease_ttl = Duration::from_secs(1);
    open_source(&config).await.unwrap()
}

#[test]
fn b9_a_lease_outlives_a_settlement_that_waits_for_a_lock() {
    let outbox = Harness::by_the_real_clock(commerce());
    outbox.query(
        "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload) \
         select i::text, 'loopers.order.created.v1', '/shop', 'Order', i::text, '{}' from generate_series(1, 10) as i",
    );
    block_on(async {
        let one = open(&outbox, "one").await;
        let Claimed::Batch(Claim { mut hold, entries, .. }) = one.claim(&ask()).await.unwrap() else {
            panic!("there is something to claim")
        };
        let two = open(&outbox, "two").await;
        let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
        let (other, connection) =
            tokio_postgres::connect(&outbox.database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        other.batch_execute("begin; lock table outbox_cursor in share mode").await.unwrap();
        let meanwhile = async {
            // Several times as long as a lease lasts.
            let passed = "select clock_timestamp() > now() + interval '4 s'";
            while !other.query_one(passed, &[]).await.unwrap().get::<_, bool>(0) {
                assert!(matches!(two.claim(&ask()).await.unwrap(), Claimed::Standby), "one lives");
            }
            other.batch_execute("commit").await.unwrap();
        };
        let (settled, ()) = tokio::join!(one.settle(&mut hold, &all), meanwhile);
        settled.unwrap();
        one.release(hold).await.unwrap();
        assert!(matches!(one.claim(&ask()).await.unwrap(), Claimed::Nothing(_)), "nothing comes again");
        one.retire().await.unwrap();
        assert!(matches!(two.claim(&ask()).await.unwrap(), Claimed::Nothing(_)), "nor to its successor");
    });
}
