//! `postrider.toml` as it is written. Bounds are checked while reading, so that every complaint has its line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use postrider_core::layout::Order;
use postrider_core::limits;
use postrider_core::retry::Backoff;
use postrider_core::span::TimeSpan;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use toml::Spanned;

use super::{number, size, span};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) outbox: Outbox,
    pub(crate) sink: Vec<Sink>,
    pub(crate) route: Vec<Route>,
    pub(crate) topic: Vec<Topic>,
    pub(crate) retry: Retry,
    pub(crate) relay: Relay,
    pub(crate) retention: Retention,
    pub(crate) breaker: Breaker,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    pub(crate) url: Option<Spanned<String>>,
    pub(crate) layout: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) start: Option<Start>,
    #[serde(deserialize_with = "span::between::<500, 3_600_000, _>")]
    pub(crate) lease_ttl: Option<Duration>,
    #[serde(deserialize_with = "size::between::<1, { limits::PAYLOAD_BYTES_MAX }, _>")]
    pub(crate) payload_bytes_max: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sink {
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) url: Spanned<String>,
    #[serde(default)]
    pub(crate) properties: BTreeMap<String, Spanned<toml::Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    #[serde(rename = "type", default = "everything")]
    pub(crate) event_type: String,
    pub(crate) sink: Option<Spanned<String>>,
    pub(crate) topic: Option<Spanned<String>>,
    pub(crate) order: Option<Order>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topic {
    pub(crate) names: Vec<Spanned<String>>,
    pub(crate) sink: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "number::between::<1, 100_000, _>")]
    pub(crate) partitions: Option<u32>,
    #[serde(default, deserialize_with = "number::between::<1, 1_000, _>")]
    pub(crate) replication: Option<u32>,
    pub(crate) retention: Option<Keep>,
    #[serde(default, deserialize_with = "number::between::<1, 1_000, _>")]
    pub(crate) min_insync_replicas: Option<u32>,
    #[serde(default)]
    pub(crate) config: BTreeMap<String, Spanned<toml::Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    #[serde(deserialize_with = "number::between::<0, 1_000_000, _>")]
    pub(crate) retries_max: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Relay {
    #[serde(deserialize_with = "number::between::<1, { limits::BATCH_ENTRIES_MAX as u32 }, _>")]
    pub(crate) batch_entries: Option<u32>,
    #[serde(deserialize_with = "size::between::<65_536, 4_294_967_296, _>")]
    pub(crate) in_flight_bytes: Option<usize>,
    #[serde(deserialize_with = "span::between::<100, 3_600_000, _>")]
    pub(crate) publish_deadline: Option<Duration>,
    #[serde(deserialize_with = "span::between::<0, 3_600_000, _>")]
    pub(crate) stop_timeout: Option<Duration>,
    #[serde(deserialize_with = "poll")]
    pub(crate) poll: Option<Poll>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    pub(crate) published: Option<Keep>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Breaker {
    #[serde(deserialize_with = "number::between::<1, 100_000, _>")]
    pub(crate) window_calls: Option<u32>,
    #[serde(deserialize_with = "number::between::<1, 100_000, _>")]
    pub(crate) calls_min: Option<u32>,
    #[serde(deserialize_with = "number::share")]
    pub(crate) failure_share: Option<f64>,
    #[serde(deserialize_with = "span::between::<1, 86_400_000, _>")]
    pub(crate) open: Option<Duration>,
    #[serde(deserialize_with = "number::between::<1, 1_000, _>")]
    pub(crate) trials: Option<u32>,
}

/// Where a cursor begins on a table that has rows already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Beginning,
    Now,
    After(i64),
}

/// How long published entries stay in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Forever,
    For(Duration),
}

/// How often the relay looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    Adaptive { busy: Duration, idle: Duration },
    Every(Duration),
}

fn everything() -> String {
    "*".to_owned()
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StartVisitor)
    }
}

struct StartVisitor;

impl Visitor<'_> for StartVisitor {
    type Value = Start;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"beginning\", \"now\" or the id after which to begin")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Start, E> {
        match text {
            "beginning" => Ok(Start::Beginning),
            "now" => Ok(Start::Now),
            _ => text
                .parse()
                .map(Start::After)
                .map_err(|_| E::custom("start is \"beginning\", \"now\" or the id after which to begin")),
        }
    }

    fn visit_i64<E: de::Error>(self, id: i64) -> Result<Start, E> {
        Ok(Start::After(id))
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" {
            return Ok(Self::Forever);
        }
        let span: TimeSpan = text
            .parse()
            .map_err(|problem| de::Error::custom(format_args!("{problem}, or \"none\" to delete nothing")))?;
        Ok(Self::For(span.0))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Adaptive {
    #[serde(default, deserialize_with = "span::between::<1, 3_600_000, _>")]
    busy: Option<Duration>,
    #[serde(default, deserialize_with = "span::between::<1, 3_600_000, _>")]
    idle: Option<Duration>,
}

/// `"200ms"`, or `{ busy = "2ms", idle = "20ms" }`.
fn poll<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Poll>, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Poll;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an interval like \"200ms\", or { busy = \"2ms\", idle = \"20ms\" }")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Poll, E> {
            span::parse::<1, 3_600_000>(text).map(Poll::Every).map_err(E::custom)
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Poll, M::Error> {
            let Adaptive { busy, idle } = Adaptive::deserialize(MapAccessDeserializer::new(map))?;
            let busy = busy.unwrap_or(Duration::from_millis(2));
            Ok(Poll::Adaptive { busy, idle: idle.unwrap_or(Duration::from_millis(20)).max(busy) })
        }
    }
    deserializer.deserialize_any(Either).map(Some)
}
