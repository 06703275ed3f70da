use serde::Serialize;

use postrider_core::Fault;

use crate::config::Config;
use crate::exit::Failure;
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) async fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    todo!()
}
