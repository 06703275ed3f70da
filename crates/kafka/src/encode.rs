//! Messages become records.

use std::borrow::Cow;

use postrider_core::Refusal;
use postrider_core::cloudevents::binary::Binding;
use postrider_core::sink::Message;
use rdkafka::message::{Header, OwnedHeaders};

use crate::config::KafkaConfig;
use crate::refusal;

/// A record's value and headers. Its key is [`key`], its time that of publishing.
pub(crate) struct Record<'a> {
    /// None is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: Option<OwnedHeaders>,
    /// What it takes of librdkafka's memory, near enough.
    pub bytes: usize,
    /// What it takes of a batch at least, uncompressed.
    pub least_bytes: usize,
}

/// The text that the record is partitioned by. A message that has no order still goes where its aggregate goes.
pub(crate) fn key<'a>(message: &Message<'a>) -> Option<&'a str> {
    let text = match (message.key, &message.envelope.partition_key) {
        (Some(key), _) => &*key.id,
        (None, Some(key)) => &**key,
        (None, None) => &*message.envelope.aggregate_id,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Encodes a message; `buffer` is for what has no place of its own yet.
pub(crate) fn record<'a>(
    message: &Message<'a>,
    config: &KafkaConfig,
    buffer: &'a mut Vec<u8>,
) -> Result<Record<'a>, Refusal> {
    const HEADERS: usize = 12;
    /// What librdkafka keeps for each message and each header beside their bytes.
    const MESSAGE_BYTES: usize = 256;
    const HEADER_BYTES: usize = 64;
    let (form, payload_bytes) = (&config.form, message.envelope.data.len());
    if payload_bytes > config.payload_bytes_max {
        return Err(refusal::too_large(payload_bytes, config.payload_bytes_max));
    }
    let value = form.body(message.envelope, buffer).map_err(|problem| refusal::not_encodable(&problem))?;
    let mut bytes = MESSAGE_BYTES + value.len();
    let mut least_bytes = value.len() + key(message).map_or(0, str::len);
    let mut headers = None;
    let written =
        form.headers(message.envelope, Binding::KAFKA).map_err(|problem| refusal::not_encodable(&problem))?;
    for (name, text) in written {
        bytes += HEADER_BYTES + name.len() + text.len();
        least_bytes += name.len() + text.len();
        let before = headers.take().unwrap_or_else(|| OwnedHeaders::new_with_capacity(HEADERS));
        headers = Some(before.insert(Header { key: &name, value: Some(Cow::as_ref(&text)) }));
    }
    let value = Some(value).filter(|value| !(value.is_empty() && config.tombstones));
    Ok(Record { value, headers, bytes, least_bytes })
}

#[cfg(test)]
mod tests {
    use postrider_conformance::sink::envelope;
    use postrider_core::{Envelope, Key, Layout};

    use super::*;

    fn key_of(envelope: &Envelope, key: Option<&Key>) -> Option<String> {
        super::key(&Message { envelope, topic: "t", key, leads: true }).map(str::to_owned)
    }

    /// B5: the record's key is the key's id; without order, what the event itself would be partitioned by.
    #[test]
    fn a_record_is_keyed_by_its_key_or_else_by_its_aggregate() {
        let plain = envelope("1", "order-7");
        let own = Envelope { partition_key: Some("customer-3".into()), ..plain.clone() };
        let none = Envelope { aggregate_id: "".into(), ..plain.clone() };
        let key = Key::new("Order", "k");
        assert_eq!(key_of(&plain, Some(&key)).as_deref(), Some("k"));
        assert_eq!(key_of(&own, None).as_deref(), Some("customer-3"));
        assert_eq!(key_of(&plain, None).as_deref(), Some("order-7"));
        assert_eq!(key_of(&none, None), None);
    }

    /// SNK-08: a byte over the limit.
    #[test]
    fn a_payload_over_the_limit_is_rejected() {
        let envelope = envelope("1", "a");
        let message = Message { envelope: &envelope, topic: "t", key: None, leads: true };
        let bytes = envelope.data.len();
        let limited = |payload_bytes_max| KafkaConfig { payload_bytes_max, ..KafkaConfig::new("a:1") };
        assert!(record(&message, &limited(bytes), &mut Vec::new()).is_ok());
        let refused = record(&message, &limited(bytes - 1), &mut Vec::new()).err();
        assert!(matches!(refused, Some(Refusal::Rejected(_))));
    }

    /// F1: NULL is a tombstone where the layout says that data are optional; elsewhere no data are an empty value.
    #[test]
    fn an_event_without_data_is_a_tombstone_where_data_are_optional() {
        let empty = Envelope { data: bytes::Bytes::new(), ..envelope("1", "a") };
        let message = Message { envelope: &empty, topic: "t", key: None, leads: true };
        for (layout, expected) in [("debezium", None), ("commerce", Some(&b""[..]))] {
            let layout = Layout::built_in(layout).unwrap();
            let config = KafkaConfig::new("a:1").with_layout(&layout);
            assert_eq!(record(&message, &config, &mut Vec::new()).ok().unwrap().value, expected);
        }
    }
}
