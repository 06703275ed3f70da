//! One file per command.

pub(crate) mod append;
pub(crate) mod bury;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod migrate;
pub(crate) mod prune;
pub(crate) mod revive;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod status;

use std::sync::Arc;

use postrider_core::clock::Clock;
use postrider_relay::SystemClock;

use crate::args::{Args, Command};
use crate::config::Config;
use crate::exit::Failure;

/// Does what was typed.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::failed("postrider", format!("cannot start: {error}"), "Look at the limits of this process")
    })?;
    let ended = runtime.block_on(dispatch(args));
    // A second signal must end at once, whatever a database's thread is waiting for.
    runtime.shutdown_background();
    ended
}

/// Time is an argument here too.
pub(crate) type SharedClock = Arc<dyn Clock>;

async fn dispatch(args: Args) -> Result<(), Failure> {
    let path = args.config;
    let config = || Config::load(&path);
    let clock: &SharedClock = &(Arc::new(SystemClock::new()) as _);
    match args.command {
        Command::Demo(args) => demo::run(args, clock).await,
        Command::Init(args) => init::run(&args, &path).await,
        Command::Run(args) => run::run(&args, &config()?, clock).await,
        Command::Migrate(args) => migrate::run(&args, &config()?).await,
        Command::Check(args) => check::run(&args, &config()?, clock).await,
        Command::Append(args) => append::run(&args, &config()?, clock).await,
        Command::Status(args) => status::run(&args, &config()?, clock).await,
        Command::List(args) => list::run(&args, &config()?, clock).await,
        Command::Show(args) => show::run(&args, &config()?, clock).await,
        Command::Revive(args) => revive::run(&args, &config()?, clock).await,
        Command::Bury(args) => bury::run(&args, &config()?, clock).await,
        Command::Prune(args) => prune::run(&args, &config()?, clock).await,
    }
}
