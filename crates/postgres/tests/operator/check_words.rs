//! `check`: status words that the column does not take.

use postrider_postgres::Weight;

use crate::world::{LETTERS, WORDS, World, letters};

const ALL: &str =
    "pending = \"NEW\"\nleased = \"BUSY\"\npublished = \"SENT\"\ndead = \"FAILED\"\nretry = \"AGAIN\"";

/// F5: each word that an enum does not have, with the statement that adds it.
#[tokio::test]
async fn words_that_an_enum_lacks_are_named() {
    let table = LETTERS.replace("create table", "create type word as enum ('NEW', 'SENT'); create table");
    let table = table.replace("status varchar(20)", "status word");
    let world = World::new(letters("", ALL), &table).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 3, "{found}");
    for word in ["BUSY", "FAILED", "AGAIN"] {
        let remedy = found.expect(Weight::Fault, &[word, "none of the values"]).to_owned();
        let statement = remedy.split_once(": ").unwrap().1;
        world.run(statement).await;
    }
    assert_eq!(world.check().await.count(Weight::Fault), 0);
}

/// F5: words that a constraint refuses, or that do not fit.
#[tokio::test]
async fn words_that_are_not_allowed_are_named() {
    let table = LETTERS.replace(
        "status varchar(20) not null default 'NEW'",
        "status varchar(5) not null default 'NEW' constraint known check (status in ('NEW', 'SENT', 'AGAIN'))",
    );
    let world = World::new(letters("", ALL), &table).await;
    let found = world.check().await;
    found.expect(Weight::Fault, &["FAILED", "does not fit", "character varying(5)"]);
    found.expect(Weight::Fault, &["\"known\"", "status.leased = \"BUSY\""]);
    found.expect(Weight::Fault, &["\"known\"", "FAILED"]);
    assert_eq!(found.count(Weight::Fault), 3, "{found}");
}

/// F5: words that are no value of the status.
#[tokio::test]
async fn a_status_that_is_no_word_is_named() {
    for (kind, default) in [("boolean", "false"), ("int", "0")] {
        let table = LETTERS.replace(
            "status varchar(20) not null default 'NEW'",
            &format!("status {kind} not null default {default}"),
        );
        let world = World::new(letters("", WORDS), &table).await;
        world.check().await.expect(Weight::Fault, &["columns.status", "no value \"NEW\"", "words are"]);
    }
    let table = LETTERS
        .replace("create table", "create domain word as text check (value in ('NEW', 'SENT')); create table");
    let world = World::new(letters("", WORDS), &table.replace("status varchar(20)", "status word")).await;
    let found = world.check().await;
    found.expect(Weight::Fault, &["FAILED", "no value of word"]);
    assert_eq!(found.count(Weight::Fault), 1, "{found}");
}

/// D2: rows whose status is NULL are not overlooked.
#[tokio::test]
async fn rows_without_a_status_are_told() {
    let table = LETTERS.replace("status varchar(20) not null", "status varchar(20)");
    let world = World::new(letters("", WORDS), &table).await;
    world.run("insert into letters (status) values (null), ('NEW')").await;
    world.check().await.expect(Weight::Advice, &["one row has the status NULL", "it is passed by"]);
}
