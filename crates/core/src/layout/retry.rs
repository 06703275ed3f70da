//! Retry policies as files spell them.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{FailedTable, RetryRuns};
use crate::retry::{Backoff, Policy};
use crate::span::TimeSpan;

/// `[retry]`: what it leaves out, the default policy has.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    retries_max: Option<u32>,
    backoff: Option<Backoff>,
    interval: Option<TimeSpan>,
    batch: Option<usize>,
    table: Option<FailedTable>,
}

impl Retry {
    /// Both or neither: a batch without an interval says nothing.
    pub(super) fn runs(&self) -> Result<Option<RetryRuns>, (String, String)> {
        match (self.interval, self.batch) {
            (None, None) => Ok(None),
            (Some(every), Some(_)) if every.0.is_zero() => {
                Err(("retry.interval is zero".into(), "Write a span like 5s.".into()))
            }
            (Some(every), Some(entries)) => Ok(Some(RetryRuns { every: every.0, entries })),
            _ => Err((
                "of retry.interval and retry.batch one is missing".into(),
                "Give both, or neither: then retries are looked for with every claim.".into(),
            )),
        }
    }

    pub(super) fn table(&mut self) -> Option<FailedTable> {
        self.table.take()
    }
}

impl From<Retry> for Policy {
    fn from(spelled: Retry) -> Self {
        let default = Self::default();
        Self {
            retries_max: spelled.retries_max.unwrap_or(default.retries_max),
            backoff: spelled.backoff.unwrap_or(default.backoff),
        }
    }
}

/// `["1s", "5s"]` or `{ first = "1s", factor = 2.0, max = "5m", jitter = true }`.
impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Backoff;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "waits like [\"1s\", \"5s\"], or { first = \"1s\", factor = 2.0, max = \"5m\", jitter = true }",
        )
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Backoff, S::Error> {
        let mut steps = Vec::new();
        while let Some(step) = seq.next_element::<TimeSpan>()? {
            steps.push(step.0);
        }
        if steps.is_empty() || steps.len() > STEPS_MAX {
            return Err(S::Error::custom(format!("a backoff has from 1 to {STEPS_MAX} waits")));
        }
        Ok(Backoff::Steps(steps))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Backoff, M::Error> {
        let given = Exponential::deserialize(MapAccessDeserializer::new(map))?;
        if !(1.0..=1_000.0).contains(&given.factor) {
            return Err(M::Error::custom("a backoff's factor is from 1.0 to 1000.0"));
        }
        let (first, max) = (given.first.0, given.max.0);
        Ok(Backoff::Exponential { first, factor: given.factor, max, jitter: given.jitter })
    }
}

const STEPS_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Exponential {
    first: TimeSpan,
    factor: f64,
    max: TimeSpan,
    jitter: bool,
}

impl Default for Exponential {
    fn default() -> Self {
        let (first, max) = (TimeSpan(Duration::from_secs(1)), TimeSpan(Duration::from_secs(300)));
        Self { first, factor: 2.0, max, jitter: true }
    }
}
