//! Tables that a relay cannot work on, and rows that a table refuses.

use postrider_core::layout::{Identifier, Order};
use postrider_core::source::Source;
use postrider_core::store::Store;
use postrider_core::{Layout, Settlement};
use postrider_mysql::{Weight, check, migrate, open_source, open_store};

use crate::common::tables::{DONATION, STATUS_TABLES, status_layout};
use crate::common::{Harness, ask, block_on};
use postrider_conformance::source::SourceHarness;

/// F5: what cannot work is refused with the remedy, by `check` and before anything is claimed.
#[test]
fn a_table_that_cannot_be_relayed_from_is_refused() {
    let rows = "id bigint auto_increment primary key, event_id varchar(50), event_type varchar(50), kind varchar(50), \
                subject varchar(50), payload text, created_at datetime(6), status varchar(20)";
    let tables = [
        ("isam", format!("create table isam ({rows}) engine = MyISAM"), "InnoDB"),
        (
            "short",
            format!("create table short ({})", rows.replace("status varchar(20)", "status varchar(3)")),
            "longer",
        ),
        (
            "words",
            format!(
                "create table words ({})",
                rows.replace("status varchar(20)", "status enum('NEW', 'GONE')")
            ),
            "NEW, GONE",
        ),
        (
            "bytes",
            format!("create table bytes ({})", rows.replace("id bigint auto_increment", "id binary(16)")),
            "auto_increment",
        ),
        ("views", "create view views as select * from letters".to_owned(), "Name the table itself"),
        (
            "columns_gone",
            "create table columns_gone (id bigint primary key, status varchar(20))".to_owned(),
            "columns.",
        ),
    ];
    let harness = Harness::new(status_layout(Order::Key), STATUS_TABLES);
    for (name, create, said) in tables {
        harness.database.query(&create);
        let config = harness.config("relay").table(Identifier::new(name).unwrap());
        block_on(async {
            let refused = open_source(&config).await.err().unwrap().to_string();
            assert!(refused.contains(said) && refused.contains(name), "{name}: {refused}");
            let found = check(&config).await;
            assert!(found.iter().any(|finding| finding.weight == Weight::Fault), "{name}");
        });
    }
    block_on(async {
        assert!(check(&harness.config("relay")).await.is_empty(), "the table itself is well");
        let gone = harness.config("relay").table(Identifier::new("nowhere").unwrap());
        assert!(migrate(&gone).await.unwrap_err().to_string().contains("no such table"));
    });
}

/// A6, F5: a hash is not verified over a document that the server takes apart, where it does.
#[test]
fn a_hash_over_a_document_is_refused_where_its_text_is_not_kept() {
    let Some(server) = postrider_servers::mysql() else { return };
    let tables = DONATION.replace("payload text not null", "payload json not null");
    let harness = Harness::on(&server, Layout::built_in("donation").unwrap(), &tables);
    block_on(async {
        let refused = open_source(&harness.config("relay")).await.err().unwrap().to_string();
        assert!(refused.contains("longtext"), "{refused}");
    });
}

/// F8: a table that refuses what became of one row keeps nobody else from being settled, and that row is not sent again.
#[test]
fn what_the_table_refuses_is_kept_beside_it() {
    let harness = Harness::new(status_layout(Order::None), STATUS_TABLES);
    harness.database.query(
        "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) values \
         ('a', 'x', 'Order', '1', '{}', '1970-01-01', 'NEW'), ('b', 'x', 'Order', '2', '{}', '1970-01-01', 'NEW'), \
         ('c', 'x', 'Order', '3', '{}', '1970-01-01', 'NEW'); \
         alter table letters add constraint stays check (event_id <> 'b' or status = 'NEW')",
    );
    block_on(async {
        let relay = harness.open("relay").await;
        let claim = relay.take(&ask()).await;
        relay.finish(claim, |_| Settlement::Published).await;
        let words = harness.database.query("select status from letters order by id");
        let words: Vec<_> = words.into_iter().flatten().flatten().collect();
        assert_eq!(words, ["SENT", "NEW", "SENT"]);
        assert!(relay.drain(&ask()).await.is_empty(), "it was published, and is not sent again");
        let store = open_store(&harness.config("operator")).await.unwrap();
        let depth = store.depth().await.unwrap();
        assert_eq!((depth.published, depth.dead), (2, 1));
        let shown = store.show(&2.into()).await.unwrap().unwrap();
        let error = shown.listed.error.unwrap();
        assert!(error.contains("it was published") && error.contains("4025"), "{error}");
    });
}

/// F5: a table that changes under a running relay is named with the remedy, and the relay goes on once it is mended.
#[test]
fn a_table_that_changes_is_looked_at_again() {
    let harness = Harness::new(status_layout(Order::None), STATUS_TABLES);
    block_on(async {
        let relay = harness.open("relay").await;
        assert!(relay.drain(&ask()).await.is_empty());
        harness.database.query("alter table letters rename column payload to body");
        let unfit = relay.claim(&ask()).await.err().unwrap().to_string();
        assert!(unfit.contains("\"payload\"") && unfit.contains("columns.payload"), "{unfit}");
        harness.database.query("alter table letters rename column body to payload");
        assert!(relay.drain(&ask()).await.is_empty());
    });
}

/// Issue 6: a NULL where none may be makes that row dead with the column's name and holds back no other, on both servers.
#[test]
fn a_null_where_none_may_be_is_that_rows_own_flaw() {
    for server in [Some(postrider_servers::mariadb()), postrider_servers::mysql()].into_iter().flatten() {
        let harness = Harness::on(&server, status_layout(Order::None), STATUS_TABLES);
        for (event, kind, payload) in
            [("a", "'x'", "'{}'"), ("b", "null", "'{}'"), ("c", "'x'", "null"), ("d", "'x'", "'{}'")]
        {
            harness.database.query(&format!(
                "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) values \
                 ('{event}', {kind}, 'Order', '{event}', {payload}, '1970-01-01', 'NEW')"
            ));
        }
        block_on(async {
            let relay = harness.open("relay").await;
            let claim = relay.take(&ask()).await;
            let flaw = |at: usize| {
                claim.entries[at].flaw.as_ref().map(|flaw| flaw.0.to_string()).unwrap_or_default()
            };
            assert_eq!((flaw(0), flaw(3)), (String::new(), String::new()));
            assert!(
                flaw(1).contains("\"event_type\"") && flaw(2).contains("\"payload\""),
                "{} {}",
                flaw(1),
                flaw(2)
            );
            relay.finish(claim, |_| Settlement::Published).await;
        });
    }
}
