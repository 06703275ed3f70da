//! A team's own table of failed entries, beside Postrider's exceptions: what it has no column for stays there.

use std::sync::PoisonError;
use std::time::Duration;

use postrider_core::cursor::{Exception, Shelf, Write};
use postrider_core::source::SourceError;
use postrider_core::{Fault, Layout};
use tokio_postgres::types::Type;

use super::CursorSource;
use super::memory::Held;
use super::write::shortened;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::Session;
use crate::sql::failed::FailedSql;
use crate::table::{Kind, Table};

/// A person's change in the team's table is heeded within this long.
const HEED_EVERY: Duration = Duration::from_secs(1);
/// What somebody else writes there is found within this long.
const STRANGERS_EVERY: Duration = Duration::from_secs(5);
/// Rows that are passed by, before no further ones are taken over.
const PASSED_BY_MAX: usize = 10_000;

/// Finds the team's tables, and refuses those that do not fit.
pub(super) async fn inspect(
    session: &Session,
    config: &Config,
    outbox: &Table,
) -> Result<Option<FailedSql>, Fault> {
    let layout = &config.layout;
    if let Some(team) = &layout.sides.position {
        find(session, config, "position.table", team.name.clone(), team.given()).await?;
    }
    let Some(team) = &layout.sides.failed else { return Ok(None) };
    let live = find(session, config, "retry.table", team.name.clone(), team.given()).await?;
    Ok(Some(FailedSql::new(layout, outbox, team, &live)))
}

async fn find<'l>(
    session: &Session,
    config: &Config,
    key: &str,
    name: postrider_core::layout::Identifier,
    given: impl Iterator<Item = (&'static str, &'l postrider_core::layout::Identifier)>,
) -> Result<Table, Fault> {
    let place = format!("{}, {key} \"{name}\"", config.place());
    let layout = Layout { table: name, ..config.layout.clone() };
    let Some(live) = Table::read(session, &layout).await.map_err(|error| fault(&place, error))? else {
        return Err(Fault::new(
            place,
            "there is no such table",
            format!(
                "Create it with the application's own migrations, or take [{key}] out of the layout: Postrider's own is used then."
            ),
        ));
    };
    for (part, column) in given {
        let Some(found) = live.column(column.as_str()) else {
            return Err(Fault::new(
                place,
                format!("it has no column \"{column}\""),
                format!("Correct columns.{part} of [{key}] in the layout, or add the column."),
            ));
        };
        if part == "id" && found.kind != Kind::Integer {
            return Err(Fault::new(
                place,
                format!("its id \"{column}\" is no number: {}", found.shown()),
                "The latest row is known by the highest id: use an identity or serial column.",
            ));
        }
    }
    Ok(live)
}

impl CursorSource {
    /// Whether a write touches the team's table.
    pub(super) fn concerns_failed(&self, write: &Write) -> bool {
        self.failed.is_some() && (!write.deletes.is_empty() || write.upserts.iter().any(has_failed))
    }

    /// Copies of what is done with go first, while it is known which they are.
    pub(super) async fn drop_failed(&self, session: &Session, write: &Write) -> Result<(), Error> {
        let Some(sql) = &self.failed else { return Ok(()) };
        if write.deletes.is_empty() {
            return Ok(());
        }
        let params = [(&self.fence.outbox as _, Type::TEXT), (&write.deletes as _, Type::INT8_ARRAY)];
        session.run("savepoint postrider_failed").await?;
        let left = match session.query(&sql.delete, &params).await {
            Ok(left) => left,
            Err(error) if error.is_refusal() => {
                session.run("rollback to savepoint postrider_failed").await?;
                session.query(&sql.kept, &params).await?
            }
            Err(error) => return Err(error),
        };
        session.run("release savepoint postrider_failed").await?;
        if !left.is_empty() {
            tracing::warn!(
                outbox = %self.fence.outbox,
                rows = left.len(),
                first = left[0].get::<_, i64>(0),
                "the table of failed entries keeps rows of events that were published: a trigger or constraint is in the way. \
                 They are passed by until the relay is started again: delete them"
            );
            self.pass_by(left.iter().map(|row| row.get(0)));
        }
        Ok(())
    }

    fn pass_by(&self, rows: impl Iterator<Item = i64>) {
        self.passed_by.lock().unwrap_or_else(PoisonError::into_inner).extend(rows);
    }

    /// Takes over what others have written to the team's table: it is retried as if Postrider had written it (B8).
    async fn take_strangers(&self, session: &Session, held: &mut Held) -> Result<bool, Error> {
        let Some(sql) = &self.failed else { return Ok(false) };
        let passed_by: Vec<i64> =
            self.passed_by.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let since = held.strangers_at.map(|at| held.now.duration_since(at).unsigned_abs());
        if since.is_some_and(|since| since < STRANGERS_EVERY) || passed_by.len() >= PASSED_BY_MAX {
            return Ok(false);
        }
        held.strangers_at = Some(held.now);
        let retries_max = i32::try_from(self.config.layout.retry.retries_max).unwrap_or(i32::MAX);
        let params = [
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&held.fence as _, Type::INT8),
            (&retries_max as _, Type::INT4),
            (&passed_by as _, Type::INT8_ARRAY),
        ];
        let found = session.query(&sql.strangers, &params).await?;
        let passed = |row: &&tokio_postgres::Row| row.get::<_, bool>(1);
        self.pass_by(found.iter().filter(passed).map(|row| row.get(0)));
        let orphans = found.iter().filter(|row| row.get::<_, bool>(2)).count();
        if orphans > 0 {
            tracing::warn!(
                entries = orphans,
                "the table of failed entries has some, from before Postrider came, whose events are not in the outbox any more. Their \
                 place and time are not known, and so they are left alone: put the events into the outbox again, and delete these"
            );
        }
        Ok(found.iter().any(|row| !row.get::<_, bool>(1)))
    }

    /// Keeps a copy of what has failed. What the team's table refuses is in Postrider's own alone: one event that cannot be
    /// written there must not hold up the others, nor be sent for ever.
    pub(super) async fn keep_failed(&self, session: &Session, write: &Write) -> Result<(), Error> {
        let Some(sql) = &self.failed else { return Ok(()) };
        let failed: Vec<&Exception> =
            write.upserts.iter().filter(|exception| has_failed(exception)).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = failed.iter().map(|exception| exception.id).collect();
        let params = [(&self.fence.outbox as _, Type::TEXT), (&ids as _, Type::INT8_ARRAY)];
        session.execute(&sql.copy, &params).await?;
        session.run("savepoint postrider_failed").await?;
        let mut refused = false;
        for exception in &failed {
            match self.keep_one(session, sql, exception).await {
                Ok(()) => {}
                Err(error) if error.is_refusal() => {
                    refused = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !refused {
            return session.run("release savepoint postrider_failed").await;
        }
        session.run("rollback to savepoint postrider_failed").await?;
        for exception in &failed {
            session.run("savepoint postrider_one").await?;
            match self.keep_one(session, sql, exception).await {
                Ok(()) => session.run("release savepoint postrider_one").await?,
                Err(error) if error.is_refusal() => {
                    session.run("rollback to savepoint postrider_one").await?;
                    tracing::warn!(
                        entry = exception.id,
                        constraint = error.constraint().unwrap_or("none"),
                        code = error.code().map_or("", |code| code.code()),
                        "the table of failed entries refuses an entry: it is kept in Postrider's own alone"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn keep_one(&self, session: &Session, sql: &FailedSql, exception: &Exception) -> Result<(), Error> {
        let retries_max = self.config.layout.retry.retries_max;
        // It counts the retries that failed, and is given up at the most.
        let (retries, due) = match exception.shelf {
            Shelf::Dead => (retries_max, None),
            Shelf::Waiting { due } => (exception.retries.saturating_sub(1), Some(due.as_microsecond())),
            Shelf::Parked => return Ok(()),
        };
        let retries = i32::try_from(retries).unwrap_or(i32::MAX);
        let error = exception.reason.as_deref().map(shortened).unwrap_or_default();
        let error: String = error.chars().take(sql.error_chars_max.unwrap_or(usize::MAX)).collect();
        let params = [
            (&self.fence.outbox as _, Type::TEXT),
            (&exception.id as _, Type::INT8),
            (&retries as _, Type::INT4),
            (&error as _, Type::TEXT),
            (&due as _, Type::INT8),
        ];
        if session.execute(&sql.update, &params).await? == 0 {
            session.execute(&sql.insert, &params).await?;
        }
        Ok(())
    }

    /// Takes over what a person has changed in the team's table: a count set back, another time, a row deleted.
    pub(super) async fn heed(&self, session: &Session, held: &mut Held) -> Result<(), SourceError> {
        let Some(sql) = &self.failed else { return Ok(()) };
        let since = held.heeded_at.map(|at| held.now.duration_since(at).unsigned_abs());
        if since.is_some_and(|since| since < HEED_EVERY) {
            return Ok(());
        }
        let failed = |error| self.link.failed(error);
        let retries_max = i32::try_from(self.config.layout.retry.retries_max).unwrap_or(i32::MAX);
        let params = [
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&held.fence as _, Type::INT8),
            (&retries_max as _, Type::INT4),
        ];
        let row = session.first(&sql.heed, &params).await.map_err(failed)?;
        let taken = self.take_strangers(session, held).await.map_err(failed)?;
        if taken || row.is_some_and(|row| row.get::<_, i64>(0) > 0) {
            held.loaded.cursor.reload(self.exceptions(session).await.map_err(failed)?);
        }
        held.heeded_at = Some(held.now);
        Ok(())
    }
}

/// What is parked behind another has not been tried.
fn has_failed(exception: &Exception) -> bool {
    exception.shelf != Shelf::Parked
}
