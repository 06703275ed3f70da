use serde::Serialize;

use crate::config::Config;
use crate::exit::Failure;
use crate::output::{data, json, note};
use crate::sinks::kafka;
use crate::{layout, outbox};

/// Creates or upgrades the tables, and creates the topics.
///
/// The native layout's table is created; the table of any other layout belongs to its application, and only Postrider's
/// own tables beside it are made. Of the topics in [[topic]] those that are missing are created. What is there already stays;
/// how a topic differs from what is configured is said.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider migrate
  postrider migrate --print > outbox.sql        for migrations of your own")]
pub(crate) struct Args {
    /// Prints the SQL instead of running it, and the commands that create the topics as comments in it.
    #[arg(long)]
    print: bool,

    /// Prints JSON.
    #[arg(long, conflicts_with = "print")]
    json: bool,
}

#[derive(Serialize)]
struct Done {
    done: Vec<String>,
    /// How topics that are there differ from what is configured.
    differences: Vec<String>,
}

pub(crate) async fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let layout = layout::load(config)?;
    if args.print {
        return data(&format!("{}{}", outbox::migration_sql(config)?, kafka::migration_text(config)));
    }
    let mut done = outbox::migrate(config).await?;
    let (created, differences) = kafka::migrate(config, &layout).await?;
    done.extend(created);
    for difference in &differences {
        note(&format!("{difference}. {}", difference.remedy()));
    }
    if args.json {
        let differences = differences.iter().map(ToString::to_string).collect();
        return json(&Done { done, differences });
    }
    if done.is_empty() && !differences.is_empty() {
        return data("Nothing is missing. What differs was left as it is.\n");
    }
    if done.is_empty() {
        return data("Everything is up to date.\n");
    }
    done.iter().try_for_each(|what| data(&format!("{what}\n")))
}
