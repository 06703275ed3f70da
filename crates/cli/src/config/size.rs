//! Sizes as people write them: `"16MiB"`, `"1 MB"`, or a number of bytes.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};

const UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
    ("", 1),
];

/// Reads a size; the error says what would be understood.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| format!("\"{text}\" is not a size; write one like \"512KiB\", \"16MiB\" or 1000000"))
}

/// For `#[serde(deserialize_with)]`: a size between two bounds.
pub(crate) fn between<'de, const MIN: usize, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    let bytes = deserializer.deserialize_any(Size)?;
    if (MIN..=MAX).contains(&bytes) {
        return Ok(Some(bytes));
    }
    Err(de::Error::custom(format_args!("{bytes} bytes is out of bounds; give {MIN} to {MAX}")))
}

struct Size;

impl Visitor<'_> for Size {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size like \"16MiB\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<usize, E> {
        usize::try_from(bytes).map_err(|_| E::custom("a size cannot be negative"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [("16MiB", 16 << 20), ("1 MB", 1_000_000), ("7", 7), ("3B", 3), (" 2KiB ", 2048)]
        {
            assert_eq!(parse(text), Ok(bytes));
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5MiB",
            "16mib",
            "1 lightyear",
            "99999999999999999999",
            "18446744073709551615GB",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
