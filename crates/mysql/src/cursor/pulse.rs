//! What is asked before each reading: whether the lease is held, what time it is, who may still fill gaps.

use std::time::Duration;

use jiff::Timestamp;
use mysql_async::params;
use postrider_core::Fault;
use postrider_core::cursor::BACKWARDS;
use postrider_core::gaps::Check;
use postrider_core::source::SourceError;

use super::memory::Held;
use super::{CursorSource, load};
use crate::fault::Error;
use crate::rows::{holds, number};
use crate::session::{Session, Timer};
use crate::status::{Listing, list};

/// While there is much to read it is asked no more often: the mark of a claim tells of a lost lease, and of operators' verbs.
const PULSE_EVERY: Duration = Duration::from_millis(100);

/// A table that was emptied by pruning is asked for the ids that it has drawn no more often.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

struct Pulse {
    epoch: i64,
    now: Timestamp,
    is_held: bool,
    wants_renewal: bool,
    /// The highest id in the table.
    highest: i64,
}

impl CursorSource {
    /// Asks whether the lease is held, and takes in what operators have changed; says whether it was asked.
    pub(super) async fn feel(&self, session: &mut Session) -> Result<bool, SourceError> {
        let failed = |error| self.reads.failed(error);
        let fence = self.memory.with(|held| {
            let is_busy = held.idle == 0 && held.loaded.cursor.idle(held.now).due_in.is_none();
            let is_recent = held.pulse.as_mut().is_some_and(|pulse| !pulse.is_over());
            (!is_busy || !is_recent).then_some(held.fence)
        });
        let Some(Some(fence)) = fence else { return Ok(false) };
        let Some(pulse) = self.pulse(session, fence).await.map_err(failed)? else {
            self.memory.forget();
            return Err(self.no_position());
        };
        let is_held = pulse.is_held
            && (!pulse.wants_renewal || self.fence.renew(session, fence).await.map_err(failed)?);
        if !is_held {
            self.memory.forget();
            return Ok(true);
        }
        let epoch = self.memory.with(|held| {
            (held.now, held.highest) = (pulse.now, pulse.highest);
            held.pulse = Some(Timer::new(PULSE_EVERY));
            held.loaded.epoch
        });
        self.verify(session, pulse.highest).await?;
        if epoch.is_some_and(|epoch| epoch != pulse.epoch) {
            // Nobody writes meanwhile: what is read here has all that memory knows to be written.
            let mut writer = self.writes.session().await?;
            self.memory.written_by(writer.serial());
            let exceptions = self.exceptions(&mut writer).await.map_err(|error| self.writes.failed(error))?;
            self.memory.with(|held| {
                held.loaded.cursor.reload(exceptions);
                held.loaded.epoch = pulse.epoch;
            });
        }
        Ok(true)
    }

    async fn pulse(&self, session: &mut Session, fence: i64) -> Result<Option<Pulse>, Error> {
        let params = params! {
            "outbox" => &self.outbox,
            "owner" => &self.config.holder,
            "fence" => fence,
            "left_us" => self.config.ttl_us() / 3 * 2,
        };
        let row = session.first(&self.sql.pulse, params).await?;
        Ok(row.as_ref().map(|row| Pulse {
            epoch: number(row, 0).unwrap_or(0),
            now: load::time(row, 1),
            is_held: holds(row, 2),
            wants_renewal: holds(row, 3),
            highest: number(row, 4).unwrap_or(0),
        }))
    }

    /// Ids must not go backwards: what was drawn again would lie behind the position, and never be read.
    async fn verify(&self, session: &mut Session, highest: i64) -> Result<(), SourceError> {
        let is_ahead = |highest: i64| self.memory.with(|held| held.loaded.cursor.verify(highest));
        if is_ahead(highest).is_none_or(|verified| verified.is_ok()) {
            return Ok(());
        }
        let is_known = |held: &mut Held| held.emptied.as_mut().is_some_and(|emptied| !emptied.is_over());
        if highest == 0 && self.memory.with(is_known) == Some(true) {
            return Ok(());
        }
        // The last rows may have been pruned: what was drawn is known all the same.
        let drawn = self.drawn(session).await.map_err(|error| self.reads.failed(error))?;
        match is_ahead(highest.max(drawn)) {
            Some(Err(SourceError::Broken(fault))) => {
                Err(SourceError::Broken(Fault::new(&*self.place, fault.problem, BACKWARDS)))
            }
            _ => {
                self.memory.with(|held| held.emptied = Some(Timer::new(DRAWN_EVERY)));
                Ok(())
            }
        }
    }

    /// Asks who may still fill gaps, when it is time to. What a reading made after this does not show may be closed.
    pub(super) async fn look(&self, session: &mut Session) -> Result<Option<Check>, Error> {
        let Some(Some(look)) = self.memory.with(|held| held.due_look()) else { return Ok(None) };
        Ok(match list(session).await? {
            Listing::Alive(found) => self.memory.with(|held| held.check(look, found)),
            // Without the right to see them nothing is closed; opening says so.
            Listing::Old | Listing::NoRight => {
                self.memory.with(|held| held.look_later(look));
                None
            }
        })
    }
}
