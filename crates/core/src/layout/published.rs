//! How published shows.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{Column, Identifier, TimeForm};

/// How published shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// By the status column's word; on a cursor by the position.
    Status,
    /// The row is deleted.
    Delete,
    /// By a column that holds a time, or a flag that is set: [`super::Columns::published`].
    Column,
}

/// As a layout file spells it: `"delete"`, `"status"` or `{ column = "sent_at" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spelled {
    Word(Published),
    Column(Column),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    column: Identifier,
    #[serde(default, rename = "as")]
    form: TimeForm,
}

impl<'de> Deserialize<'de> for Spelled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Spelled;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"delete\", \"status\" or { column = \"sent_at\" }")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Spelled, E> {
        match word {
            "delete" => Ok(Spelled::Word(Published::Delete)),
            "status" => Ok(Spelled::Word(Published::Status)),
            _ => Err(E::unknown_variant(word, &["delete", "status", "{ column = … }"])),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Spelled, M::Error> {
        let Named { column, form } = Named::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Spelled::Column(Column::Named(column, form)))
    }
}
