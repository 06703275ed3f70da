use serde::Serialize;

use super::SharedClock;
use crate::config::Config;
use crate::exit::Failure;
use crate::filter::{VerbArgs, resolve};
use crate::output::{data, json};
use crate::{human, outbox};

/// Makes pending entries dead: they are not published until they are revived.
///
/// What a relay holds or has published stays as it is.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider bury 17 --reason 'wrong price, see INC-42'
  postrider bury --key 17 --dry-run")]
pub(crate) struct Args {
    #[command(flatten)]
    verb: VerbArgs,

    /// Why; `postrider show` tells it.
    #[arg(long, default_value = "buried by an operator")]
    reason: String,
}

#[derive(Serialize)]
struct Done {
    buried: u64,
    dry_run: bool,
}

pub(crate) async fn run(args: &Args, config: &Config, clock: &SharedClock) -> Result<(), Failure> {
    let filter = args.verb.filter("bury")?;
    let store = outbox::store(config, clock).await?;
    let filter = resolve(&*store, filter).await?;
    let dry_run = args.verb.dry_run;
    let buried = store.bury(&filter, &args.reason, dry_run).await?;
    if args.verb.json {
        return json(&Done { buried, dry_run });
    }
    let verb = if dry_run { "Would bury" } else { "Buried" };
    let hint = if buried > 0 && !dry_run { " `postrider revive` brings them back." } else { "" };
    data(&format!("{verb} {}.{hint}\n", human::entries(buried)))
}
