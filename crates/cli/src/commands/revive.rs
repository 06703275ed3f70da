use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::filter::{VerbArgs, resolve};
use crate::output::{data, json};
use crate::{human, outbox};

/// Makes dead entries pending again, with no retries counted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider revive 17 18
  postrider revive --type 'shop.order.*' --newer-than 1h --dry-run
  postrider revive --all")]
pub(crate) struct Args {
    #[command(flatten)]
    verb: VerbArgs,
}

#[derive(Serialize)]
struct Done {
    revived: u64,
    dry_run: bool,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let filter = args.verb.filter("revive")?;
    let store = outbox::store(config, clock).await?;
    let filter = resolve(&*store, filter).await?;
    let dry_run = args.verb.dry_run;
    let revived = store.revive(&filter, dry_run).await?;
    if args.verb.json {
        return json(&Done { revived, dry_run });
    }
    let verb = if dry_run { "Would revive" } else { "Revived" };
    data(&format!("{verb} {}.\n", human::entries(revived)))
}
