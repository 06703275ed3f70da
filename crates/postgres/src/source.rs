//! The source: what the relay takes entries from, in the layout's way.

use std::sync::Arc;

use postrider_core::layout::Way;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};

use crate::config::Config;
use crate::cursor::{CursorHold, CursorSource};
use crate::fault::fault;
use crate::fitness::{require_fit, warn_of_unknown_words};
use crate::hold::{HoldHold, HoldSource};
use crate::lease::{LeaseHold, LeaseSource};
use crate::migrate::require_side;
use crate::session::{Durable, Session};
use crate::table::inspect;

/// Opens an outbox for a relay.
///
/// # Errors
/// When the database cannot be reached, the table does not fit its layout or its way of claiming, or where to begin is not
/// said.
pub async fn open_source(config: &Config) -> Result<PostgresSource, Fault> {
    config.validate()?;
    let config = Arc::new(config.clone());
    let session = Session::open(&config, Durable::Soon).await?;
    let table = inspect(&session, &config).await?;
    require_fit(&session, &config, &table).await?;
    require_side(&session, &config).await?;
    warn_of_unknown_words(&session, &config, &table).await.map_err(|error| fault(&config.place(), error))?;
    let way = match config.layout.way {
        Way::Lease => Inner::Lease(Box::new(LeaseSource::open(&config, session, table).await?)),
        Way::Hold => Inner::Hold(Box::new(HoldSource::open(&config, session, table).await?)),
        Way::Cursor | Way::Log => Inner::Cursor(Box::new(CursorSource::open(&config, session, table).await?)),
    };
    Ok(PostgresSource(way))
}

/// A PostgreSQL outbox in one relay's hands.
pub struct PostgresSource(Inner);

enum Inner {
    Cursor(Box<CursorSource>),
    Lease(Box<LeaseSource>),
    Hold(Box<HoldSource>),
}

/// A claim of this source.
#[derive(Debug)]
pub struct Hold(Held);

#[derive(Debug)]
enum Held {
    Cursor(CursorHold),
    Lease(LeaseHold),
    Hold(Box<HoldHold>),
}

impl Source for PostgresSource {
    type Hold = Hold;

    fn features(&self) -> SourceFeatures {
        match &self.0 {
            Inner::Cursor(way) => way.features(),
            Inner::Lease(way) => way.features(),
            Inner::Hold(way) => way.features(),
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<Hold>, SourceError> {
        Ok(match &self.0 {
            Inner::Cursor(way) => held(way.claim(ask).await?, Held::Cursor),
            Inner::Lease(way) => held(way.claim(ask).await?, Held::Lease),
            Inner::Hold(way) => held(way.claim(ask).await?, |hold| Held::Hold(Box::new(hold))),
        })
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        match (&self.0, &mut hold.0) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.extend(hold).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.extend(hold).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.extend(hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        match (&self.0, &mut hold.0) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.settle(hold, settlements).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.settle(hold, settlements).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.settle(hold, settlements).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        match (&self.0, hold.0) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.release(hold).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.release(hold).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.release(*hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn retire(&self) -> Result<(), SourceError> {
        match &self.0 {
            Inner::Cursor(way) => way.retire().await,
            Inner::Lease(way) => way.retire().await,
            Inner::Hold(way) => way.retire().await,
        }
    }
}

fn held<H>(claimed: Claimed<H>, wrap: impl FnOnce(H) -> Held) -> Claimed<Hold> {
    match claimed {
        Claimed::Batch(Claim { hold, entries, more }) => {
            Claimed::Batch(Claim { hold: Hold(wrap(hold)), entries, more })
        }
        Claimed::Nothing(idle) => Claimed::Nothing(idle),
        Claimed::Standby => Claimed::Standby,
    }
}
