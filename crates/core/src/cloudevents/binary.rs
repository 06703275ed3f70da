//! CloudEvents' binary mode: attributes as headers, the data as the body.

use std::borrow::Cow;

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

use super::attributes::{Attributes, SPEC_VERSION};
use super::{Malformed, check_extension};
use crate::{Envelope, Text};

/// The header that says what the body is.
pub const CONTENT_TYPE: &str = "content-type";

macro_rules! names {
    ($prefix:literal) => {
        Names {
            prefix: $prefix,
            specversion: concat!($prefix, "specversion"),
            id: concat!($prefix, "id"),
            source: concat!($prefix, "source"),
            event_type: concat!($prefix, "type"),
            time: concat!($prefix, "time"),
            aggregatetype: concat!($prefix, "aggregatetype"),
            aggregateid: concat!($prefix, "aggregateid"),
            partitionkey: concat!($prefix, "partitionkey"),
            sequence: concat!($prefix, "sequence"),
            traceparent: concat!($prefix, "traceparent"),
            tracestate: concat!($prefix, "tracestate"),
        }
    };
}

/// How a protocol spells attributes as headers.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    names: &'static Names,
    /// Whether values are percent-encoded, because the protocol's headers take ASCII only.
    percent: bool,
}

impl Binding {
    /// Kafka: `ce_id`, values as UTF-8.
    pub const KAFKA: Self = Self { names: &names!("ce_"), percent: false };
    /// HTTP and NATS: `ce-id`, values percent-encoded.
    pub const HTTP: Self = Self { names: &names!("ce-"), percent: true };
}

/// The headers of an envelope, always in the same order. The body is [`Envelope::data`] as it is.
///
/// ```
/// use postrider_core::cloudevents::{binary, structured};
/// let line = br#"{"specversion":"1.0","id":"1","source":"/shop","type":"t","time":"2026-03-01T12:00:00Z"}"#;
/// let envelope = structured::decode(&line.to_vec().into())?;
/// let headers: Vec<_> = binary::headers(&envelope, binary::Binding::KAFKA)?.collect();
/// assert!(headers.contains(&("ce_source".into(), "/shop".into())));
/// # Ok::<(), postrider_core::cloudevents::Malformed>(())
/// ```
///
/// # Errors
/// When an extension's name is malformed.
pub fn headers(
    envelope: &Envelope,
    binding: Binding,
) -> Result<impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)>, Malformed> {
    for name in envelope.extensions.keys() {
        check_extension(name)?;
    }
    let names = binding.names;
    let plain = [
        (Cow::Borrowed(CONTENT_TYPE), Cow::Borrowed(envelope.content_type())),
        (Cow::Borrowed(names.specversion), Cow::Borrowed(SPEC_VERSION)),
    ];
    let time = envelope.known_time().map(|time| (Cow::Borrowed(names.time), Cow::Owned(time.to_string())));
    let sequence = envelope.sequence.map(|n| (Cow::Borrowed(names.sequence), Cow::Owned(n.to_string())));
    let trace = envelope.trace.as_ref();
    let texts = [
        (names.id, Some(&envelope.id)),
        (names.source, Some(&envelope.source)),
        (names.event_type, Some(&envelope.event_type)),
        (names.aggregatetype, Some(&envelope.aggregate_type).filter(|text| !text.is_empty())),
        (names.aggregateid, Some(&envelope.aggregate_id).filter(|text| !text.is_empty())),
        (names.partitionkey, envelope.partition_key.as_ref()),
        (names.traceparent, trace.map(|trace| &trace.parent)),
        (names.tracestate, trace.and_then(|trace| trace.state.as_ref())),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((Cow::Borrowed(name), text?)));
    let extensions =
        envelope.extensions.iter().map(|(name, value)| (Cow::Owned([names.prefix, name].concat()), value));
    let texts = texts.chain(extensions).map(move |(name, value)| (name, binding.spell(value)));
    Ok(plain.into_iter().chain(time).chain(sequence).chain(texts))
}

/// Reads headers and a body back. Headers that are no attributes are passed over.
///
/// # Errors
/// When they are no CloudEvent 1.0.
pub fn decode<'h>(
    binding: Binding,
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    body: Bytes,
) -> Result<Envelope, Malformed> {
    let mut attributes = Attributes::default();
    for (header, value) in headers {
        if header.eq_ignore_ascii_case(CONTENT_TYPE) {
            attributes.set("datacontenttype", utf8(header, Cow::Borrowed(value))?)?;
        } else if let Some(name) = binding.attribute(header) {
            attributes.set(&name, binding.read(header, value)?)?;
        }
    }
    attributes.finish(|_| Ok(body))
}

impl Binding {
    /// A value as the protocol's headers have it.
    pub(crate) fn spell(self, value: &Text) -> Cow<'_, str> {
        const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');
        if self.percent { utf8_percent_encode(value, ESCAPED).into() } else { Cow::Borrowed(value) }
    }

    fn read(self, header: &str, value: &[u8]) -> Result<Text, Malformed> {
        utf8(header, if self.percent { percent_decode(value).into() } else { Cow::Borrowed(value) })
    }

    /// The attribute that a header stands for; letters' case means nothing in HTTP's names.
    fn attribute(self, header: &str) -> Option<String> {
        let (prefix, name) = header.split_at_checked(self.names.prefix.len())?;
        prefix.eq_ignore_ascii_case(self.names.prefix).then(|| name.to_ascii_lowercase())
    }
}

fn utf8(header: &str, value: Cow<'_, [u8]>) -> Result<Text, Malformed> {
    Text::try_from(value.into_owned()).map_err(|_| Malformed(format!("header {header:?} is not UTF-8")))
}

/// Whole header names, so that none is put together per message.
#[derive(Debug)]
struct Names {
    prefix: &'static str,
    specversion: &'static str,
    id: &'static str,
    source: &'static str,
    event_type: &'static str,
    time: &'static str,
    aggregatetype: &'static str,
    aggregateid: &'static str,
    partitionkey: &'static str,
    sequence: &'static str,
    traceparent: &'static str,
    tracestate: &'static str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{envelopes, order_created};
    use super::*;

    fn written(envelope: &Envelope, binding: Binding) -> Vec<(String, String)> {
        let headers = headers(envelope, binding).unwrap();
        headers.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    fn read(binding: Binding, headers: &[(String, String)], body: &Bytes) -> Result<Envelope, Malformed> {
        decode(binding, headers.iter().map(|(name, value)| (&**name, value.as_bytes())), body.clone())
    }

    /// B1: what is on the wire.
    #[test]
    fn an_order_on_the_wire() {
        let headers = written(&order_created(), Binding::KAFKA);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_time", "2026-03-01T12:00:00.000000001Z"),
            ("ce_sequence", "12"),
            ("ce_id", "01961c5e-0000-7000-8000-000000000001"),
            ("ce_source", "/shop"),
            ("ce_type", "loopers.order.created.v1"),
            ("ce_aggregatetype", "Order"),
            ("ce_aggregateid", "order-7"),
            ("ce_partitionkey", "customer-3"),
            ("ce_traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("ce_tracestate", "a=1"),
            ("ce_tenant", "acme"),
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn http_headers_are_ascii_and_their_names_have_no_case() {
        let envelope = Envelope { aggregate_id: "50% \"größe\"\n".into(), ..order_created() };
        let mut headers = written(&envelope, Binding::HTTP);
        assert!(headers.contains(&("ce-aggregateid".into(), "50%25%20%22gr%C3%B6%C3%9Fe%22%0A".into())));
        for (name, _) in &mut headers {
            *name = name.to_ascii_uppercase();
        }
        headers.push(("X-Request-Id".into(), "1".into()));
        let back = read(Binding::HTTP, &headers, &envelope.data).unwrap();
        assert_eq!(back.aggregate_id, envelope.aggregate_id);
    }

    #[test]
    fn what_is_no_event_is_refused_and_not_quoted() {
        let good = written(&order_created(), Binding::KAFKA);
        let body = order_created().data;
        assert!(read(Binding::KAFKA, &good, &body).is_ok());
        assert!(read(Binding::HTTP, &good, &body).is_err());
        for (name, value) in
            [("ce_id", "secret"), ("CE_ID", "secret"), ("ce_tenant_id", "secret"), ("ce_data", "secret")]
        {
            let headers = [good.clone(), vec![(name.into(), value.into())]].concat();
            let refusal = read(Binding::KAFKA, &headers, &body).unwrap_err().to_string();
            assert!(!refusal.contains("secret"), "{refusal}");
        }
        let odd = Envelope { extensions: [("id".into(), "2".into())].into(), ..order_created() };
        assert!(headers(&odd, Binding::KAFKA).is_err());
    }

    proptest! {
        /// B1: whatever is written is read back, with its content type spelled out.
        #[test]
        fn envelopes_round_trip(envelope in envelopes(), http in any::<bool>()) {
            let binding = if http { Binding::HTTP } else { Binding::KAFKA };
            let headers = written(&envelope, binding);
            if http {
                prop_assert!(headers[1..].iter().all(|(_, value)| value.bytes().all(|byte| byte.is_ascii_graphic())));
            }
            let back = read(binding, &headers, &envelope.data).unwrap();
            prop_assert_eq!(&written(&back, binding), &headers);
            let spelled = Envelope { content_type: Some(envelope.content_type().into()), ..envelope };
            prop_assert_eq!(back, spelled);
        }

        #[test]
        fn any_headers_are_decoded_or_refused(
            headers in prop::collection::vec(("(ce[_-])?[a-zé]{0,8}", prop::collection::vec(any::<u8>(), 0..20)), 0..20),
            http in any::<bool>(),
        ) {
            let binding = if http { Binding::HTTP } else { Binding::KAFKA };
            let _ = decode(binding, headers.iter().map(|(name, value)| (&**name, &**value)), Bytes::new());
        }
    }
}
