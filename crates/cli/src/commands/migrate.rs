use serde::Serialize;

use crate::config::Config;
use crate::exit::Failure;
use crate::outbox;
use crate::output::{data, json};

/// Creates or upgrades the tables.
///
/// The native layout's table is created; the table of any other layout belongs to its application, and only Postrider's
/// own tables beside it are made. What is there already stays.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider migrate
  postrider migrate --print > outbox.sql        for migrations of your own")]
pub(crate) struct Args {
    /// Prints the SQL instead of running it.
    #[arg(long)]
    print: bool,

    /// Prints JSON.
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

#[derive(Serialize)]
struct Done {
    done: Vec<String>,
}

pub(crate) async fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    if args.print {
        return data(&outbox::migration_sql(config)?);
    }
    let done = outbox::migrate(config).await?;
    if args.json {
        return json(&Done { done });
    }
    if done.is_empty() {
        return data("Everything is up to date.\n");
    }
    done.iter().try_for_each(|what| data(&format!("{what}\n")))
}
