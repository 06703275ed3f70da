use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::config::template::TEMPLATE;
use crate::exit::Failure;
use crate::output::{data, note};

/// Writes a commented configuration file.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider init                      writes postrider.toml
  postrider init -c shop.toml         writes shop.toml
  postrider init --print | less       shows it")]
pub(crate) struct Args {
    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,

    /// Prints the configuration instead of writing it.
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &Args, path: &Path) -> Result<(), Failure> {
    if args.print {
        return data(TEMPLATE);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if !args.force {
        // Whoever creates it in the meantime keeps it.
        options.create_new(true);
    }
    options
        .open(path)
        .and_then(|mut file| file.write_all(TEMPLATE.as_bytes()))
        .map_err(|error| unwritten(path, &error))?;
    let path = path.display();
    note(&format!(
        "Wrote {path}. Next: `postrider migrate` creates the tables, `postrider check` tests them, `postrider run` relays."
    ));
    Ok(())
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    let place = path.display().to_string();
    if error.kind() == std::io::ErrorKind::AlreadyExists {
        return Failure::usage(
            place,
            "there is such a file already, and it is left as it is",
            "Choose another with -c, or write over it with --force",
        );
    }
    Failure::failed(place, format!("cannot be written: {error}"), "Look at the directory and its permissions")
}
