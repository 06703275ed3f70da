//! The layout that the configuration names: a built-in, or a file of the user's own.

use postrider_core::Fault;
use postrider_core::layout::{Identifier, Layout, Order};

use crate::config::Config;
use crate::exit::{Code, Failure};

/// No layout is longer; what is, is some other file.
const LAYOUT_BYTES_MAX: u64 = 1 << 20;

/// Loads it, under the table's own name and schema where the configuration gives one.
pub(crate) fn load(config: &Config) -> Result<Layout, Failure> {
    let given = &config.outbox.layout;
    let mut layout = if is_path(given) { read(given) } else { Layout::built_in(given) }.map_err(usage)?;
    let named = |key: &str, name: &String| {
        Identifier::new(name.clone()).map_err(|problem| {
            Failure::usage(format!("[outbox] {key}"), problem, "Give its name as the database has it")
        })
    };
    if let Some(table) = &config.outbox.table {
        layout.table = named("table", table)?;
    }
    if let Some(schema) = &config.outbox.schema {
        layout.schema = Some(named("schema", schema)?);
    }
    layout.validate(given).map_err(usage)?;
    let routes: Vec<_> = config.routes.iter().map(|known| known.route.clone()).collect();
    if let Some(known) = config.routes.iter().find(|known| known.route.order == Some(Order::Key))
        && layout.order == Order::None
    {
        return Err(Failure::usage(
            &known.place,
            format!("this [[route]] has order = \"key\", and layout \"{}\" gives none", layout.name),
            "Leave it out: the table has no column that an order could come from",
        ));
    }
    Ok(layout.with_routes(&routes))
}

fn usage(fault: Fault) -> Failure {
    Failure::new(Code::Usage, fault)
}

fn is_path(given: &str) -> bool {
    given.contains(['/', '.', '\\'])
}

fn read(path: &str) -> Result<Layout, Fault> {
    let unreadable = |error: std::io::Error| {
        Fault::new(
            path,
            format!("the layout file cannot be read: {error}"),
            "Look at [outbox] layout: a path starts at the working directory",
        )
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > LAYOUT_BYTES_MAX {
        let problem = format!("has {bytes} bytes, more than any layout ({LAYOUT_BYTES_MAX})");
        return Err(Fault::new(path, problem, "Name the right file in [outbox] layout"));
    }
    Layout::parse(path, &std::fs::read(path).map_err(unreadable)?)
}
