//! An application's way from a domain event to the wire, through the facade alone.

use postrider::cloudevents::{binary, structured};
use postrider::{Draft, Fault, Names};

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
    let envelope = draft(&posted()).seal(jiff::Timestamp::UNIX_EPOCH, [7; 10])?;
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
    let fault =
        draft(&posted()).names(Names::Convention).seal(jiff::Timestamp::UNIX_EPOCH, [7; 10]).unwrap_err();
    assert!(
        fault.problem.contains("LEDGER_POSTED") && fault.remedy.contains("loopers.order.created.v1"),
        "{fault}"
    );
}
