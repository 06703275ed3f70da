use crate::config::Config;
use crate::exit::Failure;
use postrider_core::clock::Clock;
use postrider_core::source::*;
use postrider_core::store::Store;
use std::sync::Arc;
pub(crate) struct S;
impl Source for S {
    type Hold = ();
    fn features(&self) -> SourceFeatures {
        todo!()
    }
    async fn claim(&self, ask: &Ask) -> Result<Claimed<()>, SourceError> {
        todo!()
    }
    async fn extend(&self, hold: &mut ()) -> Result<(), SourceError> {
        todo!()
    }
    async fn settle(
        &self,
        hold: &mut (),
        s: &[(usize, postrider_core::Settlement)],
    ) -> Result<(), SourceError> {
        todo!()
    }
    async fn release(&self, hold: ()) -> Result<(), SourceError> {
        todo!()
    }
    async fn retire(&self) -> Result<(), SourceError> {
        todo!()
    }
}
pub(crate) async fn store(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    todo!()
}
pub(crate) async fn source(config: &Config, clock: &Arc<dyn Clock>) -> Result<(S, Arc<dyn Store>), Failure> {
    todo!()
}
