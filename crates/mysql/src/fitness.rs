//! Whether a relay can work on a table: what is refused before anything is claimed.

use postrider_core::Fault;
use postrider_core::layout::Published;

use crate::config::Config;
use crate::fault::fault;
use crate::session::Session;
use crate::sql::time::TimeColumn;
use crate::table::{Kind, LiveColumn, Table};

/// Characters of an id that Postrider's own table takes.
const ID_CHARS_MAX: i64 = 255;

/// Refuses a table whose columns cannot be what the layout says.
pub(crate) fn require_fit(config: &Config, table: &Table) -> Result<(), Fault> {
    faults(config, table).into_iter().next().map_or(Ok(()), Err)
}

/// Everything that keeps a relay from working on the table.
pub(crate) fn faults(config: &Config, table: &Table) -> Vec<Fault> {
    [engine(config, table), id(config, table), due(config, table), words(config, table), hash(config, table)]
        .into_iter()
        .flatten()
        .collect()
}

/// Refuses a table of dead letters that is not there, or has other columns: no dead letter could be written.
pub(crate) async fn require_dead(session: &mut Session, config: &Config) -> Result<(), Fault> {
    let Some(dead) = &config.layout.sides.dead else { return Ok(()) };
    let failed = |error| fault(&config.place(), error);
    let table = Table::named(session, &config.layout, &dead.name).await.map_err(failed)?;
    let place = format!("table \"{}\" in {}", dead.name, config.connect.shown());
    let Some(table) = table else {
        return Err(Fault::new(
            place,
            "dead letters are to be written there, and there is no such table",
            "Create it with the application's own migrations, or leave [dead.table] out of the layout.",
        ));
    };
    match dead.given().find(|(_, column)| table.column(column.as_str()).is_none()) {
        None => Ok(()),
        Some((key, column)) => Err(Fault::new(
            place,
            format!("it has no column \"{column}\""),
            format!("Correct {key} in [dead.table.columns] of the layout, or add the column."),
        )),
    }
}

fn refuse(config: &Config, problem: String, remedy: impl Into<String>) -> Option<Fault> {
    Some(Fault::new(config.place(), problem, remedy))
}

fn engine(config: &Config, table: &Table) -> Option<Fault> {
    if table.relation != "BASE TABLE" {
        return refuse(
            config,
            "it is a view, and rows are locked in a table".into(),
            "Name the table itself.",
        );
    }
    if table.engine.eq_ignore_ascii_case("InnoDB") {
        return None;
    }
    refuse(
        config,
        format!(
            "its engine is {}, which has no transactions: an event could be there without its effect",
            table.engine
        ),
        "Make it an InnoDB table: alter table … engine = InnoDB.",
    )
}

fn id(config: &Config, table: &Table) -> Option<Fault> {
    let id = table.id(&config.layout)?;
    let fits = match id.kind {
        Kind::Integer => true,
        Kind::Text => id.characters_max.is_some_and(|most| most <= ID_CHARS_MAX),
        _ => id.declared == "uuid",
    };
    if fits && table.id_index(&config.layout).is_none() {
        return refuse(
            config,
            format!(
                "no index finds a row by its id \"{}\", and whole tables would be locked for one row",
                id.name
            ),
            format!("alter table {} add unique key ({});", config.layout.table, id.name),
        );
    }
    if fits {
        return None;
    }
    refuse(
        config,
        format!("its id \"{}\" is a {}, by which Postrider does not find rows", id.name, id.declared),
        format!(
            "Map an integer, a text of at most {ID_CHARS_MAX} characters or a uuid as columns.id; an added auto_increment column will do."
        ),
    )
}

fn due(config: &Config, table: &Table) -> Option<Fault> {
    let layout = &config.layout;
    let due = TimeColumn::new(layout.columns.not_before.as_ref(), table, layout.zone)?;
    if due.is_comparable() {
        return None;
    }
    refuse(
        config,
        format!(
            "column \"{}\" is to say when a row is due, and the database cannot compare it with a time",
            due.name
        ),
        "Make it datetime(6) or timestamp(6), say as = \"unix_ms\" in the layout if it is a number, or leave columns.not_before out: then it is kept in Postrider's own table.",
    )
}

fn words(config: &Config, table: &Table) -> Option<Fault> {
    let layout = &config.layout;
    let words = layout.status.as_ref()?;
    let live = table.mapped(layout.columns.status.as_ref())?;
    let published = words.published.as_deref().filter(|_| layout.published == Published::Status);
    let needed = [
        Some(words.pending.as_str()),
        words.leased.as_deref(),
        published,
        words.dead.as_deref(),
        words.retry.as_deref(),
    ];
    let word = needed.into_iter().flatten().find(|word| !live.takes(word))?;
    refuse(
        config,
        format!("column \"{}\" has the type {}, which has no word \"{word}\"", live.name, live.declared),
        remedy(live),
    )
}

fn remedy(live: &LiveColumn) -> String {
    match live.kind {
        Kind::Enum => format!(
            "Its words are {}: correct [status] in the layout, or add the word to the column.",
            live.words.join(", ")
        ),
        Kind::Integer => {
            "Correct [status] in the layout: an integer's words are numbers such as \"0\" and \"1\".".into()
        }
        Kind::Text => "Correct [status] in the layout, or make the column longer.".into(),
        _ => "Map a column of text, an enum or an integer.".into(),
    }
}

/// A document that the server takes apart comes back as another text than was hashed.
fn hash(config: &Config, table: &Table) -> Option<Fault> {
    let columns = &config.layout.columns;
    columns.hash.as_ref()?;
    let payload = table.mapped(columns.payload.as_ref()).filter(|live| live.kind == Kind::Json)?;
    refuse(
        config,
        format!(
            "column \"{}\" is json, whose text is not kept as it was written, and columns.hash is to be verified over it",
            payload.name
        ),
        "Make it longtext, or leave columns.hash out.",
    )
}
