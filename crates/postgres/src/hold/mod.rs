//! Being built.

use std::sync::Arc;

use postrider_core::source::{Ask, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};

use crate::config::Config;
use crate::session::Session;
use crate::table::Table;

pub(crate) struct HoldSource {
    config: Arc<Config>,
}

#[derive(Debug)]
pub(crate) struct HoldHold;

impl HoldSource {
    pub(crate) async fn open(config: &Arc<Config>, _session: Session, _table: Table) -> Result<Self, Fault> {
        Ok(Self { config: Arc::clone(config) })
    }

    fn unbuilt(&self) -> SourceError {
        SourceError::Broken(Fault::new(self.config.place(), "this way is being built", ""))
    }
}

impl Source for HoldSource {
    type Hold = HoldHold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures {
            ordered: self.config.keeps_order(),
            settles: postrider_core::source::Settles::Each,
            wakes: false,
            lease_ttl: self.config.lease_ttl,
        }
    }

    async fn claim(&self, _ask: &Ask) -> Result<Claimed<HoldHold>, SourceError> {
        Err(self.unbuilt())
    }

    async fn extend(&self, _hold: &mut HoldHold) -> Result<(), SourceError> {
        Err(self.unbuilt())
    }

    async fn settle(
        &self,
        _hold: &mut HoldHold,
        _settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        Err(self.unbuilt())
    }

    async fn release(&self, _hold: HoldHold) -> Result<(), SourceError> {
        Err(self.unbuilt())
    }

    async fn retire(&self) -> Result<(), SourceError> {
        Err(self.unbuilt())
    }
}
