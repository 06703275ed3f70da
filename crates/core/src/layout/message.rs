//! How a message is made of an entry: its body and its headers.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::cloudevents::binary::{self, Binding};
use crate::cloudevents::{Malformed, id_member, structured};
use crate::{Envelope, Text};

/// What a message looks like to its consumers.
///
/// In a layout file: `message = "binary"`, or `message = { form = "binary", id_as = "messageId" }`.
///
/// ```
/// use postrider_core::cloudevents::{binary::Binding, structured};
/// use postrider_core::layout::Layout;
/// let line = br#"{"specversion":"1.0","id":"7","source":"/s","type":"Shipped","data":{"n": 1}}"#;
/// let envelope = structured::decode(&line.to_vec().into())?;
/// let form = Layout::built_in("logistics").unwrap().message;
/// let mut buffer = Vec::new();
/// assert_eq!(form.body(&envelope, &mut buffer)?, br#"{"messageId":"7","n": 1}"#);
/// assert!(form.headers(&envelope, Binding::KAFKA)?.any(|header| header == ("messageId".into(), "7".into())));
/// # Ok::<(), postrider_core::cloudevents::Malformed>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageForm {
    /// What is the body, and what are the headers.
    pub shape: Shape,
    /// The event's id under this name too, as the first member of the body's JSON object and as a header (C1, D3).
    pub id_as: Option<Text>,
}

/// What is the body, and what are the headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One CloudEvents JSON object holds everything.
    #[default]
    Structured,
    /// The payload is the body, the attributes are headers.
    Binary,
    /// The payload alone: of the attributes only the extensions are headers, under their own names.
    Payload,
}

impl MessageForm {
    /// The body: the payload itself where nothing is added to it, else what was put into `buffer`, which is emptied first. An
    /// event without data has an empty one.
    ///
    /// # Errors
    /// When it cannot be made of this event; the payload is not quoted.
    pub fn body<'a>(&self, envelope: &'a Envelope, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Malformed> {
        buffer.clear();
        match (self.shape, &self.id_as) {
            (Shape::Structured, _) => {
                structured::encode(envelope, buffer)?;
                Ok(buffer)
            }
            (Shape::Binary | Shape::Payload, None) => Ok(&envelope.data),
            (Shape::Binary | Shape::Payload, Some(name)) => {
                let added = id_member::add(name, envelope, buffer)?;
                Ok(if added { buffer } else { &envelope.data })
            }
        }
    }

    /// The headers, always in the same order.
    ///
    /// # Errors
    /// When an extension's name is malformed.
    pub fn headers<'a>(
        &'a self,
        envelope: &'a Envelope,
        binding: Binding,
    ) -> Result<impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>, Malformed> {
        let attributes = match self.shape {
            Shape::Binary => Some(binary::headers(envelope, binding)?),
            Shape::Structured | Shape::Payload => None,
        };
        let structured = (self.shape == Shape::Structured)
            .then_some((Cow::Borrowed(binary::CONTENT_TYPE), Cow::Borrowed(structured::CONTENT_TYPE)));
        let bare = (self.shape == Shape::Payload).then(|| envelope.extensions.iter());
        let bare = bare.into_iter().flatten().map(move |(name, value)| (&**name, value));
        let id = self.id_as.iter().map(|name| (&**name, &envelope.id));
        let named = bare.chain(id).map(move |(name, value)| (Cow::Borrowed(name), binding.spell(value)));
        let attributes = attributes.into_iter().flatten();
        Ok(attributes.chain(structured).chain(named))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    form: Shape,
    id_as: Option<Name>,
}

/// A name that is a header's and a JSON member's.
struct Name(Text);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const BYTES_MAX: usize = 64;
        let name = String::deserialize(deserializer)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > BYTES_MAX || !name.bytes().all(plain) {
            return Err(D::Error::custom(format!(
                "id_as is a name of 1 to {BYTES_MAX} letters, digits, \"_\", \"-\" and \".\", like \"messageId\""
            )));
        }
        if lower == binary::CONTENT_TYPE || lower.starts_with("ce_") || lower.starts_with("ce-") {
            return Err(D::Error::custom(format!(
                "id_as = \"{name}\" is the name of a header that CloudEvents has already: choose another, like \"messageId\""
            )));
        }
        Ok(Self(Text::from(name)))
    }
}

impl<'de> Deserialize<'de> for MessageForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = MessageForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"structured\", \"binary\", \"payload\", or { form = \"binary\", id_as = \"messageId\" }",
        )
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<MessageForm, E> {
        let shape = Shape::deserialize(StrDeserializer::new(word))?;
        Ok(MessageForm { shape, id_as: None })
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<MessageForm, M::Error> {
        let Spelled { form, id_as } = Spelled::deserialize(MapAccessDeserializer::new(map))?;
        Ok(MessageForm { shape: form, id_as: id_as.map(|Name(name)| name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudevents::examples::order_created;

    fn form(shape: Shape, id_as: Option<&'static str>) -> MessageForm {
        MessageForm { shape, id_as: id_as.map(Text::from_static) }
    }

    fn sent(form: &MessageForm, envelope: &Envelope) -> (Vec<String>, String) {
        let headers = form.headers(envelope, Binding::KAFKA).unwrap();
        let headers = headers.map(|(name, value)| format!("{name}: {value}")).collect();
        let mut buffer = b"what was there before".to_vec();
        let body = form.body(envelope, &mut buffer).unwrap();
        (headers, String::from_utf8(body.to_vec()).unwrap())
    }

    fn order() -> Envelope {
        Envelope { data: "{\"total\": 12}".into(), ..order_created() }
    }

    /// B1: structured is one object with everything, and says so.
    #[test]
    fn structured_is_one_object() {
        let (headers, body) = sent(&form(Shape::Structured, None), &order());
        assert_eq!(headers, ["content-type: application/cloudevents+json"]);
        assert!(
            body.starts_with("{\"specversion\":\"1.0\",") && body.ends_with(",\"data\":{\"total\": 12}}"),
            "{body}"
        );
    }

    /// B1: binary has the payload as it is, without a copy, and every attribute as a header.
    #[test]
    fn binary_borrows_the_payload() {
        let (order, mut buffer) = (order(), Vec::new());
        let form = form(Shape::Binary, None);
        assert_eq!(form.body(&order, &mut buffer).unwrap().as_ptr(), order.data.as_ptr());
        let headers = sent(&form, &order).0;
        assert_eq!((headers.len(), &*headers[0]), (13, "content-type: application/json"));
    }

    /// D3, C1: the id under the team's own name, in the body and as a header.
    #[test]
    fn the_id_under_a_name_of_its_own() {
        let (headers, body) = sent(&form(Shape::Binary, Some("messageId")), &order());
        assert_eq!(headers.last().unwrap(), "messageId: 01961c5e-0000-7000-8000-000000000001");
        assert_eq!(body, "{\"messageId\":\"01961c5e-0000-7000-8000-000000000001\",\"total\": 12}");
    }

    #[test]
    fn a_bare_payload_has_only_the_extensions_and_the_id_beside_it() {
        assert_eq!(
            sent(&form(Shape::Payload, None), &order()),
            (vec!["tenant: acme".into()], "{\"total\": 12}".into())
        );
        let (headers, body) = sent(&form(Shape::Payload, Some("id")), &order());
        assert_eq!(headers, ["tenant: acme", "id: 01961c5e-0000-7000-8000-000000000001"]);
        assert!(body.starts_with("{\"id\":\"01961c5e-"), "{body}");
    }

    fn read(message: &str) -> Result<MessageForm, String> {
        #[derive(Debug, Deserialize)]
        struct File {
            message: MessageForm,
        }
        let file: Result<File, _> = toml::from_str(&format!("message = {message}"));
        file.map(|file| file.message).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn it_is_a_word_or_a_table() {
        assert_eq!(read("\"binary\""), Ok(form(Shape::Binary, None)));
        assert_eq!(read("\"payload\""), Ok(form(Shape::Payload, None)));
        assert_eq!(
            read("{ form = \"binary\", id_as = \"messageId\" }"),
            Ok(form(Shape::Binary, Some("messageId")))
        );
        for (bad, expected) in [
            ("\"binery\"", "unknown variant `binery`"),
            ("{ form = \"binary\", id = \"x\" }", "unknown field `id`"),
            ("{ id_as = \"x\" }", "missing field `form`"),
            ("{ form = \"binary\", id_as = \"\" }", "id_as is a name of 1 to 64"),
            ("{ form = \"binary\", id_as = \"a\\\"b\" }", "id_as is a name of 1 to 64"),
            ("{ form = \"binary\", id_as = \"CE_id\" }", "CloudEvents has already"),
            ("{ form = \"binary\", id_as = \"Content-Type\" }", "CloudEvents has already"),
            ("3", "{ form = \"binary\""),
        ] {
            let problem = read(bad).unwrap_err();
            assert!(problem.contains(expected), "{bad}: {problem}");
        }
    }
}
