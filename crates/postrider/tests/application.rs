//! An application's way from a domain event to the wire, through the facade alone.

use postrider::cloudevents::{binary, structured};
use postrider::{Draft, Fault, Names, Timestamp};

/// B1: the domain needs the derive and nothing else: no serialization, no topic, no broker.
mod domain {
    use postrider::Event;

    #[derive(Event)]
    #[event(aggregate = "Order", key = "order_id")]
    pub(super) enum OrderEvent {
        #[event(type = "loopers.order.created.v1")]
        Created { order_id: u64 },
    }
}

#[derive(postrider::Event, serde::Serialize)]
#[event(aggregate = "TRANSACTION", aggregate_id = "transaction_id", key = "account", names = "free")]
#[serde(untagged)]
enum LedgerEvent {
    #[event(type = "LEDGER_POSTED")]
    Posted { transaction_id: String, account: u32 },
}

fn posted() -> LedgerEvent {
    LedgerEvent::Posted { transaction_id: "t-1".to_owned(), account: 42 }
}

fn draft(event: &LedgerEvent) -> Draft<'_, LedgerEvent> {
    Draft::new(event, "/ledger").sequence(3).extension("tenant", "acme")
}

/// B1: a domain event is an event without being anything else.
#[test]
fn a_domain_type_needs_nothing_of_transport() {
    use postrider::Event as _;
    let event = domain::OrderEvent::Created { order_id: 7 };
    assert_eq!((event.event_type(), &*event.aggregate_id()), ("loopers.order.created.v1", "7"));
}

/// B1, E4: on the wire, in both forms, every attribute is there and comes back.
#[test]
fn an_event_arrives_as_it_was_written_in_both_forms() -> Result<(), Fault> {
    let envelope = draft(&posted()).seal(Timestamp::UNIX_EPOCH, [7; 10])?;
    let mut line = Vec::new();
    structured::encode(&envelope, &mut line).unwrap();
    assert_eq!(structured::decode(&line.into()).unwrap(), envelope);

    let headers: Vec<_> = binary::headers(&envelope, binary::Binding::KAFKA).unwrap().collect();
    let headers = headers.iter().map(|(name, value)| (&**name, value.as_bytes()));
    let back = binary::decode(binary::Binding::KAFKA, headers, envelope.data.clone()).unwrap();
    assert_eq!((&*back.aggregate_id, back.partition_key.as_deref()), ("t-1", Some("42")));
    assert_eq!((back.sequence, &back.data[..]), (Some(3), &br#"{"transaction_id":"t-1","account":42}"#[..]));
    Ok(())
}

/// B3, F5: an outbox that wants the convention refuses a free name at the write, and says what to do.
#[test]
fn a_free_name_is_refused_where_the_convention_rules() {
    let fault = draft(&posted()).names(Names::Convention).seal(Timestamp::UNIX_EPOCH, [7; 10]).unwrap_err();
    assert!(
        fault.problem.contains("LEDGER_POSTED") && fault.remedy.contains("loopers.order.created.v1"),
        "{fault}"
    );
}

#[cfg(feature = "rusqlite")]
mod outbox {
    use postrider::sqlite::{Config, Outbox, migrate};
    use postrider::{Draft, Layout, Timestamp, chance};
    use rusqlite::Connection;

    #[derive(postrider::Event, serde::Serialize)]
    #[event(type = "loopers.order.paid.v1", aggregate = "Order", key = "order_id")]
    struct OrderPaid {
        order_id: u64,
        note: String,
    }

    fn paid(note: &str) -> OrderPaid {
        OrderPaid { order_id: 7, note: note.to_owned() }
    }

    fn shop() -> (tempfile::TempDir, Connection, Outbox) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("shop.db");
        let native = Layout::built_in("native").expect("a layout");
        migrate(&Config::new(&file, native.clone(), "shop")).expect("tables");
        (folder, Connection::open(&file).expect("a connection"), Outbox::new(&native).expect("an outbox"))
    }

    fn depth(connection: &Connection) -> i64 {
        connection.query_row("select count(*) from outbox", [], |row| row.get(0)).expect("a count")
    }

    /// F8, F9: an event is there if and only if the caller's transaction commits.
    #[test]
    fn an_event_shares_the_fate_of_the_callers_transaction() {
        let (_folder, mut connection, outbox) = shop();
        for (commit, expected) in [(false, 0), (true, 1)] {
            let transaction = connection.transaction().unwrap();
            let envelope = Draft::new(&paid(""), "/shop").seal(Timestamp::UNIX_EPOCH, chance()).unwrap();
            outbox.append(&transaction, &envelope).unwrap();
            assert_eq!(depth(&transaction), 1);
            if commit {
                transaction.commit().unwrap()
            } else {
                transaction.rollback().unwrap()
            }
            assert_eq!(depth(&connection), expected);
        }
    }

    /// F5: an event over the outbox's limit is refused, and nothing is written.
    #[test]
    fn too_large_an_event_is_refused_before_it_is_written() {
        let (_folder, connection, outbox) = shop();
        let envelope =
            Draft::new(&paid(&"x".repeat(100)), "/shop").seal(Timestamp::UNIX_EPOCH, chance()).unwrap();
        let refused = outbox.payload_bytes_max(100).append(&connection, &envelope).unwrap_err();
        assert!(refused.to_string().contains("the limit is 100"), "{refused}");
        assert_eq!(depth(&connection), 0);
    }
}
