use postrider_core::store::{Filter, Store};
use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::filter::{VerbArgs, resolve};
use crate::output::{data, json};
use crate::{human, outbox};

/// Deletes published entries, in batches; nothing else is ever deleted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider prune --older-than 7d
  postrider prune --type 'shop.product.viewed.*' --older-than 1d --dry-run
The relay does it by itself where the configuration says `[retention] published = \"7d\"`.")]
pub(crate) struct Args {
    #[command(flatten)]
    verb: VerbArgs,
}

#[derive(Serialize)]
struct Done {
    pruned: u64,
    dry_run: bool,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let filter = args.verb.filter("prune")?;
    let dry_run = args.verb.dry_run;
    let store = outbox::store(config, clock).await?;
    let filter = resolve(&*store, filter).await?;
    let pruned = if dry_run { store.prune(&filter, true).await? } else { prune(&*store, filter).await? };
    if args.verb.json {
        return json(&Done { pruned, dry_run });
    }
    let verb = if dry_run { "Would delete" } else { "Deleted" };
    data(&format!("{verb} {}.\n", human::entries(pruned)))
}

async fn prune(store: &dyn Store, mut filter: Filter) -> Result<u64, Failure> {
    let mut total = 0;
    loop {
        let pruned = store.prune(&filter, false).await?;
        total += pruned;
        filter.limit = filter.limit.map(|limit| limit.saturating_sub(pruned));
        if pruned == 0 || filter.limit == Some(0) {
            return Ok(total);
        }
    }
}
