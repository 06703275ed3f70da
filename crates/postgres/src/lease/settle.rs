//! What is written of a claim: that it is still held, and what became of it.

use std::sync::atomic::Ordering;

use postrider_core::source::SourceError;
use postrider_core::status::Settling;
use postrider_core::{Settlement, point};
use tokio_postgres::types::Type;

use super::{LeaseHold, LeaseSource};
use crate::fault::Error;
use crate::session::Session;
use crate::status::Settler;

impl LeaseSource {
    /// Keeps what is left of a claim; says whether all of it is still held.
    pub(super) async fn renew(&self, claim: i64, fence: i64, left: &[String]) -> Result<bool, SourceError> {
        let session = self.renewals.session().await?;
        self.try_renew(&session, claim, fence, left).await.map_err(|error| self.renewals.failed(error))
    }

    async fn try_renew(
        &self,
        session: &Session,
        claim: i64,
        fence: i64,
        left: &[String],
    ) -> Result<bool, Error> {
        if let Some(lease) = &self.fence
            && !lease.renew(session, fence).await?
        {
            return Ok(false);
        }
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&left as _, Type::TEXT_ARRAY),
            (&self.config.holder as _, Type::TEXT),
            (&claim as _, Type::INT8),
        ];
        let kept = session
            .first(&self.sql.extend, &params)
            .await?
            .map(|row| row.try_get::<_, i64>(0))
            .transpose()?;
        if let Some(sql) = &self.sql.mark {
            let marked = session.execute(sql, &params[..2]).await;
            // The lease stands without it; who reads the column sees it with the next.
            marked.map(drop).or_else(|error| if error.code().is_some() { Ok(()) } else { Err(error) })?;
        }
        Ok(kept.and_then(|kept| usize::try_from(kept).ok()) == Some(left.len()))
    }

    pub(super) async fn try_settle(
        &self,
        hold: &mut LeaseHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let fresh = settlements.iter().filter(|(at, _)| hold.rows.get(*at).is_some_and(|row| !row.settled));
        let fresh: Vec<&(usize, Settlement)> = fresh.collect();
        let sorted = fresh.iter().map(|(at, settlement)| (&hold.rows[*at], settlement));
        let (published, returned) = Settling::sort(&self.config.layout, self.error_chars_max, sorted);
        let buries = returned.buries();
        for part in [published, returned] {
            if part.is_empty() {
                continue;
            }
            let is_published = part.is_published();
            if !self.write(hold, part).await? {
                return Err(SourceError::Fenced);
            }
            let written = fresh.iter().filter(|(_, to)| (*to == Settlement::Published) == is_published);
            // Before anybody can take the next of their keys.
            self.buried.fetch_or(buries && !is_published, Ordering::SeqCst);
            hold.settled(written.map(|(at, _)| *at), !is_published);
        }
        point::pass("postgres.settled");
        Ok(())
    }

    /// Writes one kind of settlements; says whether all of them were in this claim's hands.
    async fn write(&self, hold: &mut LeaseHold, settling: Settling) -> Result<bool, SourceError> {
        let link = if settling.buries() { &self.claims } else { &self.receipts };
        let session = link.session().await?;
        let settler = Settler {
            outbox: &self.outbox,
            sql: &self.settle,
            owner: &self.config.holder,
            claim: hold.claim,
            fence: hold.fence,
            in_transaction: false,
            place: &self.place,
        };
        point::pass("postgres.settling");
        let written = match settler.write(&session, &settling).await {
            Ok(lost) if lost.is_empty() => Ok(true),
            // After a call without an answer, what it wrote is found written.
            Ok(lost) if hold.unsure => settler.was_written(&session, &settling, &lost).await,
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        written.map_err(|error| {
            hold.unsure = true;
            link.failed(error)
        })
    }
}
