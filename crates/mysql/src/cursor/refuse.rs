//! What a cursor cannot follow without losing events is refused before it starts.

use mysql_async::Row;
use postrider_core::Fault;

use crate::config::Config;
use crate::fault::fault;
use crate::rows::{number, text};
use crate::session::Session;
use crate::status::{Listing, list};
use crate::table::{Index, Kind, Table};

const INSTEAD: &str = "Or use a status table with way = \"lease\", which needs none of this.";

/// Refuses what a cursor would lose events on, beyond what [`crate::fitness`] knows.
pub(super) async fn require_fit(session: &mut Session, config: &Config, table: &Table) -> Result<(), Fault> {
    if let Some(refusal) = unfit(config, table) {
        return Err(refusal);
    }
    let told = |error| fault(&config.place(), error);
    if matches!(list(session).await.map_err(told)?, Listing::NoRight) {
        return Err(may_not_look(session, config).await);
    }
    // Each of the servers knows some of these only.
    let sql = "show global variables where variable_name in \
        ('wsrep_on', 'auto_increment_increment', 'group_replication_enforce_update_everywhere_checks')";
    let rows = session.ask(sql).await.map_err(told)?;
    let found = |name: &str| {
        let is = |row: &&Row| text(row, 0).is_some_and(|found| found.eq_ignore_ascii_case(name));
        rows.iter().find(is)
    };
    let is_on = |name: &str| {
        found(name).and_then(|row| text(row, 1)).is_some_and(|on| on.eq_ignore_ascii_case("on") || on == "1")
    };
    if is_on("group_replication_enforce_update_everywhere_checks") {
        return Err(Fault::new(
            config.place(),
            "the server is one of several primaries of a group: the others draw ids too, and whose transactions are alive there cannot be seen here",
            "Run the group with a single primary, or use a status table with way = \"lease\".",
        ));
    }
    if is_on("wsrep_on") {
        return Err(Fault::new(
            config.place(),
            "the server is a node of a Galera cluster: the other nodes draw ids too, and whose transactions are alive there cannot be seen here",
            "Use a status table with way = \"lease\" on Galera.",
        ));
    }
    if found("auto_increment_increment").and_then(|row| number(row, 1)).is_some_and(|by| by > 1) {
        return Err(Fault::new(
            config.place(),
            "auto_increment_increment is above 1: another server draws the ids in between, and whose transactions are alive there cannot be seen here",
            "Set auto_increment_increment = 1 on the server, if no other one writes to this table; or use a status table with way = \"lease\".",
        ));
    }
    Ok(())
}

async fn may_not_look(session: &mut Session, config: &Config) -> Fault {
    let user = session.ask("select current_user()").await.unwrap_or_default();
    let user = user.first().and_then(|row| text(row, 0)).unwrap_or_default();
    let user = user.rsplit_once('@').map_or(user.clone(), |(name, host)| format!("'{name}'@'{host}'"));
    Fault::new(
        config.place(),
        format!(
            "user {user} may not see which transactions are alive (information_schema.innodb_trx): without that an event that commits late would be lost"
        ),
        format!("grant process on *.* to {user};  {INSTEAD}"),
    )
}

/// What the table itself is unfit for.
pub(super) fn unfit(config: &Config, table: &Table) -> Option<Fault> {
    let refuse = |problem: String, remedy: String| Some(Fault::new(config.place(), problem, remedy));
    let id = table.id(&config.layout)?;
    if id.kind != Kind::Integer || !id.auto_increment {
        return refuse(
            format!(
                "its id \"{}\" is not drawn by AUTO_INCREMENT: an id that is given by the application may be written behind what was read",
                id.name
            ),
            format!(
                "alter table {} modify {} bigint unsigned not null auto_increment;  or use a status table with way = \"lease\".",
                config.layout.table, id.name
            ),
        );
    }
    // On a partitioned table it is as unique as the server can make it.
    let is_unique = |index: &&Index| {
        index.unique && index.has(0, &id.name) && (index.columns.len() == 1 || table.partitioned)
    };
    if !table.indexes.iter().any(|index| is_unique(&index)) {
        return refuse(
            format!("its id \"{}\" is not unique, so a row cannot be found again by it", id.name),
            format!("alter table {} add unique key ({});", config.layout.table, id.name),
        );
    }
    None
}
