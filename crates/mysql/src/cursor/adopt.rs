//! Adoption: where reading a table begins that had rows before Postrider came.

use mysql_async::{Params, params};
use postrider_core::Fault;
use postrider_core::cursor::{Begin, Found, Standing, missing};

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::rows::{number, text};
use crate::session::Session;
use crate::sql::Names;
use crate::sql::cursor::{CursorSql, NEXT_ID};
use crate::table::{Server, Table};

/// Makes sure that the outbox has a position that its ids have not fallen behind.
pub(crate) async fn adopt(session: &mut Session, config: &Config, table: &Table) -> Result<(), Fault> {
    let told = |error| fault(&config.place(), error);
    let mut tries = 0;
    loop {
        let sql = CursorSql::new(config, table);
        let error = match standing(session, config, table, &sql).await {
            Ok(Standing::Known) => return Ok(()),
            Ok(Standing::Refused(refusal)) => return Err(refusal),
            Ok(Standing::Begins(begin)) => match write(session, config, &sql, &begin).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Err(error) => error,
        };
        session.again(error, &mut tries).await.map_err(told)?;
    }
}

/// Why reading would not begin: what [`adopt`] would say, without writing anything.
pub(crate) async fn refusal(
    session: &mut Session,
    config: &Config,
    table: &Table,
) -> Result<Option<Fault>, Error> {
    let sql = CursorSql::new(config, table);
    Ok(match standing(session, config, table, &sql).await? {
        Standing::Known | Standing::Begins(_) => None,
        Standing::Refused(refusal) => Some(refusal),
    })
}

/// The highest id that was ever drawn.
pub(super) async fn drawn(session: &mut Session, config: &Config, table: &Table) -> Result<i64, Error> {
    if table.server == Server::Mysql {
        // It would tell what it knew a day ago.
        session.run("set session information_schema_stats_expiry = 0").await?;
    }
    let named = params! {
        "schema" => config.layout.schema.as_ref().map(|schema| schema.as_str()),
        "table" => config.layout.table.as_str(),
    };
    let next = session.first(NEXT_ID, named).await?.and_then(|row| number(&row, 0));
    Ok(next.unwrap_or(1).saturating_sub(1))
}

async fn standing(
    session: &mut Session,
    config: &Config,
    table: &Table,
    sql: &CursorSql,
) -> Result<Standing, Error> {
    let position = Names::new(config).position;
    let known =
        format!("select position, start from {position} where outbox = :outbox and position is not null");
    let known = session.first(&known, params! { "outbox" => config.layout.table.as_str() }).await?;
    let bounds = session.first(&sql.bounds, Params::Empty).await?;
    let bound = |at| bounds.as_ref().and_then(|row| number(row, at));
    let drawn = drawn(session, config, table).await?;
    let found = Found {
        known: known.map(|row| (number(&row, 0).unwrap_or(0), text(&row, 1).unwrap_or_default())),
        highest: bound(0).map_or(drawn, |highest| highest.max(drawn)),
        lowest: bound(1),
        team: None,
    };
    Ok(Standing::decide(&config.place(), config.start, found))
}

async fn write(session: &mut Session, config: &Config, sql: &CursorSql, begin: &Begin) -> Result<(), Error> {
    let names = Names::new(config);
    let outbox = config.layout.table.as_str();
    session.begin().await?;
    // What an operator buried before the first start stays buried.
    let kept = [&names.exceptions].into_iter().filter(|_| begin.is_known);
    for table in kept.chain([&names.ranges, &names.claims, &names.closed]) {
        let sql = format!("delete from {table} where outbox = :outbox");
        session.execute(&sql, params! { "outbox" => outbox }).await?;
    }
    let (first, last) = (begin.look_back_from(), begin.position);
    let ids = session.query(&sql.between, params! { "first" => first, "last" => last }).await?;
    let gaps = missing(ids.iter().filter_map(|row| number(row, 0)), first..=last);
    let gaps: Vec<(i64, i64)> = gaps.iter().map(|gap| (*gap.start(), *gap.end())).collect();
    let insert = format!(
        "insert into {} (outbox, position, claimed, start, gaps) values (:outbox, :position, :position, :start, :gaps) \
         on duplicate key update position = values(position), claimed = values(claimed), returned = null, \
         start = values(start), gaps = values(gaps), epoch = epoch + 1",
        names.position
    );
    let params = params! {
        "outbox" => outbox,
        "position" => begin.position,
        "start" => &begin.word,
        "gaps" => serde_json::to_string(&gaps).unwrap_or_default(),
    };
    session.execute(&insert, params).await?;
    session.commit().await
}
