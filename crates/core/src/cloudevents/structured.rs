//! CloudEvents' JSON format: one event, one object, one line.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::attributes::{Attributes, SPEC_VERSION};
use super::{Malformed, check_extension, json};
use crate::{Envelope, Text};

/// The content type of what [`encode`] writes.
pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// Appends the envelope as one line of JSON, without the line's end. JSON data passes through as it is, other data as
/// base64.
///
/// # Errors
/// When the data is not the JSON that its content type says, or an extension's name is malformed; `out` is then as before.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Malformed> {
    const NAMES_BYTES: usize = 256;
    for name in envelope.extensions.keys() {
        check_extension(name)?;
    }
    let data = Data::of(envelope)?;
    out.reserve(NAMES_BYTES + envelope.bytes());
    out.extend_from_slice(br#"{"specversion":""#);
    out.extend_from_slice(SPEC_VERSION.as_bytes());
    out.push(b'"');
    put(out, "id", &envelope.id);
    put(out, "source", &envelope.source);
    put(out, "type", &envelope.event_type);
    if let Some(time) = envelope.known_time() {
        put_time(out, time);
    }
    put_some(out, "datacontenttype", envelope.content_type.as_ref());
    put_some(out, "aggregatetype", Some(&envelope.aggregate_type).filter(|text| !text.is_empty()));
    put_some(out, "aggregateid", Some(&envelope.aggregate_id).filter(|text| !text.is_empty()));
    put_some(out, "partitionkey", envelope.partition_key.as_ref());
    if let Some(sequence) = envelope.sequence {
        put_name(out, "sequence");
        write(out, format_args!("\"{sequence}\""));
    }
    if let Some(trace) = &envelope.trace {
        put(out, "traceparent", &trace.parent);
        put_some(out, "tracestate", trace.state.as_ref());
    }
    for (name, value) in &envelope.extensions {
        put(out, name, value);
    }
    data.put(out);
    out.push(b'}');
    Ok(())
}

/// Reads one object, strictly: each member once, nothing behind it. The data is shared with `line`, not copied.
///
/// # Errors
/// When it is no CloudEvent 1.0.
pub fn decode(line: &Bytes) -> Result<Envelope, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed("it is not UTF-8".to_owned()))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader
        .deserialize_map(Members)
        .and_then(|members| reader.end().map(|()| members))
        .map_err(|error| Malformed(format!("it is no JSON object: {}", json::place(&error))))?;
    let (mut attributes, mut data, mut data_base64) = (Attributes::default(), None, None);
    for (name, value) in members {
        let before = match &*name {
            "data" => data.replace(value),
            "data_base64" => data_base64.replace(value),
            _ => {
                if let Some(value) = scalar(&name, value)? {
                    attributes.set(&name, value)?;
                }
                None
            }
        };
        if before.is_some() {
            return Err(Malformed(format!("member {name:?} is there twice")));
        }
    }
    attributes.finish(|envelope| match (data, data_base64) {
        (None, None) => Ok(Bytes::new()),
        (Some(_), Some(_)) => Err(Malformed("it has both data and data_base64".to_owned())),
        (None, Some(raw)) => from_base64(raw),
        (Some(raw), None) => from_json(raw, envelope, line),
    })
}

enum Data<'a> {
    None,
    Json(&'a [u8]),
    Other(&'a [u8]),
}

impl<'a> Data<'a> {
    fn of(envelope: &'a Envelope) -> Result<Self, Malformed> {
        let data = &envelope.data[..];
        if data.is_empty() {
            return Ok(Self::None);
        }
        if !envelope.is_json() {
            return Ok(Self::Other(data));
        }
        json::check(data).map_err(|problem| Malformed(format!("its data is not JSON: {problem}")))?;
        Ok(Self::Json(data))
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Json(data) => {
                put_name(out, "data");
                json::append_on_one_line(data, out);
            }
            Self::Other(data) => {
                put_name(out, "data_base64");
                out.push(b'"');
                put_base64(out, data);
                out.push(b'"');
            }
        }
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    put_name(out, name);
    serde_json::to_writer(out, value).expect("text in memory is always written");
}

fn put_some(out: &mut Vec<u8>, name: &str, value: Option<&Text>) {
    if let Some(value) = value {
        put(out, name, value);
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    put_name(out, "time");
    out.push(b'"');
    DateTimePrinter::new().print_timestamp(&time, &mut *out).expect("text in memory is always written");
    out.push(b'"');
}

fn put_base64(out: &mut Vec<u8>, data: &[u8]) {
    let start = out.len();
    let len = base64::encoded_len(data.len(), true).expect("a payload is far below half the address space");
    out.resize(start + len, 0);
    STANDARD.encode_slice(data, &mut out[start..]).expect("the room was just made");
}

fn write(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    std::io::Write::write_fmt(out, text).expect("text in memory is always written");
}

/// The members of an object, each value as the text it has.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        Ok(members)
    }
}

#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// An attribute's value as text; null means that it is not there.
fn scalar(name: &str, raw: &RawValue) -> Result<Option<Text>, Malformed> {
    match raw.get().as_bytes().first() {
        Some(b'"') => string(raw).map(|text| Some(Text::from(text.into_owned()))),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') => {
            Err(Malformed(format!("attribute {name:?} is neither text, number nor truth value")))
        }
        _ => Ok(Some(Text::from(raw.get()))),
    }
}

fn string(raw: &RawValue) -> Result<Cow<'_, str>, Malformed> {
    serde_json::from_str::<Name<'_>>(raw.get())
        .map(|Name(text)| text)
        .map_err(|_| Malformed("a text has half of a surrogate pair".to_owned()))
}

fn from_base64(raw: &RawValue) -> Result<Bytes, Malformed> {
    let wrong = || Malformed("its data_base64 is not base64".to_owned());
    if !raw.get().starts_with('"') {
        return Err(wrong());
    }
    STANDARD.decode(&*string(raw)?).map(Bytes::from).map_err(|_| wrong())
}

/// JSON data is kept as it stands; of other data, a text stands for its own bytes.
fn from_json(raw: &RawValue, envelope: &Envelope, line: &Bytes) -> Result<Bytes, Malformed> {
    if envelope.is_json() || !raw.get().starts_with('"') {
        return Ok(line.slice_ref(raw.get().as_bytes()));
    }
    string(raw).map(|text| Bytes::from(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{envelopes, order_created, times};
    use super::*;

    fn line(envelope: &Envelope) -> Bytes {
        let mut out = Vec::new();
        encode(envelope, &mut out).unwrap();
        Bytes::from(out)
    }

    fn decoded(text: &str) -> Result<Envelope, Malformed> {
        decode(&Bytes::copy_from_slice(text.as_bytes()))
    }

    /// B1: what is on the wire.
    #[test]
    fn an_order_on_the_wire() {
        let expected = concat!(
            r#"{"specversion":"1.0","id":"01961c5e-0000-7000-8000-000000000001","source":"/shop","#,
            r#""type":"loopers.order.created.v1","time":"2026-03-01T12:00:00.000000001Z","aggregatetype":"Order","#,
            r#""aggregateid":"order-7","partitionkey":"customer-3","sequence":"12","#,
            r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","#,
            r#""tenant":"acme","data":{"total":12}}"#
        );
        assert_eq!(std::str::from_utf8(&line(&order_created())).unwrap(), expected);
    }

    #[test]
    fn json_over_several_lines_becomes_one_line() {
        let data = "{\r\n  \"text\": \"a\\nb\",\n  \"list\": [1,\n2]\n}\n";
        let line = line(&Envelope { data: data.into(), ..order_created() });
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(value(&decode(&line).unwrap().data), value(data.as_bytes()));
    }

    /// SNK-08: what cannot be encoded leaves its neighbours' bytes alone.
    #[test]
    fn data_that_is_not_the_json_it_says_is_refused() {
        for bad in [&b"{"[..], b"{} x", b"\"\xff\"", b"\"a\nb\"", b"\"}\n{\""] {
            let mut out = b"before".to_vec();
            let envelope = Envelope { data: Bytes::copy_from_slice(bad), ..order_created() };
            assert!(encode(&envelope, &mut out).is_err());
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn an_extension_cannot_pose_as_another_attribute() {
        for name in ["id", "data", "a\":1,\"b", ""] {
            let mut envelope = order_created();
            envelope.extensions.insert(name.into(), "x".into());
            assert!(encode(&envelope, &mut Vec::new()).is_err(), "{name}");
        }
    }

    #[test]
    fn foreign_events_are_read() {
        let head =
            r#"{"specversion":"1.0","id":"1","source":"/x","type":"t","time":"2026-03-01T13:00:00+01:00""#;
        let event = decoded(&format!(
            r#"{head},"subject":"s","count":5,"flag":true,"none":null,"datacontenttype":"text/plain","data":"hé\n"}}"#
        ))
        .unwrap();
        assert_eq!(event.time.to_string(), "2026-03-01T12:00:00Z");
        assert_eq!(&event.data[..], "hé\n".as_bytes());
        let extensions: Vec<_> = event.extensions.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(extensions, [("count", "5"), ("flag", "true"), ("subject", "s")]);
        assert_eq!(&decoded(&format!(r#"{head},"data":null}}"#)).unwrap().data[..], b"null");
    }

    #[test]
    fn what_is_no_event_is_refused_and_not_quoted() {
        let head = r#"{"specversion":"1.0","id":"1","source":"/x","type":"t""#;
        let time = r#""time":"2026-03-01T12:00:00Z""#;
        for bad in [
            "\"secret\"".to_owned(),
            format!("{head},\"time\":\"secret\"}}"),
            format!("{head},{time},{time}}}"),
            format!("{head},{time},\"id\":\"secret\"}}"),
            format!("{head},{time}}} secret"),
            format!("{head},{time},\"data\":1,\"data_base64\":\"\"}}"),
            format!("{head},{time},\"data_base64\":\"secret!\"}}"),
            format!("{head},{time},\"sequence\":\"secret\"}}"),
            format!("{head},{time},\"tenant\":[\"secret\"]}}"),
            format!("{head},{time},\"tenant\":\"\\ud800 secret\"}}"),
            format!("{head},{time}}}").replace("1.0", "0.3"),
        ] {
            let refusal = decoded(&bad).unwrap_err().to_string();
            assert!(!refusal.contains("secret"), "{bad}: {refusal}");
        }
        assert_eq!(decoded(&format!("{head}}}")).unwrap().known_time(), None, "a time is optional");
    }

    proptest! {
        /// B1: whatever is written is read back, to the nanosecond and the byte, from one line.
        #[test]
        fn envelopes_round_trip(envelope in envelopes()) {
            let line = line(&envelope);
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
            let back = decode(&line).unwrap();
            prop_assert_eq!(&back.data, &envelope.data);
            prop_assert_eq!(back, envelope);
        }

        /// What a foreign writer wrote is the same event after we have written it.
        #[test]
        fn lines_round_trip(envelope in envelopes(), spaces in "[ \n\t]{0,3}") {
            let value: serde_json::Value = serde_json::from_slice(&line(&envelope)).unwrap();
            let foreign = format!("{spaces}{}{spaces}", serde_json::to_string_pretty(&value).unwrap());
            let once = decoded(&foreign).unwrap();
            let twice = decode(&line(&once)).unwrap();
            prop_assert_eq!(line(&once), line(&twice));
        }

        #[test]
        fn times_round_trip(time in times()) {
            let envelope = Envelope { time, ..order_created() };
            prop_assert_eq!(decode(&line(&envelope)).unwrap().time, time);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&Bytes::from(bytes));
        }

        /// Nearly right is the harder case: a line with some bytes changed.
        #[test]
        fn broken_lines_are_decoded_or_refused(
            envelope in envelopes(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = line(&envelope).to_vec();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(event) = decode(&Bytes::from(bytes)) {
                let _ = encode(&event, &mut Vec::new());
            }
        }
    }
}
