//! A layout as its file spells it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::published;
use super::retry::Retry;
use super::{
    Columns, Data, DeadTable, Identifier, Interval, Layout, MessageForm, Numbers, OnDead, Order, Payload,
    PositionTable, Published, SideTables, Way, Words, Zone,
};
use crate::nearest::toml_fault;
use crate::retry::Policy;
use crate::span::TimeSpan;
use crate::{Fault, Names, limits};

impl Layout {
    /// Reads a layout file's bytes; `place` is what its faults call it.
    ///
    /// # Errors
    /// What is wrong with it, with its line where it has one.
    pub fn parse(place: &str, bytes: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Fault::new(place, "it is not UTF-8 text", "A layout is a TOML file: give the path of one.")
                .caused_by(error)
        })?;
        let spelled: Spelled = toml::from_str(text).map_err(|error| toml_fault(place, text, &error))?;
        let name = spelled.name.clone();
        let layout = spelled.layout().map_err(|(problem, remedy)| {
            Fault::new(format!("{place}: layout \"{name}\""), problem, remedy)
        })?;
        layout.validate(place)?;
        Ok(layout)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    name: String,
    schema: Option<Identifier>,
    table: Identifier,
    way: Way,
    order: Option<Order>,
    names: Option<Names>,
    topic: Option<String>,
    #[serde(default)]
    topics: BTreeMap<String, String>,
    interval: Option<Interval>,
    batch: Option<usize>,
    on_dead: Option<OnDead>,
    payload: Option<Payload>,
    data: Option<Data>,
    #[serde(default)]
    zone: Zone,
    columns: Columns,
    #[serde(default)]
    numbers: Numbers,
    status: Option<Words>,
    published: Option<published::Spelled>,
    #[serde(default)]
    retry: Retry,
    #[serde(default)]
    position: Position,
    #[serde(default)]
    dead: Dead,
    stalled: Option<TimeSpan>,
    retention: Option<Retention>,
    side: Option<Identifier>,
    message: Option<MessageForm>,
    #[serde(default)]
    kafka: BTreeMap<String, Property>,
}

impl Spelled {
    fn layout(mut self) -> Result<Layout, (String, String)> {
        let names = self.names.unwrap_or(Names::Free);
        let by_convention = match names {
            Names::Convention => "{domain}-events",
            Names::Free => "{aggregate_type}-events",
        };
        let retry_runs = self.retry.runs()?;
        let published = match self.published {
            None => Published::Status,
            Some(published::Spelled::Word(word)) => word,
            Some(published::Spelled::Column(column)) => {
                self.columns.published = Some(column);
                Published::Column
            }
        };
        Ok(Layout {
            name: self.name,
            schema: self.schema,
            table: self.table,
            way: self.way,
            order: self.order.unwrap_or(Order::Key),
            names,
            topic: self.topic.unwrap_or_else(|| by_convention.to_owned()),
            topics: self.topics,
            interval: self.interval.unwrap_or(Interval::Adaptive),
            batch: self.batch.unwrap_or(limits::BATCH_ENTRIES),
            on_dead: self.on_dead.unwrap_or(OnDead::Hold),
            payload: self.payload.unwrap_or(Payload::Json),
            data: self.data.unwrap_or_default(),
            zone: self.zone,
            columns: self.columns,
            numbers: self.numbers,
            status: self.status,
            published,
            retry_runs,
            sides: SideTables {
                position: self.position.table,
                failed: self.retry.table(),
                dead: self.dead.table,
            },
            stalled: self.stalled.map(|span| span.0),
            retry: Policy::from(self.retry),
            retention: self.retention.and_then(|retention| retention.0),
            side: self.side.unwrap_or_else(|| Identifier::new("postrider_").expect("a plain name")),
            message: self.message.unwrap_or_default(),
            kafka: self.kafka.into_iter().map(|(name, Property(value))| (name, value)).collect(),
            orders: Vec::new(),
        })
    }
}

/// A setting of a client library: a text, a number or a truth value.
struct Property(String);

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        property(&value).map(Self).ok_or_else(|| {
            D::Error::custom(
                "a property is a text, a number, true or false; write its name in quotes: \"linger.ms\"",
            )
        })
    }
}

/// A setting as a client library takes it; none where it is neither text, number nor truth value.
#[must_use]
pub fn property(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// `[position]`: where a cursor's position is kept.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    table: Option<PositionTable>,
}

/// `[dead]`: where dead entries are written down.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dead {
    table: Option<DeadTable>,
}

/// `"adaptive"` or a span.
impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let every = deserializer.deserialize_str(SpanOr("adaptive"))?;
        Ok(every.map_or(Self::Adaptive, Self::Every))
    }
}

/// `"none"` or a span.
struct Retention(Option<Duration>);

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SpanOr("none")).map(Self)
    }
}

/// A span, or one word that stands for none.
struct SpanOr(&'static str);

impl Visitor<'_> for SpanOr {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" or a span of time like \"200ms\" or \"7d\"", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<Duration>, E> {
        if text == self.0 {
            return Ok(None);
        }
        let span: TimeSpan =
            text.parse().map_err(|problem| E::custom(format!("{problem}, or \"{}\"", self.0)))?;
        if span.0.is_zero() { Err(E::custom("zero is no span to wait")) } else { Ok(Some(span.0)) }
    }
}
