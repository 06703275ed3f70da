//! `init --from` on live tables (F1): what fits, what is written, and what is not guessed.

use postrider_servers::Database;

use crate::world::{Did, World};

/// B19: the team's three tables.
pub(crate) const COMMERCE: &str = "
    create table outbox (
        id bigserial primary key, event_id varchar(36) not null, event_type varchar(100) not null,
        source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null,
        payload jsonb not null, created_at timestamptz not null default now());
    create table outbox_cursor (
        id bigserial primary key, last_processed_id bigint not null, created_at timestamptz not null default now());
    create table outbox_failed (
        id bigserial primary key, event_id varchar(36) not null, event_type varchar(100) not null,
        source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null,
        payload jsonb not null, retry_count int not null default 0, last_error text,
        failed_at timestamptz not null default now(), next_retry_at timestamptz not null default now());";

/// C1.
pub(crate) const ORDER_SERVICE: &str = "
    create table outbox (
        id uuid primary key, aggregate_type varchar(100) not null, aggregate_id uuid not null, event_type text not null,
        payload text not null, status varchar(20) not null default 'NEW', created_at timestamp not null, sent_at timestamp,
        error_message text);";

/// D1.
pub(crate) const LOGISTICS: &str = "
    create type outbox_status as enum ('PENDING', 'PUBLISHED', 'FAILED');
    create table outbox_events (
        id uuid primary key, aggregate_type text not null, aggregate_id uuid not null, event_type text not null,
        payload jsonb not null, occurred_at timestamptz not null, status outbox_status not null default 'PENDING',
        retry_count int not null default 0, next_attempt_at timestamptz, last_error text, processed_at timestamptz);";

const DEBEZIUM: &str = "
    create table outbox (
        id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
        type varchar(255) not null, payload jsonb);";

/// Mixed case, quoted, in a schema that no connection finds by itself, with words of an enum.
const OWN: &str = "
    create schema \"My Shop\";
    create type \"My Shop\".\"State\" as enum ('Queued', 'Processing', 'Done', 'Dead', 'Archived');
    create table \"My Shop\".\"Event Log\" (
        \"Id\" bigint generated always as identity primary key, \"EventName\" text not null, \"EntityId\" text not null,
        \"Body\" bytea not null, \"CreatedOn\" timestamp not null default now(), \"State\" \"My Shop\".\"State\" not null,
        \"Attempts\" int not null default 0, \"Tenant\" text);";

fn init(world: &World, database: &Database, more: &[&str]) -> Did {
    world.run(&[&["init", "--from", &database.url()], more].concat())
}

/// F1: each team's own table is known, side tables are not taken for it, and the layout that is named fits by `check`.
#[test]
fn a_table_that_fits_a_built_in_layout_is_given_it() {
    for (tables, layout) in [
        (COMMERCE, "commerce"),
        (ORDER_SERVICE, "order-service"),
        (LOGISTICS, "logistics"),
        (DEBEZIUM, "debezium"),
    ] {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(tables);
        let wrote = init(&world, &database, &[]);
        assert!(wrote.stderr.contains(&format!("built-in layout \"{layout}\"")), "{}", wrote.stderr);
        wrote.ok();
        let config = world.read("postrider.toml");
        assert!(config.contains(&format!("\nlayout = \"{layout}\"")), "{config}");
        assert!(config.contains("\n# table ="), "the layout's own name: {config}");
        world.run(&["migrate"]).ok();
    }
}

/// F1: any other table gets a layout file; what was guessed is said.
#[test]
fn a_table_of_ones_own_gets_a_layout_file_that_fits_it() {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(OWN);
    database.query("create table orders (id bigint primary key, payload text)");
    let wrote = init(&world, &database, &["--table", "\"My Shop\".\"Event Log\""]);
    assert!(wrote.stderr.contains("Queued = pending, Done = published, Dead = dead"), "{}", wrote.stderr);
    assert!(wrote.stderr.contains("Archived") && wrote.stderr.contains("Tenant"), "{}", wrote.stderr);
    wrote.ok();
    let layout = world.read("Event_Log-layout.toml");
    for line in [
        "table = \"Event Log\"",
        "way   = \"lease\"",
        "order = \"key\"",
        "payload = \"bytes\"",
        "type           = \"EventName\"",
        "aggregate_id   = \"EntityId\"",
        "retries        = \"Attempts\"",
        "leased    = \"Processing\"",
    ] {
        assert!(layout.contains(line), "{line} in {layout}");
    }
    let config = world.read("postrider.toml");
    assert!(
        config.contains("\nschema = \"My Shop\"") && config.contains("./Event_Log-layout.toml"),
        "{config}"
    );
    world.run(&["migrate"]).ok();
    init(&world, &database, &["--table", "nowhere"]).failed(1, &["\"nowhere\"", "no such table"]);
    init(&world, &database, &["--table", "orders", "--force"]).failed(1, &["cannot be told", "entry's type"]);
}

/// F1, F5: words that an empty table does not show are left to be filled in, in lines that `check` and `run` name; once they
/// are, the layout works. Nothing is guessed.
#[test]
fn words_that_an_empty_table_does_not_show_are_left_to_be_filled_in() {
    for (declared, pending, seen) in [
        ("varchar(20) not null", "TODO", "?"),
        ("varchar(20) not null default 'NEW'", "NEW", "NEW"),
        ("smallint not null", "0", "?"),
    ] {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(&format!(
            "create table outbox (id uuid primary key, event_type text not null, aggregate_id text not null, payload jsonb not null, \
             created_at timestamptz not null default now(), status {declared}); create index on outbox (status, created_at, id)"
        ));
        let wrote = init(&world, &database, &[]);
        assert!(
            wrote.stderr.contains("in an entry that is") && wrote.stderr.contains("published"),
            "{}",
            wrote.stderr
        );
        wrote.ok();
        let layout = world.read("outbox-layout.toml");
        assert!(layout.contains(&format!("pending   = \"{seen}\"")), "{layout}");
        assert!(layout.contains("published = \"?\"    # FILL IN"), "{layout}");
        for command in [&["check"][..], &["run"], &["migrate"]] {
            world.run(command).failed(
                2,
                &["outbox-layout.toml", "status.published is yet to be filled in", "in place of \"?\""],
            );
        }
        let filled = layout
            .replace("pending   = \"?\"", &format!("pending   = \"{pending}\""))
            .replace("\"?\"", "\"1\"");
        world.write("outbox-layout.toml", &filled);
        world.run(&["migrate"]).ok();
        world.run(&["check"]).ok();
        world.append("Sent", "7", "{}");
        world.run(&["run", "--until-empty"]).ok();
        assert_eq!(database.query("select status::text from outbox"), [[Some("1".to_owned())]]);
    }
}

#[test]
fn what_cannot_be_told_is_said_and_nothing_is_written() {
    let (world, database) = (World::new(), Database::create_blocking());
    init(&world, &database, &[]).failed(1, &["no table looks like an outbox", "--table"]);
    database.query(
        "create table outbox (id uuid primary key, type text, payload text, created_at timestamptz, status timestamptz);
         create table outbox2 (id bigserial primary key, type text, payload text, created_at timestamptz, published boolean)",
    );
    init(&world, &database, &[]).failed(2, &["public.outbox, public.outbox2", "--table"]);
    init(&world, &database, &["--table", "outbox"])
        .failed(1, &["column \"status\" is a timestamp with time zone", "not to be guessed", "by hand"]);
    assert!(!world.path("postrider.toml").exists());
    init(&world, &database, &["--table", "outbox2"]).ok();
    world.run(&["migrate"]).ok();
    world.run(&["check"]).ok();
}

/// F6: a password that was typed is not written, and not shown.
#[test]
fn a_password_is_not_written() {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(DEBEZIUM);
    // A server that trusts whoever is on this machine takes any password; one that does not has its own in the URL.
    let url = database.url();
    let (login, rest) = url.trim_start_matches("postgres://").split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap_or((login, "swordfish-9"));
    let url = format!("postgres://{user}:{password}@{rest}");
    let wrote = world.run(&["init", "--from", &url]);
    assert!(!wrote.stderr.contains(password), "{}", wrote.stderr);
    wrote.ok();
    let config = world.read("postrider.toml");
    assert!(config.contains(":${DB_PASSWORD}@") && !config.contains(password), "{config}");
    let printed = world.run(&["init", "--print", "--from", &url]).ok();
    assert_eq!(printed, config);
    world.run(&["init", "--from", &url]).failed(2, &["postrider.toml", "--force"]);
}

#[test]
fn a_database_that_does_not_answer_or_is_none() {
    let world = World::new();
    let did = world.run(&["init", "--from", "postgres://app:swordfish@127.0.0.1:1/shop"]);
    did.failed(3, &["127.0.0.1:1/shop", "does not answer"]);
    assert!(!did.stderr.contains("swordfish"), "{}", did.stderr);
    world
        .run(&["init", "--from", "postgres://app:swordfish@h/shop?sslmode=x"])
        .failed(2, &["--from", "sslmode"]);
    world.run(&["init", "--from", "sqlite://shop.db"]).failed(2, &["no PostgreSQL database"]);
    assert!(!world.path("postrider.toml").exists());
}
