//! What a cursor would lose events on is refused at the start, with the remedy (B10, F5).

use postrider_core::Start;
use postrider_core::layout::Way;
use postrider_postgres::open_source;

use crate::harness::{Harness, block_on, native, runtime};

/// What opening says on a native table that was changed.
fn told(change: &str) -> String {
    let outbox = Harness::new(native());
    outbox.query(change);
    let config = outbox.config("relay").start(Start::Beginning).way(Way::Cursor);
    match runtime().block_on(open_source(&config)) {
        Ok(_) => panic!("nothing is refused after: {change}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn tables_that_lose_events_are_refused_with_the_remedy() {
    for (change, problem, remedy) in [
        ("alter sequence outbox_id_seq cache 20", "cache", "cache 1"),
        ("alter sequence outbox_id_seq increment by 10", "counts by 10", "increment by 1"),
        ("alter table outbox alter column id drop default", "neither an identity", "identity"),
        (
            "alter table outbox alter column id set default nextval('outbox_id_seq') * 2",
            "more than nextval",
            "set default nextval",
        ),
        ("alter table outbox drop constraint outbox_pkey", "not unique", "primary key"),
        (
            "create sequence of_its_own; alter table outbox_p0 alter column id set default nextval('of_its_own')",
            "from elsewhere",
            "outbox_p0",
        ),
        (
            "drop table outbox; create table outbox (id bigint generated always as identity primary key, event_id text, \
             type text, source text, aggregate_type text, aggregate_id text, key text, time bigint, content_type text, \
             trace text, trace_state text, sequence bigint, extensions text, payload text); \
             create table child () inherits (outbox)",
            "inherits from it",
            "partitions",
        ),
        (
            "alter table outbox rename to behind; create view outbox as select * from behind",
            "view",
            "the table behind it",
        ),
    ] {
        let told = told(change);
        assert!(told.contains(problem) && told.contains(remedy), "{change}: {told}");
    }
}

/// Rows that a policy hides would never be published.
#[test]
fn row_level_security_that_applies_is_refused() {
    let outbox = Harness::new(native());
    let role = format!("relay_{}", outbox.database.name());
    outbox.query(&format!(
        "create role {role}; grant usage on schema shifted to {role}; \
         grant all on all tables in schema shifted to {role}; grant all on all sequences in schema shifted to {role}; \
         alter table outbox enable row level security"
    ));
    // The same login in that role: no password is needed, whatever the server asks for.
    let url = format!("{}%20-c%20role%3D{role}", outbox.url());
    let config = postrider_postgres::Config::new(&url, outbox.layout.clone(), "relay").unwrap();
    block_on(async {
        let told = open_source(&config).await.err().unwrap().to_string();
        assert!(told.contains("row-level security") && told.contains("bypassrls"), "{told}");
        outbox.query(&format!(
            "alter table outbox disable row level security; revoke all on sequence outbox_id_seq from {role}"
        ));
        let told = open_source(&config).await.err().unwrap().to_string();
        assert!(told.contains("grant select on sequence"), "{told}");
        outbox.query(&format!("grant select on sequence outbox_id_seq to {role}"));
        open_source(&config).await.unwrap();
    });
    outbox.query(&format!("drop owned by {role}; drop role {role}"));
}
