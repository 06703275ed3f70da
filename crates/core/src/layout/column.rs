//! Where each part of an entry stands.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{Identifier, JsonPath, TimeForm};
use crate::cloudevents::check_extension;

/// Where one part of an envelope stands.
///
/// In a layout file: `"created_at"`, `{ column = "created_at", as = "unix_ms" }`, `{ constant = "Order" }`,
/// `{ json = "$.account.id" }` or, for the time alone, `{ none = true }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// In a column; its form matters where it is a time.
    Named(Identifier, TimeForm),
    /// In every row the same.
    Constant(String),
    /// In the payload.
    Json(JsonPath),
    /// Nowhere: an event of a table that has no time is sent without.
    Absent,
}

impl Column {
    /// The column's name, where it is one.
    #[must_use]
    pub fn name(&self) -> Option<&Identifier> {
        match self {
            Self::Named(name, _) => Some(name),
            Self::Constant(_) | Self::Json(_) | Self::Absent => None,
        }
    }
}

/// The columns of a table. What is none lives beside the table, or is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// The row's own id: its primary key.
    pub id: Option<Column>,
    /// The event's id; none means the row's.
    pub event_id: Option<Column>,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: Option<Column>,
    /// Who says so; none means the layout's name.
    pub source: Option<Column>,
    /// The aggregate's type.
    pub aggregate_type: Option<Column>,
    /// The aggregate's id.
    pub aggregate_id: Option<Column>,
    /// What it stays in order with; none or NULL means the aggregate.
    pub key: Option<Column>,
    /// The data.
    pub payload: Option<Column>,
    /// When it happened.
    pub time: Option<Column>,
    /// What the data is; none or NULL means JSON.
    pub content_type: Option<Column>,
    /// `traceparent`.
    pub trace: Option<Column>,
    /// `tracestate`.
    pub trace_state: Option<Column>,
    /// The writer's own number within the key.
    pub sequence: Option<Column>,
    /// Every other attribute, as a JSON object of texts.
    pub extensions: Option<Column>,
    /// The writer's proof that id, type and payload are as it wrote them: [`crate::rows::content_hash`].
    pub hash: Option<Column>,
    /// `[columns.extra]`: columns that become extension attributes, and so headers, each under a name of its own.
    pub extra: Extra,
    /// The status word.
    pub status: Option<Column>,
    /// Retries scheduled so far.
    pub retries: Option<Column>,
    /// The row's own bound on retries.
    pub retries_max: Option<Column>,
    /// When the next try is due.
    pub not_before: Option<Column>,
    /// What was last wrong.
    pub error: Option<Column>,
    /// When it was published.
    pub published_at: Option<Column>,
    /// Who holds it.
    pub lease_owner: Option<Column>,
    /// Since when.
    pub leased_at: Option<Column>,
    /// Bumped by every write.
    pub version: Option<Column>,
    /// What shows that it is published, where neither a status nor its absence does: spelled `published = { column = … }`.
    #[serde(skip)]
    pub published: Option<Column>,
}

/// Columns that become extension attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra(Vec<(String, Column)>);

impl Extra {
    const KEY: &str = "extra.";

    /// The attribute's name and where it stands.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.0.iter().map(|(key, column)| (&key[Self::KEY.len()..], column))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, Column>::deserialize(deserializer)?;
        for name in named.keys() {
            check_extension(name).map_err(D::Error::custom)?;
        }
        Ok(Self(named.into_iter().map(|(name, column)| (format!("{}{name}", Self::KEY), column)).collect()))
    }
}

impl Columns {
    /// Every column that is given, with the key that a layout file has for it.
    pub fn given(&self) -> impl Iterator<Item = (&str, &Column)> {
        let extra = self.extra.0.iter().map(|(key, column)| (key.as_str(), column));
        self.all().into_iter().filter_map(|(key, column)| column.map(|column| (key, column))).chain(extra)
    }

    /// How a layout file spells the key of a column.
    #[must_use]
    pub fn spelled(key: &str) -> String {
        if key == "published" { "published.column".into() } else { format!("columns.{key}") }
    }

    fn all(&self) -> [(&'static str, Option<&Column>); 25] {
        [
            ("id", self.id.as_ref()),
            ("event_id", self.event_id.as_ref()),
            ("type", self.event_type.as_ref()),
            ("source", self.source.as_ref()),
            ("aggregate_type", self.aggregate_type.as_ref()),
            ("aggregate_id", self.aggregate_id.as_ref()),
            ("key", self.key.as_ref()),
            ("payload", self.payload.as_ref()),
            ("time", self.time.as_ref()),
            ("content_type", self.content_type.as_ref()),
            ("trace", self.trace.as_ref()),
            ("trace_state", self.trace_state.as_ref()),
            ("sequence", self.sequence.as_ref()),
            ("extensions", self.extensions.as_ref()),
            ("hash", self.hash.as_ref()),
            ("status", self.status.as_ref()),
            ("retries", self.retries.as_ref()),
            ("retries_max", self.retries_max.as_ref()),
            ("not_before", self.not_before.as_ref()),
            ("error", self.error.as_ref()),
            ("published_at", self.published_at.as_ref()),
            ("lease_owner", self.lease_owner.as_ref()),
            ("leased_at", self.leased_at.as_ref()),
            ("version", self.version.as_ref()),
            ("published", self.published.as_ref()),
        ]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    column: Option<Identifier>,
    #[serde(rename = "as")]
    form: Option<TimeForm>,
    constant: Option<String>,
    json: Option<JsonPath>,
    none: Option<bool>,
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Column;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a column's name, { column = \"x\", as = \"unix_ms\" }, { constant = \"x\" }, { json = \"$.x\" } or { none = true }",
        )
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Column, E> {
        Identifier::new(name).map(|name| Column::Named(name, TimeForm::Text)).map_err(E::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Column, M::Error> {
        match Spelled::deserialize(MapAccessDeserializer::new(map))? {
            Spelled { column: Some(name), form, constant: None, json: None, none: None } => {
                Ok(Column::Named(name, form.unwrap_or_default()))
            }
            Spelled { column: None, form: None, constant: Some(constant), json: None, none: None } => {
                Ok(Column::Constant(constant))
            }
            Spelled { column: None, form: None, constant: None, json: Some(path), none: None } => {
                Ok(Column::Json(path))
            }
            Spelled { column: None, form: None, constant: None, json: None, none: Some(true) } => {
                Ok(Column::Absent)
            }
            _ => Err(M::Error::custom(
                "give exactly one of column (with or without as), constant, json and none = true",
            )),
        }
    }
}
