//! What compiles and what it then says, with the core alone; what does not compile, and what the compiler says (B1, B2, B3).

use std::fmt;

use postrider_core::{Event as _, Names};
use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id", crate = "postrider_core")]
enum OrderEvent<'a> {
    #[event(type = "loopers.order.created.v1")]
    Created { order_id: &'a str },
    #[event(type = "loopers.stock.depleted.v1", aggregate = "Product", key = "product_id")]
    StockDepleted { product_id: u64 },
    #[event(type = "loopers.order.noted.v2", key = "0")]
    Noted(String, #[allow(dead_code)] u8),
}

/// B1, B2: each variant has its type name, its aggregate and its key, the type's or its own.
#[test]
fn variants_have_names_aggregates_and_keys() {
    let said = |event: &OrderEvent<'_>| {
        assert_eq!(event.key(), None, "the aggregate's id is the key");
        (event.event_type(), event.aggregate_type(), event.aggregate_id().into_owned())
    };
    let created = OrderEvent::Created { order_id: "o-1" };
    assert_eq!(said(&created), ("loopers.order.created.v1", "Order", "o-1".to_owned()));
    let depleted = OrderEvent::StockDepleted { product_id: 9 };
    assert_eq!(said(&depleted), ("loopers.stock.depleted.v1", "Product", "9".to_owned()));
    let noted = OrderEvent::Noted("o-2".to_owned(), 0);
    assert_eq!(said(&noted), ("loopers.order.noted.v2", "Order", "o-2".to_owned()));
    assert_eq!(<OrderEvent<'_> as postrider_core::Event>::NAMES, Names::Convention);
}

#[derive(Event)]
#[event(
    type = "LEDGER_POSTED",
    aggregate = "TRANSACTION",
    aggregate_id = "transaction_id",
    key = "entry.account",
    names = "free",
    crate = "postrider_core"
)]
struct LedgerPosted<T: fmt::Display> {
    transaction_id: T,
    entry: JournalEntry,
}

struct JournalEntry {
    account: u32,
}

/// E4: the key may be another than the aggregate's id, and lie inside a field; B3: names are free where declared.
#[test]
fn the_key_may_be_another_than_the_aggregate() {
    let event = LedgerPosted { transaction_id: 'x', entry: JournalEntry { account: 42 } };
    assert_eq!(event.event_type(), "LEDGER_POSTED");
    assert_eq!(event.aggregate_id(), "x");
    assert_eq!(event.key().as_deref(), Some("42"));
    assert_eq!(<LedgerPosted<char> as postrider_core::Event>::NAMES, Names::Free);
}

#[derive(Event)]
#[event(type = "loopers.order.moved.v1", aggregate = "Order", key = "type", crate = "postrider_core")]
struct Moved {
    r#type: i8,
}

#[derive(Event)]
#[event(aggregate = "Order", key = "0.order_id", crate = "postrider_core")]
enum Wrapped {
    #[event(type = "loopers.order.shipped.v1")]
    Shipped(Shipped),
}

struct Shipped {
    order_id: u64,
}

#[test]
fn keys_are_found_by_raw_names_and_inside_tuples() {
    assert_eq!(Moved { r#type: -1 }.aggregate_id(), "-1");
    assert_eq!(Wrapped::Shipped(Shipped { order_id: 3 }).aggregate_id(), "3");
}

/// B2, B3: no type name, a name off the convention, no key, a name used twice: each is refused with what to write.
#[test]
fn mistakes_do_not_compile_and_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}

/// B1: an event's own trait knows nothing of topics, JSON, brokers or tables.
#[test]
fn the_trait_knows_nothing_of_transport() {
    let source = include_str!("../../core/src/event.rs");
    let (_, rest) = source.split_once("pub trait Event {").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    assert!(body.contains("fn aggregate_id"));
    for word in
        ["topic", "json", "serde", "serialize", "kafka", "broker", "envelope", "header", "partition", "sql"]
    {
        assert!(!body.to_lowercase().contains(word), "{word}");
    }
}
