//! All SQL, compiled from the layout and the live table once: nothing is glued together on the hot path.
//!
//! A list of rows is one parameter, a JSON document that the server reads as a table ([`list`]).

pub(crate) mod append;
pub(crate) mod cursor;
mod dead;
pub(crate) mod depth;
pub(crate) mod fields;
mod list;
pub(crate) mod procedure;
pub(crate) mod reap;
mod seen;
mod seen_cursor;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod time;
pub(crate) mod verbs;

use postrider_core::Layout;
use postrider_core::layout::Identifier;

pub(crate) use dead::write_down;
pub(crate) use list::{Id, ids};

use crate::config::Config;

/// The names of the outbox and of Postrider's own tables, quoted, and the database's clock. The tables live in the outbox's
/// database.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) table: String,
    pub(crate) position: String,
    pub(crate) exceptions: String,
    pub(crate) ranges: String,
    pub(crate) claims: String,
    pub(crate) closed: String,
    pub(crate) leases: String,
    pub(crate) jobs: String,
    pub(crate) entries: String,
    pub(crate) idempotency: String,
    pub(crate) reports: String,
    pub(crate) schema: String,
    /// The database's clock, in UTC.
    pub(crate) now: String,
}

impl Names {
    pub(crate) fn new(config: &Config) -> Self {
        let layout = &config.layout;
        let place = place(layout);
        let side = |name: &str| format!("{place}{}", quoted(&format!("{}{name}", layout.side)));
        Self {
            table: format!("{place}{}", name(&layout.table)),
            position: side("position"),
            exceptions: side("exceptions"),
            ranges: side("ranges"),
            claims: side("claims"),
            closed: side("closed"),
            leases: side("leases"),
            jobs: side("jobs"),
            entries: side("entries"),
            idempotency: side("idempotency"),
            reports: side("reports"),
            schema: side("schema"),
            now: config.now.clone(),
        }
    }

    /// The moment so many microseconds from now.
    pub(crate) fn after(&self, microseconds: &str) -> String {
        format!("({} + interval {microseconds} microsecond)", self.now)
    }
}

/// What stands before the names of all tables: the outbox's database, where that is not the connection's own.
pub(crate) fn place(layout: &Layout) -> String {
    layout.schema.as_ref().map_or(String::new(), |schema| format!("{}.", name(schema)))
}

/// A name of the layout's as SQL quotes it.
pub(crate) fn name(identifier: &Identifier) -> String {
    quoted(identifier.as_str())
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as SQL quotes it: only for what a layout file says, which is the operator's own.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
