//! The event's id as the first member of its payload, which is a JSON object: added to the bytes, never by parsing them into
//! values, so that everything else stays as the writer wrote it, each time the same (F8).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Malformed, json};
use crate::Envelope;

/// Appends the payload with the id under this name to `out`; nothing is appended, and the answer is no, where it has that
/// member with that value already.
///
/// # Errors
/// When the payload is no JSON object, or has another value under that name.
pub(crate) fn add(name: &str, envelope: &Envelope, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    let data = &envelope.data[..];
    let refused = |problem: String| {
        Malformed(format!(
            "its payload {problem}, and the layout puts the event's id into it as \"{name}\" (message.id_as): \
             correct the payload, or leave id_as out"
        ))
    };
    if !envelope.is_json() {
        return Err(refused(format!("is {}, no JSON object", envelope.content_type())));
    }
    let text = std::str::from_utf8(data).map_err(|_| refused("is not UTF-8".to_owned()))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = reader
        .deserialize_map(Members { name, id: &envelope.id })
        .and_then(|found| reader.end().map(|()| found))
        .map_err(|error| refused(no_object(text, &error)))?;
    if found.other {
        return Err(refused(format!("has another value under \"{name}\" already")));
    }
    if found.same {
        return Ok(false);
    }
    let inside = text.find('{').map_or(text.len(), |brace| brace + 1);
    out.reserve(data.len() + name.len() + envelope.id.len() + 8);
    out.extend_from_slice(&data[..inside]);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    serde_json::to_writer(&mut *out, &*envelope.id).expect("text in memory is always written");
    if !found.is_empty {
        out.push(b',');
    }
    out.extend_from_slice(&data[inside..]);
    Ok(true)
}

/// Why it is none: of another kind, or broken.
fn no_object(text: &str, error: &serde_json::Error) -> String {
    let kind = match text.trim_start().bytes().next() {
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b'-' | b'0'..=b'9') => "a number",
        Some(b't' | b'f' | b'n') => "a single value",
        None => "empty",
        _ => return format!("is no JSON object ({})", json::place(error)),
    };
    format!("is {kind}, no JSON object")
}

struct Found {
    is_empty: bool,
    same: bool,
    other: bool,
}

struct Members<'n> {
    name: &'n str,
    id: &'n str,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = Found { is_empty: true, same: false, other: false };
        while let Some(is_it) = map.next_key_seed(Is(self.name))? {
            found.is_empty = false;
            if is_it {
                let raw: &RawValue = map.next_value()?;
                let same = serde_json::Deserializer::from_str(raw.get());
                let same = raw.get() == self.id || Is(self.id).deserialize(&mut { same }).unwrap_or(false);
                found.same |= same;
                found.other |= !same;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a JSON text is this one; nothing is copied for it.
struct Is<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::order_created;
    use super::*;

    fn with_id(id: &str, data: &str) -> Result<String, String> {
        let envelope = Envelope { id: id.into(), data: data.to_owned().into(), ..order_created() };
        let mut out = Vec::new();
        match add("messageId", &envelope, &mut out) {
            Ok(true) => Ok(String::from_utf8(out).unwrap()),
            Ok(false) => Ok(data.to_owned()),
            Err(Malformed(problem)) => Err(problem),
        }
    }

    /// D3: the id goes first, and every other byte stays.
    #[test]
    fn the_id_is_the_first_member() {
        for (data, expected) in [
            ("{}", "{\"messageId\":\"7\"}"),
            ("{ }", "{\"messageId\":\"7\" }"),
            ("{\"a\": 1.0}", "{\"messageId\":\"7\",\"a\": 1.0}"),
            (
                " \n{ \"b\":{\"messageId\":\"x\"} } ",
                " \n{\"messageId\":\"7\", \"b\":{\"messageId\":\"x\"} } ",
            ),
            ("{\"messageid\":1}", "{\"messageId\":\"7\",\"messageid\":1}"),
            ("{\"\\u007b\":\"{\"}", "{\"messageId\":\"7\",\"\\u007b\":\"{\"}"),
        ] {
            assert_eq!(with_id("7", data).unwrap(), expected);
        }
        assert_eq!(with_id("a\"b", "{}").unwrap(), "{\"messageId\":\"a\\\"b\"}");
    }

    #[test]
    fn what_has_the_id_already_stays_as_it_is() {
        for same in
            ["{\"a\":1,\"messageId\":\"7\"}", "{\"message\\u0049d\": \"\\u0037\"}", "{\"messageId\": 7}"]
        {
            assert_eq!(with_id("7", same).unwrap(), same);
        }
    }

    /// F5: what cannot carry the id is refused with the reason and the remedy, and not quoted.
    #[test]
    fn what_cannot_carry_it_is_refused() {
        for (data, expected) in [
            ("[\"secret\"]", "is an array, no JSON object"),
            ("\"secret\"", "is a text, no JSON object"),
            (" 7", "is a number, no JSON object"),
            ("", "is empty, no JSON object"),
            ("{\"secret\":1", "no JSON object (it ends too early, at line 1"),
            ("{} \"secret\"", "no JSON object"),
            ("{\"messageId\":\"secret\"}", "another value under \"messageId\""),
            ("{\"messageId\":null}", "another value"),
            ("{\"messageId\":\"7\",\"messageId\":\"secret\"}", "another value"),
        ] {
            let problem = with_id("7", data).unwrap_err();
            assert!(problem.contains(expected) && problem.contains("id_as"), "{data}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        let text = Envelope { content_type: Some("text/plain".into()), ..order_created() };
        let problem = add("messageId", &text, &mut Vec::new()).unwrap_err().to_string();
        assert!(problem.contains("is text/plain"), "{problem}");
    }

    proptest! {
        /// D3, F8: whatever object it is, the id is in it and the rest is what it was.
        #[test]
        fn the_rest_is_what_it_was(
            members in proptest::collection::btree_map(".{0,8}", any::<i32>(), 0..6), id in ".{1,12}",
        ) {
            prop_assume!(!members.contains_key("messageId"));
            let data = serde_json::to_string(&members).unwrap();
            let with = with_id(&id, &data).unwrap();
            let mut read: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&with).unwrap();
            prop_assert_eq!(read.remove("messageId").unwrap(), id);
            prop_assert_eq!(serde_json::to_value(&members).unwrap(), serde_json::Value::Object(read));
        }

        #[test]
        fn no_payload_panics(data in "(?s)[{}\\[\\]\":, a1]{0,30}") {
            let _ = with_id("7", &data);
        }
    }
}
