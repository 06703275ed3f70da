//! All SQL, compiled from the layout and the live table once: nothing is glued together on the hot path.

mod append;
mod base_type;
pub(crate) mod cursor;
pub(crate) mod depth;
pub(crate) mod failed;
pub(crate) mod fields;
mod function;
pub(crate) mod mark;
pub(crate) mod reap;
mod seen;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod time;
mod verbs;

use postrider_core::Layout;

pub(crate) use append::{AppendSql, COLUMNS, Form, Parameter, offset};
pub(crate) use base_type::base_type;
pub(crate) use function::{function_name, function_sql};

/// The names of the outbox and of Postrider's own tables, quoted. The latter live in the outbox's schema.
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
    /// The function that reads JSON from a text, and answers NULL where it is none.
    pub(crate) json: String,
}

impl Names {
    pub(crate) fn new(layout: &Layout) -> Self {
        let side = |name: &str| in_schema(layout, &quoted(&format!("{}{name}", layout.side)));
        Self {
            table: in_schema(layout, &layout.table.quoted()),
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
            json: side("json"),
        }
    }
}

/// A quoted name in the outbox's schema.
pub(crate) fn in_schema(layout: &Layout, quoted: &str) -> String {
    layout.schema.as_ref().map_or(quoted.to_owned(), |schema| format!("{}.{quoted}", schema.quoted()))
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL quotes it: only for what a layout file says, which is the operator's own.
pub(crate) fn literal(text: &str) -> String {
    // With the E form a backslash means the same whatever standard_conforming_strings says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
