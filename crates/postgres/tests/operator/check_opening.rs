//! `check` says no where `run` would: all that a relay asks when it opens.

use postrider_core::{Layout, Start};
use postrider_postgres::{Config, Weight, check, migrate, open_source};

use crate::world::{Found, LETTERS, WORDS, World, held, letters};

/// Asserts that both refuse with the same words.
async fn both_refuse(config: &Config, words: &[&str]) {
    let found = Found(check(config).await);
    found.expect(Weight::Fault, words);
    let refusal = open_source(config).await.err().expect("a relay is refused").to_string();
    assert!(words.iter().all(|word| refusal.contains(word)), "{words:?} in {refusal}");
}

/// F5: rows that were there before Postrider came, and nobody has said where to begin.
#[tokio::test]
async fn a_cursor_that_is_not_told_where_to_begin() {
    let world = World::native().await;
    world.run("delete from postrider_position; insert into outbox (type, aggregate_type, aggregate_id) values ('a.b.c.v1', 'A', '1')").await;
    both_refuse(&world.config(), &["where to begin is not said", "start = \"beginning\""]).await;
    let before = world.one("select count(*) from postrider_position").await;
    assert_eq!(before, "0", "`check` writes nothing");
    let chosen = world.config().start(Start::Beginning);
    assert_eq!(Found(check(&chosen).await).count(Weight::Fault), 0);
    open_source(&chosen).await.unwrap();
}

/// F5: ids that went backwards.
#[tokio::test]
async fn ids_that_went_backwards() {
    let world = World::native().await;
    world.run("update postrider_position set position = 50, claimed = 50").await;
    both_refuse(&world.config(), &["ids went backwards", "start = 0"]).await;
}

/// F5: a status table itself says what is to be published, and a start would be ignored.
#[tokio::test]
async fn a_start_on_a_status_table() {
    for layout in [letters("", WORDS), held(letters("", WORDS))] {
        let way = layout.way.word();
        let world = World::new(layout, LETTERS).await;
        for (start, shown) in
            [(Start::Now, "\"now\""), (Start::Beginning, "\"beginning\""), (Start::After(7), "7")]
        {
            let config = world.config().start(start);
            both_refuse(
                &config,
                &[&format!("start = {shown}"), &format!("way = \"{way}\""), "Leave start out"],
            )
            .await;
        }
        open_source(&world.config()).await.unwrap();
    }
}

/// F5: a transaction pooler that the URL does not speak of.
#[tokio::test]
async fn a_pooler_that_nobody_spoke_of() {
    let Some(pooler) = postrider_servers::pgbouncer() else { return };
    let world = World::native().await;
    let config = Config::new(&world.database.url_at(&pooler), world.layout.clone(), "relay").unwrap();
    both_refuse(&config, &["transaction pooler", "pooler=transaction"]).await;
}

/// F1: databases whose encoding is not UTF-8.
#[tokio::test]
async fn a_database_of_another_encoding() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let world = World::bare(Layout::built_in("native").unwrap(), "").await;
        let name = format!("{}_{}", world.database.name(), encoding.to_lowercase());
        world
            .run(&format!("create database {name} encoding '{encoding}' locale 'C' template template0"))
            .await;
        let url = world.database.url().replace(world.database.name(), &name);
        let config = Config::new(&url, world.layout.clone(), "relay").unwrap();
        let migrated = migrate(&config).await;
        let found = Found(check(&config).await);
        world.run(&format!("drop database {name} with (force)")).await;
        assert_eq!(migrated.unwrap().len(), 4, "{encoding}");
        assert_eq!(found.count(Weight::Fault), 0, "{encoding}: {found}");
    }
}

/// F1: what is in another schema is spelled as SQL has it.
#[tokio::test]
async fn a_table_is_spelled_with_its_schema() {
    let mut layout = Layout::built_in("order-service").unwrap();
    layout.schema = Some(postrider_core::layout::Identifier::new("shop").unwrap());
    let world = World::bare(layout, "create schema shop").await;
    world.check().await.expect(Weight::Fault, &["table \"shop\".\"outbox\" in"]);
}
