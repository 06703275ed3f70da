//! What a user types.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, Parser, Subcommand};

use crate::{commands, exit};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
First steps:
  postrider demo                      see the whole road, with no configuration and no server
  postrider init && postrider migrate write a configuration, create the tables
  echo '{\"total\": 42}' | postrider append --type shop.order.created.v1 --aggregate-type Order --aggregate-id 17
  postrider run                       relay until you press Ctrl-C";

/// Relays events from a transactional outbox to brokers, at least once and in order.
///
/// An application inserts events into an outbox table inside its own transactions; postrider publishes them.
#[derive(Parser)]
#[command(name = "postrider", version, styles = STYLES, arg_required_else_help = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(short, long, global = true, value_name = "FILE", env = "POSTRIDER_CONFIG", hide_env_values = true)]
    #[arg(default_value = "postrider.toml")]
    pub(crate) config: PathBuf,

    /// Says more on stderr; twice, still more. RUST_LOG is honoured too.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Args),
    Run(commands::run::Args),
    Init(commands::init::Args),
    Migrate(commands::migrate::Args),
    Check(commands::check::Args),
    Append(commands::append::Args),
    Status(commands::status::Args),
    List(commands::list::Args),
    Show(commands::show::Args),
    Revive(commands::revive::Args),
    Bury(commands::bury::Args),
    Prune(commands::prune::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_surface_is_consistent() {
        super::Args::command().debug_assert();
    }
}
