//! The immutable fact that an application appends, and how it becomes an envelope.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Builder;

use crate::envelope::Trace;
use crate::{Envelope, Fault, Names, Text, limits};

/// A domain event: what happened, and to which aggregate. Usually derived.
///
/// ```
/// use std::borrow::Cow;
/// use postrider_core::Event;
///
/// struct OrderPaid { order_id: u64 }
///
/// impl Event for OrderPaid {
///     fn event_type(&self) -> &'static str { "loopers.order.paid.v1" }
///     fn aggregate_type(&self) -> &'static str { "Order" }
///     fn aggregate_id(&self) -> Cow<'_, str> { self.order_id.to_string().into() }
/// }
///
/// assert_eq!(OrderPaid { order_id: 7 }.aggregate_id(), "7");
/// ```
pub trait Event {
    /// Whether its type names follow the convention.
    const NAMES: Names = Names::Convention;

    /// What happened: the name that consumers know it by.
    fn event_type(&self) -> &'static str;

    /// What kind of thing it happened to.
    fn aggregate_type(&self) -> &'static str;

    /// Which one it happened to.
    fn aggregate_id(&self) -> Cow<'_, str>;

    /// What it stays in order with, when that is not the aggregate.
    fn key(&self) -> Option<Cow<'_, str>> {
        None
    }
}

/// An envelope in the making: an event, and what its writer adds to it.
///
/// ```
/// # use std::borrow::Cow;
/// use postrider_core::{Draft, Event};
/// # #[derive(serde::Serialize)]
/// # struct OrderPaid { order_id: u64 }
/// # impl Event for OrderPaid {
/// #     fn event_type(&self) -> &'static str { "loopers.order.paid.v1" }
/// #     fn aggregate_type(&self) -> &'static str { "Order" }
/// #     fn aggregate_id(&self) -> Cow<'_, str> { self.order_id.to_string().into() }
/// # }
/// # let (now, chance) = (jiff::Timestamp::UNIX_EPOCH, [7; 10]);
/// let envelope = Draft::new(&OrderPaid { order_id: 7 }, "/shop").extension("tenant", "acme").seal(now, chance)?;
/// assert_eq!(&envelope.data[..], br#"{"order_id":7}"#);
/// # Ok::<(), postrider_core::Fault>(())
/// ```
#[derive(Debug)]
#[must_use = "a draft is nothing until it is sealed"]
pub struct Draft<'e, E> {
    event: &'e E,
    source: Text,
    names: Names,
    payload_bytes_max: usize,
    sequence: Option<i64>,
    trace: Option<Trace>,
    extensions: BTreeMap<Text, Text>,
}

impl<'e, E: Event + Serialize> Draft<'e, E> {
    /// Starts from an event and who says so (CloudEvents' `source`, a URI reference such as `/shop/orders`).
    pub fn new(event: &'e E, source: impl Into<Text>) -> Self {
        Self {
            event,
            source: source.into(),
            names: E::NAMES,
            payload_bytes_max: limits::PAYLOAD_BYTES,
            sequence: None,
            trace: None,
            extensions: BTreeMap::new(),
        }
    }

    /// Says which names the table takes: the convention binds when either side wants it.
    pub fn names(mut self, names: Names) -> Self {
        if names == Names::Convention {
            self.names = names;
        }
        self
    }

    /// Sets another bound on the payload than [`limits::PAYLOAD_BYTES`].
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Adds the writer's own number within the key, for consumers that verify it.
    pub fn sequence(mut self, sequence: i64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// Adds the trace context that the writer has (F7).
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Adds an extension attribute: lower-case letters and digits, as CloudEvents wants its names.
    pub fn extension(mut self, name: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.extensions.insert(name.into(), value.into());
        self
    }

    /// Makes the envelope. Time and chance are arguments: together they are the event's id, a UUID of version 7.
    ///
    /// # Errors
    /// When the event cannot be written as JSON, or would be refused by [`Envelope::validate`].
    pub fn seal(self, time: Timestamp, random: [u8; 10]) -> Result<Envelope, Fault> {
        let event_type = self.event.event_type();
        let data = serde_json::to_vec(self.event).map_err(|error| {
            Fault::new(
                format!("event \"{event_type}\""),
                "it cannot be written as JSON",
                "Give its maps text keys, and its serialize implementations no way to fail",
            )
            .caused_by(error)
        })?;
        let envelope = Envelope {
            id: Text::from(event_id(time, random)),
            source: self.source,
            event_type: Text::from_static(event_type),
            time,
            content_type: None,
            aggregate_type: Text::from_static(self.event.aggregate_type()),
            aggregate_id: text(self.event.aggregate_id()),
            partition_key: self.event.key().map(text),
            sequence: self.sequence,
            trace: self.trace,
            extensions: self.extensions,
            data: Bytes::from(data),
        };
        // What serde wrote is JSON: reading it again would only cost.
        envelope.validate_attributes(self.names)?;
        envelope.validate_size(self.payload_bytes_max)?;
        Ok(envelope)
    }
}

/// A UUID of version 7; a time before 1970 counts as its first moment.
fn event_id(time: Timestamp, random: [u8; 10]) -> String {
    let millis = u64::try_from(time.as_millisecond()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}

fn text(value: Cow<'_, str>) -> Text {
    Text::from(value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Posted {
        event_type: &'static str,
        transaction: String,
        account: u64,
    }

    impl Event for Posted {
        const NAMES: Names = Names::Free;

        fn event_type(&self) -> &'static str {
            self.event_type
        }

        fn aggregate_type(&self) -> &'static str {
            "TRANSACTION"
        }

        fn aggregate_id(&self) -> Cow<'_, str> {
            Cow::Borrowed(&self.transaction)
        }

        fn key(&self) -> Option<Cow<'_, str>> {
            Some(self.account.to_string().into())
        }
    }

    fn posted(event_type: &'static str) -> Posted {
        Posted { event_type, transaction: "t-1".to_owned(), account: 42 }
    }

    fn time() -> Timestamp {
        "2026-03-01T12:00:00.123456789Z".parse().unwrap()
    }

    /// B1: the envelope has every attribute, from the event or from its writer.
    #[test]
    fn an_event_becomes_an_envelope() {
        let trace = Trace {
            parent: Text::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            state: None,
        };
        let envelope = Draft::new(&posted("LEDGER_POSTED"), "/ledger")
            .sequence(9)
            .trace(trace.clone())
            .extension("tenant", "acme")
            .seal(time(), [0xab; 10])
            .unwrap();
        assert_eq!(envelope.event_type, "LEDGER_POSTED");
        assert_eq!(envelope.source, "/ledger");
        assert_eq!(envelope.time, time());
        assert!(envelope.is_json());
        assert_eq!((&*envelope.aggregate_type, &*envelope.aggregate_id), ("TRANSACTION", "t-1"));
        assert_eq!(envelope.partition_key.as_deref(), Some("42"));
        assert_eq!(envelope.sequence, Some(9));
        assert_eq!(envelope.trace, Some(trace));
        assert_eq!(envelope.extensions[&Text::from_static("tenant")], "acme");
        assert_eq!(&envelope.data[..], br#"{"event_type":"LEDGER_POSTED","transaction":"t-1","account":42}"#);
    }

    #[test]
    fn the_id_is_a_uuid_of_time_and_chance() {
        let id = |time, random| Draft::new(&posted("X"), "/x").seal(time, random).unwrap().id;
        let uuid = uuid::Uuid::parse_str(&id(time(), [1; 10])).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos), (1_772_366_400, 123_000_000));
        assert_eq!(id(time(), [1; 10]), id(time(), [1; 10]));
        assert_ne!(id(time(), [1; 10]), id(time(), [2; 10]));
        assert!(id(Timestamp::MIN, [1; 10]).starts_with("00000000-0000-7"));
    }

    /// B3: a table that uses the convention refuses a free event at the write.
    #[test]
    fn the_table_may_be_stricter_than_the_event() {
        let event = posted("LEDGER_POSTED");
        let draft = || Draft::new(&event, "/ledger");
        assert!(draft().names(Names::Free).seal(time(), [0; 10]).is_ok());
        let fault = draft().names(Names::Convention).seal(time(), [0; 10]).unwrap_err();
        assert!(fault.to_string().contains("company.domain.action.v1"), "{fault}");
    }

    /// F5: an event over the size limit is refused before anything is written.
    #[test]
    fn too_large_a_payload_is_refused() {
        let fault = Draft::new(&posted("X"), "/x").payload_bytes_max(10).seal(time(), [0; 10]).unwrap_err();
        assert!(fault.problem.contains("the limit is 10"), "{fault}");
        assert!(!fault.to_string().contains("t-1"), "{fault}");
    }

    /// F5: what serde cannot write is a fault with a remedy.
    #[test]
    fn what_is_no_json_is_refused() {
        #[derive(Serialize)]
        struct Odd(std::collections::BTreeMap<(u8, u8), u8>);

        impl Event for Odd {
            fn event_type(&self) -> &'static str {
                "loopers.odd.happened.v1"
            }

            fn aggregate_type(&self) -> &'static str {
                "Odd"
            }

            fn aggregate_id(&self) -> Cow<'_, str> {
                "1".into()
            }
        }

        let fault = Draft::new(&Odd([((1, 2), 3)].into()), "/x").seal(time(), [0; 10]).unwrap_err();
        assert!(fault.to_string().contains("loopers.odd.happened.v1"), "{fault}");
    }
}
