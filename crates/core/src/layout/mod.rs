//! How a table spells an entry.
//!
//! A layout is a TOML file: the table, its columns, its status words, its way of being claimed. Everything that a
//! table has no column for lives in Postrider's own tables beside it (F1).

mod built_in;
mod column;
mod identifier;
mod json_path;
mod message;
mod published;
mod retry;
mod side;
mod spelled;
mod status;
mod time;
mod validate;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use column::{Column, Columns, Extra};
pub use identifier::Identifier;
pub use json_path::JsonPath;
pub use message::{MessageForm, Shape};
pub use published::Published;
pub use side::{
    DeadColumns, DeadTable, FailedColumns, FailedTable, PositionColumns, PositionTable, RetryRuns, SideTables,
};
pub use spelled::property;
pub use status::Words;
pub use time::{TimeForm, Zone};
pub use validate::TO_FILL_IN;

use crate::retry::Policy;
use crate::route::{Route, Router, order_among};
use crate::{Names, Text};

/// How a table spells an entry.
///
/// ```
/// use postrider_core::layout::{Layout, Way};
/// let native = Layout::built_in("native").unwrap();
/// assert_eq!(native.way, Way::Cursor);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// What the layout is called.
    pub name: String,
    /// The table's schema, where it is not the connection's own.
    pub schema: Option<Identifier>,
    /// The table.
    pub table: Identifier,
    /// The way of claiming.
    pub way: Way,
    /// What stays in order.
    pub order: Order,
    /// Which type names are taken.
    pub names: Names,
    /// The topic's pattern where no route names one ([`crate::route`]).
    pub topic: String,
    /// The topics of single event types, before that pattern (B3).
    pub topics: BTreeMap<String, String>,
    /// How often the table is asked.
    pub interval: Interval,
    /// Entries in one claim.
    pub batch: usize,
    /// Whether a dead entry holds its key.
    pub on_dead: OnDead,
    /// What the payload is.
    pub payload: Payload,
    /// Whether an event may have no data.
    pub data: Data,
    /// The zone of times that are written without one.
    pub zone: Zone,
    /// Where each part of an entry stands.
    pub columns: Columns,
    /// Who gives an event its sequence.
    pub numbers: Numbers,
    /// The words of the status column, where there is one.
    pub status: Option<Words>,
    /// How published shows.
    pub published: Published,
    /// How often and when a failed try is repeated.
    pub retry: Policy,
    /// When due retries are looked for and how many at once; none means with every claim (B8).
    pub retry_runs: Option<RetryRuns>,
    /// The team's own tables beside the outbox, which are used instead of Postrider's.
    pub sides: SideTables,
    /// After how long a row that another program took is taken back, and how often such rows are looked for; none means after
    /// the lease's own time (A9).
    pub stalled: Option<Duration>,
    /// How long published entries are kept; none means for ever.
    pub retention: Option<Duration>,
    /// What the names of Postrider's own tables begin with.
    pub side: Identifier,
    /// How a message is made of an entry.
    pub message: MessageForm,
    /// What a Kafka sink of this layout sets by itself, by librdkafka's names.
    pub kafka: BTreeMap<String, String>,
    /// What routes say of the order of event types; the first match wins, and what none matches has the layout's.
    pub orders: Vec<(String, Order)>,
}

impl Layout {
    /// The layout as these routes have it: which event types have no order.
    #[must_use]
    pub fn with_routes(mut self, routes: &[Route]) -> Self {
        let order = |route: &Route| (route.event_type.clone(), route.order.unwrap_or(self.order));
        let orders: Vec<_> = routes.iter().map(order).collect();
        if orders.iter().any(|(_, order)| *order != self.order) {
            self.orders = orders;
        }
        self
    }

    /// What stays in order among the entries of a type.
    #[must_use]
    pub fn order_of(&self, event_type: &str) -> Order {
        order_among(&self.orders, event_type).unwrap_or(self.order)
    }

    /// Which event goes where: by the routes, else to `sink` and the layout's topics.
    #[must_use]
    pub fn router(&self, routes: Vec<Route>, sink: impl Into<Text>) -> Router {
        Router::new(routes, sink, self.topic.clone()).with_topics(self.topics.clone())
    }
}

impl Layout {
    /// Whether the table itself shows which entries are dead; else that is kept beside it.
    #[must_use]
    pub fn shows_dead(&self) -> bool {
        self.status.as_ref().is_some_and(|words| words.dead.is_some())
    }
}

/// The way of claiming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Read by id after the position: append-only tables.
    Cursor,
    /// Entries are marked with an owner and an expiry: status tables.
    Lease,
    /// Row locks are held in the open transaction while publishing.
    Hold,
    /// The database's own log.
    Log,
}

impl Way {
    /// The word that a layout file has for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Lease => "lease",
            Self::Hold => "hold",
            Self::Log => "log",
        }
    }
}

/// What stays in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The entries of one key.
    Key,
    /// Nothing: best effort by time.
    None,
}

/// How often the table is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// More often while there is something to do.
    Adaptive,
    /// Always after this long.
    Every(Duration),
}

/// Whether a dead entry holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDead {
    /// Its key waits for an operator.
    Hold,
    /// Its key goes on.
    Skip,
}

/// Who gives an event its sequence: its number within the key, which a consumer can verify (E4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// The writer, if anybody.
    #[default]
    Writer,
    /// The append, in the writer's transaction: one after the other from 1, without gaps or duplicates.
    Append,
}

/// Whether an event may have no data: a payload that is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// A NULL is a flaw: the entry is dead.
    #[default]
    Required,
    /// A NULL is an event without data.
    Optional,
}

/// What the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// JSON, as text or in a column type of the database's own.
    Json,
    /// Whatever the content type says, as bytes or text.
    Bytes,
}

#[cfg(test)]
mod tests;
