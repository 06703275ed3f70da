//! All SQL, compiled from the layout once: nothing is glued together on the hot path.

mod append;
mod cursor;
mod depth;
mod fields;
mod hot;
mod lease;
mod store;

use postrider_core::Layout;

pub(crate) use append::{AppendSql, ID_COLUMN};
pub(crate) use cursor::CursorSql;
pub(crate) use depth::DepthSql;
pub use hot::{CursorStatements, LeaseStatements};
pub(crate) use lease::{LeaseSql, form, state};
pub(crate) use store::{StoreSql, seen};

/// The names of the outbox and of Postrider's own tables, quoted.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) table: String,
    pub(crate) position: String,
    pub(crate) exceptions: String,
    pub(crate) ranges: String,
    pub(crate) claims: String,
    pub(crate) leases: String,
    pub(crate) jobs: String,
    pub(crate) entries: String,
    pub(crate) idempotency: String,
    pub(crate) reports: String,
    pub(crate) schema: String,
}

impl Names {
    pub(crate) fn new(layout: &Layout) -> Self {
        let side = |name: &str| quoted(&format!("{}{name}", layout.side));
        let table = layout.table.quoted();
        Self {
            table: layout
                .schema
                .as_ref()
                .map_or(table.clone(), |schema| format!("{}.{table}", schema.quoted())),
            position: side("position"),
            exceptions: side("exceptions"),
            ranges: side("ranges"),
            claims: side("claims"),
            leases: side("leases"),
            jobs: side("jobs"),
            entries: side("entries"),
            idempotency: side("idempotency"),
            reports: side("reports"),
            schema: side("schema"),
        }
    }
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL quotes it: only for what a layout file says, which is the operator's own.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
