//! Extension attributes, as one column holds them.

use std::collections::BTreeMap;

use crate::{Text, limits};

/// A JSON object of texts; numbers and booleans are taken as they are written.
pub(super) fn attributes(json: &str) -> Result<BTreeMap<Text, Text>, String> {
    let object: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|_| "holds no JSON object".to_owned())?;
    if object.len() > limits::EXTENSIONS_MAX {
        return Err(format!("holds more than {} attributes", limits::EXTENSIONS_MAX));
    }
    let attribute = |(name, value): (String, serde_json::Value)| {
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let text = match value {
            serde_json::Value::String(text) => Some(text),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        };
        match text.filter(|_| plain) {
            Some(text) => Ok((Text::from(name), Text::from(text))),
            None => Err("holds an attribute whose name is not lower-case letters and digits, or whose value is no text".to_owned()),
        }
    };
    object.into_iter().map(attribute).collect()
}
