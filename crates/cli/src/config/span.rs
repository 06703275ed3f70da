//! Spans of time between bounds, in milliseconds.

use std::time::Duration;

use postrider_core::span::TimeSpan;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Reads a span between two bounds.
pub(crate) fn parse<const MIN_MS: u64, const MAX_MS: u64>(text: &str) -> Result<Duration, String> {
    bound::<MIN_MS, MAX_MS>(text.parse()?)
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn between<'de, const MIN_MS: u64, const MAX_MS: u64, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let span = TimeSpan::deserialize(deserializer)?;
    bound::<MIN_MS, MAX_MS>(span).map(Some).map_err(D::Error::custom)
}

fn bound<const MIN_MS: u64, const MAX_MS: u64>(span: TimeSpan) -> Result<Duration, String> {
    let (min, max) = (Duration::from_millis(MIN_MS), Duration::from_millis(MAX_MS));
    if (min..=max).contains(&span.0) {
        return Ok(span.0);
    }
    Err(format!("{span} is out of bounds; give {} to {}", TimeSpan(min), TimeSpan(max)))
}
