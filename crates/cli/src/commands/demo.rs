use crate::exit::Failure;
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    todo!()
}
