//! Writing the settlements of one call, and what happens when the table refuses them.

use std::borrow::Cow;
use std::time::Duration;

use postrider_core::layout::Column;
use postrider_core::status::Settling;
use postrider_core::{Layout, limits};
use tokio_postgres::types::Type;

use crate::fault::Error;
use crate::session::{Param, Session};
use crate::sql::status::SettleSql;
use crate::table::Table;

/// How long a row waits that goes back, and whose table refuses that: somebody has to mend the table.
const REFUSED_WAIT: Duration = Duration::from_secs(300);

/// Writes settlements in a way's own statements.
pub(crate) struct Settler<'a> {
    pub(crate) outbox: &'a str,
    pub(crate) sql: &'a SettleSql,
    pub(crate) owner: &'a str,
    pub(crate) claim: i64,
    pub(crate) fence: i64,
    /// Whether it runs inside a transaction, which an error would end.
    pub(crate) in_transaction: bool,
    pub(crate) place: &'a str,
}

/// How much of an error its column takes.
pub(crate) fn error_chars_max(layout: &Layout, table: &Table) -> usize {
    let column = layout.columns.error.as_ref().and_then(Column::name);
    let most = column.and_then(|name| table.column(name.as_str())).and_then(|live| live.characters_max);
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX).min(limits::REASON_CHARS_MAX)
}

impl Settler<'_> {
    /// Writes all of it; answers the entries that are in other hands. What the table refuses is found by halving and kept
    /// waiting beside it, the rest is settled.
    pub(crate) async fn write(&self, session: &Session, settling: &Settling) -> Result<Vec<String>, Error> {
        let mut all_lost = Vec::new();
        let mut parts = vec![Cow::Borrowed(settling)];
        while let Some(part) = parts.pop() {
            match self.attempt(session, &part).await {
                Ok((lost, swallowed)) => {
                    all_lost.extend(lost);
                    if !swallowed.is_empty() {
                        self.keep_swallowed(session, &part.only(&swallowed)).await?;
                    }
                }
                Err(error) if is_refused(&error) => {
                    if part.entries.len() > 1 {
                        let (first, second) = part.split();
                        parts.extend([Cow::Owned(second), Cow::Owned(first)]);
                    } else {
                        self.keep_refused(session, &part, &error).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all_lost)
    }

    /// Whether these were written by a call that got no answer.
    pub(crate) async fn was_written(
        &self,
        session: &Session,
        settling: &Settling,
        entries: &[String],
    ) -> Result<bool, Error> {
        let sql = if settling.is_published() { &self.sql.was_published } else { &self.sql.was_returned };
        let params: [Param<'_>; 2] = [(&self.outbox, Type::TEXT), (&entries, Type::TEXT_ARRAY)];
        let row = session.first(sql, &params).await?;
        let written = row.map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or(0);
        Ok(usize::try_from(written).is_ok_and(|written| written == entries.len()))
    }

    async fn attempt(&self, session: &Session, part: &Settling) -> Result<(Vec<String>, Vec<String>), Error> {
        if self.in_transaction {
            session.run("savepoint settling").await?;
        }
        let mut params: Vec<Param<'_>> = vec![
            (&self.outbox, Type::TEXT),
            (&part.entries, Type::TEXT_ARRAY),
            (&part.versions, Type::INT8_ARRAY),
            (&self.owner, Type::TEXT),
            (&self.claim, Type::INT8),
            (&self.fence, Type::INT8),
        ];
        if !part.is_published() {
            params.extend([
                (&part.words as _, Type::TEXT_ARRAY),
                (&part.retries as _, Type::INT4_ARRAY),
                (&part.after_us as _, Type::INT8_ARRAY),
                (&part.errors as _, Type::TEXT_ARRAY),
                (&part.holds_key as _, Type::BOOL_ARRAY),
                (&part.dead as _, Type::BOOL_ARRAY),
            ]);
        }
        let sql = if part.is_published() { &self.sql.published } else { &self.sql.returned };
        match session.first(sql, &params).await {
            Ok(row) => row.map_or(Ok(Default::default()), |row| Ok((row.try_get(0)?, row.try_get(1)?))),
            Err(error) => {
                if self.in_transaction && is_refused(&error) {
                    session.run("rollback to savepoint settling").await?;
                }
                Err(error)
            }
        }
    }

    /// A row that somebody deleted is settled by that; one that is still there was kept from being written, by a trigger.
    async fn keep_swallowed(&self, session: &Session, swallowed: &Settling) -> Result<(), Error> {
        let kept = self.set_aside(session, swallowed, "a trigger or rule swallows the change").await?;
        if kept > 0 {
            tracing::warn!(
                place = self.place,
                rows = kept,
                first = %swallowed.entries[0],
                became = swallowed.became(),
                "rows were settled, and the table did not change: a trigger or rule swallows the relay's write. They are kept \
                 in Postrider's own table, and not sent again: let the trigger pass the relay's user"
            );
        }
        Ok(())
    }

    async fn keep_refused(&self, session: &Session, part: &Settling, error: &Error) -> Result<(), Error> {
        let what = refusal(error);
        self.set_aside(session, part, &what).await?;
        tracing::warn!(
            place = self.place,
            entry = %part.entries[0],
            became = part.became(),
            "the table refuses what became of a row ({what}): it is kept in Postrider's own table, and not sent again before \
             somebody mends this. Let the constraint or trigger take the layout's words, or correct the layout"
        );
        Ok(())
    }

    /// Keeps rows beside the table that does not take what became of them. What is done with is not sent again: it is dead
    /// there, for a person. What goes back waits.
    async fn set_aside(&self, session: &Session, part: &Settling, what: &str) -> Result<u64, Error> {
        let wait_us = i64::try_from(REFUSED_WAIT.as_micros()).unwrap_or(i64::MAX);
        let why = if part.is_published() {
            format!(
                "it was published, and the table does not take that: {what}; mend the table and give the row its word by hand \
                 (reviving it publishes it again)"
            )
        } else {
            format!("the table does not take what became of this row: {what}")
        };
        let count = part.entries.len();
        let (dead, holds_key) = if part.is_published() {
            (vec![true; count], vec![false; count])
        } else {
            (part.dead.clone(), part.holds_key.clone())
        };
        let params: [Param<'_>; 8] = [
            (&self.outbox, Type::TEXT),
            (&part.entries, Type::TEXT_ARRAY),
            (&wait_us, Type::INT8),
            (&why, Type::TEXT),
            (&self.owner, Type::TEXT),
            (&self.claim, Type::INT8),
            (&dead, Type::BOOL_ARRAY),
            (&holds_key, Type::BOOL_ARRAY),
        ];
        session.execute(&self.sql.set_aside, &params).await
    }
}

/// Whether the table refuses a row: its data, a constraint, a trigger, a view's check.
fn is_refused(error: &Error) -> bool {
    error.code().is_some_and(|code| matches!(&code.code()[..2], "22" | "23" | "P0" | "44"))
}

/// What refused it, without the row's data.
fn refusal(error: &Error) -> String {
    let Error::Server(server) = error else { return error.to_string() };
    let Some(said) = server.as_db_error() else { return error.to_string() };
    match (said.constraint(), said.column()) {
        (Some(constraint), _) => format!("constraint \"{constraint}\" [{}]", said.code().code()),
        (None, Some(column)) => format!("column \"{column}\" [{}]", said.code().code()),
        (None, None) => error.to_string(),
    }
}
