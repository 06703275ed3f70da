//! `check`: a domain counts as what it is over, and its own constraints count too.

use postrider_postgres::Weight;

use crate::world::{World, letters};

/// Domains over domains, over an enum, with checks, defaults and NOT NULL of their own.
const TABLE: &str = "
    create sequence letters_id;
    create domain number as bigint; create domain letter_id as number;
    create domain short as varchar(30); create domain subject as short;
    create domain document as text; create domain moment as timestamptz;
    create type word as enum ('NEW', 'SENT', 'FAILED');
    create domain word_of as word; create domain status_word as word_of not null default 'NEW';
    create table letters (
        id letter_id not null default nextval('letters_id') primary key, kind short, subject subject, payload document,
        written_at moment, status status_word, why short, tries number);
    create index letters_open on letters (status, id);
";
const MORE: &str = "error = \"why\"\nretries = \"tries\"";
const WORDS: &str = "pending = \"NEW\"\npublished = \"SENT\"\ndead = \"FAILED\"";

/// F1, F5: nothing is wrong with a table of domains; what would be wrong with a type is wrong with a domain over it.
#[tokio::test]
async fn a_domain_counts_as_what_it_is_over() {
    let world = World::new(letters(MORE, WORDS), TABLE).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 0, "{found}");
    found.expect_none(Weight::Advice, "index");
    found.expect(Weight::Note, &["in the order of their ids"]);
    found.expect(Weight::Advice, &["columns.error", "30 characters"]);
    let odd = TABLE.replace("tries number", "tries moment").replace("payload document", "payload number");
    let found = World::new(letters(MORE, WORDS), &odd).await.check().await;
    found.expect(
        Weight::Fault,
        &["columns.retries", "moment, a domain over timestamp with time zone", "an integer is expected"],
    );
    found.expect(Weight::Fault, &["columns.payload", "number, a domain over bigint", "no payload"]);
}

/// F5: words are those of the enum below, and what a domain's own check refuses is told.
#[tokio::test]
async fn words_that_a_domain_does_not_take_are_told() {
    let world = World::new(letters(MORE, &WORDS.replace("FAILED", "DEAD")), TABLE).await;
    let remedy = world
        .check()
        .await
        .expect(Weight::Fault, &["status.dead = \"DEAD\"", "none of the values of word"])
        .to_owned();
    assert!(remedy.contains("alter type word add value 'DEAD'"), "{remedy}");
    let texts = TABLE.replace(
        "create domain word_of as word;",
        "create domain word_of as varchar(10) check (value in ('NEW', 'SENT'));",
    );
    let world = World::new(letters(MORE, WORDS), &texts).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 1, "{found}");
    found.expect(
        Weight::Fault,
        &["status.dead = \"FAILED\"", "no value of status_word, a domain over character varying(10)"],
    );
    let numbers = TABLE
        .replace("create domain word_of as word;", "create domain word_of as smallint;")
        .replace("'NEW';", "0;");
    let words = "pending = \"0\"\npublished = \"1\"\ndead = \"40000\"";
    let found = World::new(letters(MORE, words), &numbers).await.check().await;
    found.expect(Weight::Fault, &["status_word, a domain over smallint", "no value \"40000\""]);
}
