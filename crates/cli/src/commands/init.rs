use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use postrider_core::Fault;

use crate::adopt::{self, Adopted, Fits, Named};
use crate::config::secret::{Secret, Surroundings};
use crate::config::template::{TEMPLATE, adopting};
use crate::exit::{Code, Failure};
use crate::outbox;
use crate::output::{data, note};

/// Writes a commented configuration file.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  postrider init                      writes postrider.toml
  postrider init -c shop.toml         writes shop.toml
  postrider init --print | less       shows it
  postrider init --from 'postgres://app:${DB_PASSWORD}@db/shop' --table shop.outbox
                                      looks at a table that is there, and writes the layout that fits it, too

A password is never written: where the URL has one, the configuration says ${DB_PASSWORD}.")]
pub(crate) struct Args {
    /// Looks at the outbox table of this PostgreSQL database, and writes what fits it.
    #[arg(long, value_name = "URL")]
    from: Option<String>,

    /// The table to look at, when several could be the outbox: outbox, shop.outbox, '"Shop"."Outbox"'.
    #[arg(long, value_name = "NAME", requires = "from")]
    table: Option<String>,

    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,

    /// Prints the configuration instead of writing it.
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(args: &Args, path: &Path) -> Result<(), Failure> {
    let Some(from) = &args.from else {
        if args.print {
            return data(TEMPLATE);
        }
        write(args, path, TEMPLATE)?;
        note(&format!(
            "Wrote {}. Next: `postrider migrate` creates the tables, `postrider check` tests them, `postrider run` relays.",
            path.display()
        ));
        return Ok(());
    };
    let (adopted, table) = look(args, from).await?;
    let file = layout_file(path, &table);
    let config = adopting(from, &adopted, &file);
    for told in &adopted.told {
        note(told);
    }
    if args.print {
        data(&config)?;
        return match &adopted.layout {
            Fits::BuiltIn(_) => Ok(()),
            Fits::Own(text) => data(&format!("\n# ---- {} ----\n{text}", file.display())),
        };
    }
    match &adopted.layout {
        Fits::BuiltIn(name) => {
            write(args, path, &config)?;
            note(&format!(
                "Table \"{table}\" fits the built-in layout \"{name}\". Wrote {}.",
                path.display()
            ));
        }
        Fits::Own(text) => {
            // The configuration last: it names the layout's file.
            write(args, &file, text)?;
            write(args, path, &config)?;
            note(&format!("Wrote {} for table \"{table}\", and {}.", file.display(), path.display()));
        }
    }
    if adopted.needs_start {
        note(
            "Set [outbox] start: with the rows that are there (\"beginning\"), or with the first new one (\"now\").",
        );
    }
    note(
        "Next: `postrider migrate` creates Postrider's own tables beside it, `postrider check` compares layout and table.",
    );
    Ok(())
}

/// Looks at the live database.
async fn look(args: &Args, from: &str) -> Result<(Adopted, String), Failure> {
    let url = Secret::expand(from, &Surroundings).map_err(|problem| {
        Failure::usage("--from", problem, "Secrets are written ${NAME} or ${file:/path}")
    })?;
    if !url.reveal().starts_with("postgres://") && !url.reveal().starts_with("postgresql://") {
        return Err(Failure::usage(
            "--from",
            format!("\"{url}\" is no PostgreSQL database"),
            "Write it like postgres://user@host/database; for SQLite write the layout by hand, as in the README",
        ));
    }
    let named = args.table.as_deref().map(Named::parse);
    let mut names = adopt::side_tables();
    names.extend(named.iter().flat_map(|named| [named.table.clone(), named.table.to_lowercase()]));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tables = postrider_postgres::describe(url.reveal(), &names).await.map_err(from_here)?;
    let table = adopt::choose(&tables, named.as_ref())?;
    let adopted = adopt::adopt(table, &tables).map_err(|unclear| {
        Failure::failed(
            format!("table \"{}.{}\"", table.schema, table.name),
            format!("its layout cannot be told: {}", unclear.join("; ")),
            "Write a layout file by hand, as in the README, and name it in [outbox] layout",
        )
    })?;
    Ok((adopted, table.name.clone()))
}

fn from_here(fault: Fault) -> Failure {
    if fault.place == "[outbox] url" {
        return Failure::new(Code::Usage, Fault::new("--from", fault.problem, fault.remedy));
    }
    outbox::failure(fault)
}

/// Beside the configuration, under the table's name.
fn layout_file(config: &Path, table: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = table.chars().map(plain).collect();
    let directory = config.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directory.join(format!("{name}-layout.toml"))
}

fn write(args: &Args, path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if !args.force {
        // Whoever creates it in the meantime keeps it.
        options.create_new(true);
    }
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| unwritten(path, &error))
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
