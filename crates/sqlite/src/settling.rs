//! What is written for the entries of one settle call: one statement for what was published, one for all the rest.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::layout::{OnDead, Order, TimeForm, Words};
use postrider_core::{Layout, Settlement, limits};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::ids;
use crate::open::OpenRow;
use crate::run::execute;
use crate::sql::LeaseSql;

/// Settlements as the parameters of two statements.
pub(crate) struct Settling<'a> {
    now: Timestamp,
    layout: &'a Layout,
    words: &'a Words,
    sql: &'a LeaseSql,
    published: String,
    published_rows: usize,
    returned: String,
    returned_rows: usize,
    buries: bool,
}

impl<'a> Settling<'a> {
    pub(crate) fn new(now: Timestamp, layout: &'a Layout, words: &'a Words, sql: &'a LeaseSql) -> Self {
        let (published, returned) = ("[".to_owned(), "[".to_owned());
        Self {
            now,
            layout,
            words,
            sql,
            published,
            published_rows: 0,
            returned,
            returned_rows: 0,
            buries: false,
        }
    }

    /// Whether something is given up, which is to be durable.
    pub(crate) fn buries(&self) -> bool {
        self.buries
    }

    /// Whether something goes back, so that it is to be looked at again.
    pub(crate) fn returns(&self) -> bool {
        self.returned_rows > 0
    }

    pub(crate) fn add(&mut self, row: &OpenRow, settlement: &Settlement) {
        let words = self.words;
        match settlement {
            Settlement::Published => self.add_published(row),
            Settlement::Postponed { after, reason } => {
                let word = if row.retries > 0 { words.waiting() } else { &words.pending };
                self.add_returned(row, word, None, Some(*after), Some(&reason.0), false);
            }
            Settlement::Retried { retries, after, reason } => {
                self.add_returned(row, words.waiting(), Some(*retries), Some(*after), Some(&reason.0), false);
            }
            Settlement::Dead { retries, reason } => {
                self.buries = true;
                self.add_returned(
                    row,
                    words.dead.as_deref().unwrap_or_default(),
                    Some(*retries),
                    None,
                    Some(&reason.0),
                    self.holds_key(),
                );
            }
            Settlement::Released => {
                let word = if row.retries > 0 { words.waiting() } else { &words.pending };
                self.add_returned(row, word, None, None, None, false);
            }
        }
    }

    fn holds_key(&self) -> bool {
        self.layout.order == Order::Key && self.layout.on_dead == OnDead::Hold
    }

    fn add_published(&mut self, row: &OpenRow) {
        let json = &mut self.published;
        json.push_str(if self.published_rows == 0 { "[" } else { ",[" });
        ids::push(json, &row.id);
        let _ = write!(json, ",{}]", row.version);
        self.published_rows += 1;
    }

    /// `[id, status, retries, due, due in the table's form, error, holds key, version]`
    fn add_returned(
        &mut self,
        row: &OpenRow,
        word: &str,
        retries: Option<u32>,
        after: Option<Duration>,
        error: Option<&str>,
        holds_key: bool,
    ) {
        let due = after.map(|after| self.now.saturating_add(after).unwrap_or(Timestamp::MAX));
        let json = &mut self.returned;
        json.push_str(if self.returned_rows == 0 { "[" } else { ",[" });
        ids::push(json, &row.id);
        json.push(',');
        ids::push_text(json, word);
        match retries {
            Some(retries) => drop(write!(json, ",{retries}")),
            None => json.push_str(",null"),
        }
        match due {
            Some(due) => {
                let _ = write!(json, ",{},", due.as_microsecond());
                match written(self.layout, self.sql.not_before_form, due) {
                    Value::Text(text) => ids::push_text(json, &text),
                    Value::Integer(number) => drop(write!(json, "{number}")),
                    _ => json.push_str("null"),
                }
            }
            None => json.push_str(",null,null"),
        }
        json.push(',');
        match error {
            Some(error) => ids::push_text(json, &shortened(error)),
            None => json.push_str("null"),
        }
        let _ = write!(json, ",{},{}]", u8::from(holds_key), row.version);
        self.returned_rows += 1;
    }

    /// Writes all of it, within its caller's transaction. Says no when a row is not in this claim's hands any more: then the
    /// caller rolls back.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        outbox: &str,
        owner: &str,
        claim: i64,
    ) -> rusqlite::Result<bool> {
        if self.published_rows > 0 {
            let (rows, now) = (format!("{}]", self.published), self.published_at());
            let beside = execute(connection, &self.sql.published, &[&outbox, &rows, &owner, &claim])?;
            let written = execute(connection, &self.sql.published_table, &[&outbox, &rows, &now])?;
            if !self.all(beside, written, self.published_rows) {
                return Ok(false);
            }
        }
        if self.returned_rows > 0 {
            let rows = format!("{}]", self.returned);
            let beside = execute(connection, &self.sql.returned, &[&outbox, &rows, &owner, &claim])?;
            let written = execute(connection, &self.sql.returned_table, &[&outbox, &rows])?;
            if !self.all(beside, written, self.returned_rows) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A row that somebody deleted is settled by that; one whose version moved on is somebody else's.
    fn all(&self, beside: usize, written: usize, rows: usize) -> bool {
        beside == rows && (written == rows || !self.sql.has_version)
    }

    fn published_at(&self) -> Value {
        let form = self.layout.columns.published_at.as_ref().map_or(TimeForm::Text, crate::sql::form);
        written(self.layout, form, self.now)
    }
}

/// A time as a column of that form has it.
pub(crate) fn written(layout: &Layout, form: TimeForm, time: Timestamp) -> Value {
    form.number(time).map_or_else(|| Value::Text(layout.zone.write(time)), Value::Integer)
}

/// What is written of a reason.
pub(crate) fn shortened(reason: &str) -> String {
    reason.chars().take(limits::REASON_CHARS_MAX).collect()
}
