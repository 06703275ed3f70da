//! `postrider check`: compares the layout with the live table.

use postrider_core::Fault;
use postrider_core::finding::{Finding, Weight};
use postrider_core::layout::{Column, Order, Way};

use crate::config::Config;
use crate::cursor;
use crate::fault::fault;
use crate::fitness::{faults, require_dead};
use crate::migrate::require_side;
use crate::session::Session;
use crate::status::{Owners, may_list};
use crate::table::{Index, Table, inspect};

/// Everything that is wrong, or worth knowing, about a live outbox.
pub async fn check(config: &Config) -> Vec<Finding> {
    match examine(config).await {
        Ok(findings) => findings,
        Err(fault) => vec![Finding { weight: Weight::Fault, fault }],
    }
}

async fn examine(config: &Config) -> Result<Vec<Finding>, Fault> {
    config.validate()?;
    let mut session = Session::open(config).await?;
    let table = inspect(&mut session, config).await?;
    let mut findings: Vec<Finding> =
        faults(config, &table).into_iter().map(|fault| Finding { weight: Weight::Fault, fault }).collect();
    let dead = require_dead(&mut session, config).await;
    let side = require_side(&mut session, config).await;
    let others = [dead, side].into_iter().filter_map(Result::err);
    findings.extend(others.map(|fault| Finding { weight: Weight::Fault, fault }));
    if config.layout.way == Way::Cursor {
        let refusal = cursor::refusal(&mut session, config, &table).await;
        findings.extend(refusal.map(|fault| Finding { weight: Weight::Fault, fault }));
    } else {
        findings.extend(index(config, &table));
        findings.extend(order(config, &table));
        let owners = may_list(&mut session, config, &table).await;
        findings.extend(listing(config, owners.map_err(|error| fault(&config.place(), error))?));
    }
    Ok(findings)
}

/// Claims look for open rows in order: without an index for that they look at the whole table.
fn index(config: &Config, table: &Table) -> Option<Finding> {
    let name = |column: &Option<Column>| Some(column.as_ref()?.name()?.as_str().to_owned());
    let columns = &config.layout.columns;
    let (status, id) = (name(&columns.status)?, name(&columns.id)?);
    let second = if table.id_counts(&config.layout) { id } else { name(&columns.time)? };
    // The primary key stands at the end of every index.
    let serves = |index: &Index| {
        let ends = index.columns.len() == 1 && table.id_counts(&config.layout);
        index.has(0, &status) && (index.has(1, &second) || ends)
    };
    if table.indexes.iter().any(serves) {
        return None;
    }
    let fault = Fault::new(
        config.place(),
        "no index gives open rows in order: at a start, and now and then, all entries of a status are read, or the whole table",
        format!("create index {0}_open on {0} ({status}, {second});", config.layout.table),
    );
    Some(Finding { weight: Weight::Advice, fault })
}

/// Where order is kept, a row that commits late is waited for; the list of transactions says how long one may come.
fn listing(config: &Config, owners: Owners) -> Option<Finding> {
    if owners != Owners::NoRight || !config.keeps_order() {
        return None;
    }
    let fault = Fault::new(
        config.place(),
        "the relay's user may not see which transactions are open: each claim asks for late rows among all that are open, \
         not only among the newest",
        "GRANT PROCESS ON *.* TO the relay's user.",
    );
    Some(Finding { weight: Weight::Advice, fault })
}

fn order(config: &Config, table: &Table) -> Option<Finding> {
    if config.layout.order == Order::Key && !table.id_counts(&config.layout) {
        let fault = Fault::new(
            config.place(),
            "its ids do not count, so events of a key are in order by time only, which is as good as the writers' clocks",
            "Add an auto_increment column and map it as columns.id, or set order = \"none\".",
        );
        return Some(Finding { weight: Weight::Note, fault });
    }
    None
}
