//! Numbers between bounds.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// For `#[serde(deserialize_with)]`: a whole number between two bounds.
pub(crate) fn between<'de, const MIN: u32, const MAX: u32, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let number = i64::deserialize(deserializer)?;
    u32::try_from(number)
        .ok()
        .filter(|number| (MIN..=MAX).contains(number))
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("{number} is out of bounds; give {MIN} to {MAX}")))
}

/// A share of a whole.
pub(crate) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if share > 0.0 && share <= 1.0 {
        return Ok(Some(share));
    }
    Err(D::Error::custom(format_args!("{share} is out of bounds; give a share above 0.0 and up to 1.0")))
}
