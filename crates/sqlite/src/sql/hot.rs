//! The statements of the hot path, for whoever measures: a bare loop is one of the very same SQL, or it measures nothing.

use postrider_core::Layout;

use super::{CursorSql, LeaseSql, Names};

/// What following a table by id runs.
#[derive(Debug)]
pub struct CursorStatements {
    /// Rows behind an id: ?1 the id, ?2 rows at most.
    pub after: String,
    /// ?1 the outbox, ?2 position, ?3 claimed, ?4 returned.
    pub write_position: String,
}

impl CursorStatements {
    /// As the layout compiles them.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let CursorSql { after, write_position, .. } = CursorSql::new(layout, &Names::new(layout));
        Self { after, write_position }
    }
}

/// What claiming and settling rows of a status table runs.
#[derive(Debug)]
pub struct LeaseStatements {
    /// Open rows behind an id: ?1 the outbox, ?2 null, ?3 the id.
    pub scan_on: String,
    /// ?1 the outbox, ?2 ids, ?3 owner, ?4 until, ?5 fence.
    pub mark: String,
    /// ?1 the outbox, ?2 rows `[id, version]`, ?3 owner, ?4 fence.
    pub published: String,
    /// ?2 rows `[id, version]`, ?3 the time.
    pub published_table: String,
}

impl LeaseStatements {
    /// As the layout compiles them for a table whose ids count; none where it has no status.
    #[must_use]
    pub fn new(layout: &Layout) -> Option<Self> {
        let words = layout.status.as_ref()?;
        let LeaseSql { scan_on, mark, published, published_table, .. } =
            LeaseSql::new(layout, &Names::new(layout), words, true);
        Some(Self { scan_on, mark, published, published_table })
    }
}
