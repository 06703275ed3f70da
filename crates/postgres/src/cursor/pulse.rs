//! What is asked before each reading: whether the lease is held, what time it is, who may still fill gaps.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::cursor::BACKWARDS;
use postrider_core::gaps::{Check, Owner};
use postrider_core::source::SourceError;
use postrider_core::{Fault, Text};
use tokio_postgres::types::Type;

use super::memory::{Held, Memory};
use super::{CursorSource, load};
use crate::fault::Error;
use crate::session::Session;

/// An open gap costs nothing but this question, and so it is not asked with every claim.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What was asked for by an older time may have left out what is due by now.
const FRESH: Duration = Duration::from_secs(1);

pub(super) struct Pulse {
    epoch: i64,
    now: Timestamp,
    is_held: bool,
    wants_renewal: bool,
    /// The highest id that was ever drawn.
    drawn: i64,
    /// Somebody else has moved the team's own position.
    is_moved: bool,
}

impl CursorSource {
    /// Takes in what the database said; says whether what was read with the same question counts.
    pub(super) async fn take(
        &self,
        session: &Session,
        memory: &mut Memory,
        pulse: Option<Pulse>,
    ) -> Result<bool, SourceError> {
        let failed = |error| self.link.failed(error);
        let Some(pulse) = pulse else {
            memory.held = None;
            return Err(self.no_position());
        };
        let Some(held) = memory.held.as_mut() else { return Ok(false) };
        let is_held = pulse.is_held
            && (!pulse.wants_renewal || self.fence.renew(session, held.fence).await.map_err(failed)?);
        if !is_held {
            memory.held = None;
            return Ok(false);
        }
        let is_fresh = pulse.now.duration_since(held.now).unsigned_abs() < FRESH;
        held.now = pulse.now;
        held.drawn = pulse.drawn;
        if pulse.is_moved {
            return Err(self.another_is_running());
        }
        self.verify(session, held, pulse.drawn).await?;
        self.heed(session, held).await?;
        if pulse.epoch == held.loaded.epoch {
            return Ok(is_fresh);
        }
        held.loaded.cursor.reload(self.exceptions(session).await.map_err(failed)?);
        held.loaded.epoch = pulse.epoch;
        Ok(false)
    }

    fn another_is_running(&self) -> SourceError {
        let table = self.config.layout.sides.position.as_ref().map_or("", |team| team.name.as_str());
        SourceError::Broken(Fault::new(
            &*self.place,
            format!(
                "a row that Postrider did not write has appeared in \"{table}\": another relay is running"
            ),
            format!(
                "Stop the other relay. Then delete the rows that it wrote to \"{table}\", and start this one again; what both \
                 have published came twice."
            ),
        ))
    }

    pub(super) async fn pulse(&self, session: &Session, fence: i64) -> Result<Option<Pulse>, Error> {
        let ttl_us = self.config.ttl_us();
        let params = [
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&fence as _, Type::INT8),
            (&ttl_us as _, Type::INT8),
        ];
        let Some(row) = session.first(&self.sql.pulse, &params).await? else { return Ok(None) };
        Ok(Some(Pulse {
            epoch: row.try_get(0)?,
            now: load::time(&row, 1)?,
            is_held: row.try_get(2)?,
            wants_renewal: row.try_get(3)?,
            drawn: row.try_get(4)?,
            is_moved: row.try_get(5)?,
        }))
    }

    /// Ids must not go backwards: what was drawn again would lie behind the position, and never be read.
    async fn verify(&self, session: &Session, held: &Held, drawn: i64) -> Result<(), SourceError> {
        if held.loaded.cursor.verify(drawn).is_ok() {
            return Ok(());
        }
        // An application that gives ids itself does not move the sequence.
        let row = session.first(&self.sql.highest, &[]).await.map_err(|error| self.link.failed(error))?;
        let highest = row.map_or(drawn, |row| row.get::<_, i64>(0).max(drawn));
        held.loaded.cursor.verify(highest).map_err(|error| match error {
            SourceError::Broken(fault) => {
                SourceError::Broken(Fault::new(&*self.place, fault.problem, BACKWARDS))
            }
            other => other,
        })
    }

    pub(super) fn is_time_to_look(&self, held: &Held) -> bool {
        let since = held.looked_at.map(|at| held.now.duration_since(at).unsigned_abs());
        held.loaded.cursor.idle(held.now).gaps_open > 0 && since.is_none_or(|since| since >= LOOK_EVERY)
    }

    /// Asks who may still fill gaps, when it is time to. What a reading made after this does not show may be closed.
    pub(super) async fn look(&self, session: &Session, held: &mut Held) -> Result<Option<Check>, Error> {
        if !self.is_time_to_look(held) {
            return Ok(None);
        }
        let Some(look) = held.loaded.cursor.look() else { return Ok(None) };
        let rows = session.query(self.sql.owners, &[(&self.table, Type::OID)]).await?;
        let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        // After a restart a prepared transaction goes by another name, which stands for any that was known before.
        let survivors: BTreeSet<String> =
            names.iter().filter(|name| name.starts_with("-1/")).cloned().collect();
        if !survivors.is_subset(&held.survivors) {
            held.loaded.cursor.forget_owners();
        }
        held.survivors = survivors;
        held.looked_at = Some(held.now);
        let alive = names.into_iter().map(|name| Owner { name: Text::from(name), epoch: 0 });
        Ok(Some(held.loaded.cursor.check(look, alive)))
    }
}
