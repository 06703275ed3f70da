//! Events as the installed procedure takes them: one JSON document, the same that other languages write.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_core::Envelope;
use serde::Serialize;

#[derive(Serialize)]
struct Event<'a> {
    id: &'a str,
    r#type: &'a str,
    source: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: BTreeMap<&'a str, &'a str>,
    /// As a text, so that it is kept as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

/// What the procedure is called with.
pub(crate) fn document(envelopes: &[Envelope], key: Option<&str>) -> String {
    let events: Vec<Event<'_>> = envelopes.iter().map(|envelope| event(envelope, key)).collect();
    serde_json::to_string(&events).unwrap_or_default()
}

fn event<'a>(envelope: &'a Envelope, key: Option<&'a str>) -> Event<'a> {
    let data = (!envelope.data.is_empty()).then_some(&envelope.data[..]);
    let text = data.filter(|_| envelope.is_json()).and_then(|data| std::str::from_utf8(data).ok());
    Event {
        id: &envelope.id,
        r#type: &envelope.event_type,
        source: &envelope.source,
        aggregate_type: &envelope.aggregate_type,
        aggregate_id: &envelope.aggregate_id,
        key: envelope.partition_key.as_deref(),
        time: envelope.known_time().map(|time| format!("{time:.6}")),
        content_type: envelope.content_type.as_deref(),
        trace: envelope.trace.as_ref().map(|trace| &*trace.parent),
        trace_state: envelope.trace.as_ref().and_then(|trace| trace.state.as_deref()),
        sequence: envelope.sequence,
        extensions: envelope.extensions.iter().map(|(name, value)| (&**name, &**value)).collect(),
        payload: text,
        payload_base64: data.filter(|_| text.is_none()).map(|data| STANDARD.encode(data)),
        idempotency_key: key,
    }
}
