use std::path::PathBuf;
use std::time::Duration;

use super::SharedClock;
use crate::demo::{self, Wish};
use crate::exit::Failure;

/// Shows the whole road on an embedded outbox, and proves that nothing was lost.
///
/// A small shop writes orders in transactions, some of them rolled back on purpose; the relay publishes their events
/// into a file. At the end the file is read back and compared with the shop's own tables. Needs no configuration and no
/// server, and leaves nothing behind.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider demo
  postrider demo --seconds 20 --rate 5000
  postrider demo --keep here                    keeps the database and the file for you to look at")]
pub(crate) struct Args {
    /// How long the shop is open.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Events per second that the shop writes.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Keeps what it makes in this new directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, clock: &SharedClock) -> Result<(), Failure> {
    demo::run(Wish { open: Duration::from_secs(args.seconds), rate: args.rate, keep: args.keep }, clock).await
}
