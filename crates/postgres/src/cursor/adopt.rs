//! Adoption: where reading a table begins that had rows before Postrider came.

use postrider_core::Fault;
use postrider_core::cursor::{Begin, Found, Standing, TeamPosition};
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::fitness::Sequence;
use crate::session::{Durable, Session};
use crate::sql::cursor::CursorSql;
use crate::sql::failed::FailedSql;
use crate::sql::{Names, in_schema};

/// Makes sure that the outbox has a position that its ids have not fallen behind.
pub(super) async fn adopt(
    session: &Session,
    config: &Config,
    sql: &CursorSql,
    sequence: &Sequence,
    failed: Option<&FailedSql>,
) -> Result<(), Fault> {
    let told = |error| fault(&config.place(), error);
    match standing(session, config, sql, sequence).await.map_err(told)? {
        Standing::Known => Ok(()),
        Standing::Begins(begin) => write(session, config, sql, begin, failed).await.map_err(told),
        Standing::Refused(refusal) => Err(refusal),
    }
}

/// Why reading would not begin: what [`adopt`] would say, without writing anything.
pub(super) async fn refusal(
    session: &Session,
    config: &Config,
    sql: &CursorSql,
    sequence: &Sequence,
) -> Result<Option<Fault>, Error> {
    Ok(match standing(session, config, sql, sequence).await? {
        Standing::Known | Standing::Begins(_) => None,
        Standing::Refused(refusal) => Some(refusal),
    })
}

async fn standing(
    session: &Session,
    config: &Config,
    sql: &CursorSql,
    sequence: &Sequence,
) -> Result<Standing, Error> {
    let names = Names::new(&config.layout);
    let outbox = config.layout.table.as_str();
    let known = session
        .first(
            &format!("select position, start from {} where outbox = $1", names.position),
            &[(&outbox, Type::TEXT)],
        )
        .await?;
    let drawn =
        format!("select case when is_called then last_value else last_value - 1 end from {}", sequence.name);
    let number = |row: Option<tokio_postgres::Row>| row.map(|row| row.get::<_, i64>(0));
    let drawn = number(session.first(&drawn, &[]).await?).unwrap_or(0);
    let highest = number(session.first(&sql.highest, &[]).await?).map_or(drawn, |id| id.max(drawn));
    let found = Found {
        known: known.map(|row| (row.get(0), row.get(1))),
        highest,
        lowest: number(session.first(&sql.lowest, &[]).await?),
        team: team_position(session, config).await?,
    };
    Ok(Standing::decide(&config.place(), config.start, found))
}

async fn write(
    session: &Session,
    config: &Config,
    sql: &CursorSql,
    begin: Begin,
    failed: Option<&FailedSql>,
) -> Result<(), Error> {
    let from = begin.look_back_from();
    let Begin { position, word, seen, is_known, .. } = begin;
    let names = Names::new(&config.layout);
    let outbox = config.layout.table.as_str();
    let transaction = session.begin(Durable::Now).await?;
    // What an operator buried before the first start stays buried.
    let kept = [&names.exceptions].into_iter().filter(|_| is_known);
    for table in kept.chain([&names.ranges, &names.claims, &names.closed]) {
        transaction
            .execute(&format!("delete from {table} where outbox = $1"), &[(&outbox, Type::TEXT)])
            .await?;
    }
    let gaps = transaction.query(&sql.missing, &[(&from, Type::INT8), (&position, Type::INT8)]).await?;
    let first: Vec<i64> = gaps.iter().map(|row| row.get(0)).collect();
    let last: Vec<i64> = gaps.iter().map(|row| row.get(1)).collect();
    let params = [
        (&outbox as _, Type::TEXT),
        (&position as _, Type::INT8),
        (&word as _, Type::TEXT),
        (&first as _, Type::INT8_ARRAY),
        (&last as _, Type::INT8_ARRAY),
        (&seen as _, Type::INT8),
    ];
    let insert = format!(
        "insert into {} as p (outbox, position, claimed, start, gap_first, gap_last, seen) values ($1, $2, $2, $3, $4, $5, $6) \
         on conflict (outbox) do update set position = excluded.position, claimed = excluded.claimed, returned = '{{}}', \
         start = excluded.start, gap_first = excluded.gap_first, gap_last = excluded.gap_last, \
         seen = excluded.seen, epoch = p.epoch + 1",
        names.position
    );
    transaction.execute(&insert, &params).await?;
    if let Some(failed) = failed {
        adopt_failed(&transaction, config, failed, position).await?;
    }
    transaction.commit().await
}

async fn team_position(session: &Session, config: &Config) -> Result<Option<TeamPosition>, Error> {
    let Some(team) = &config.layout.sides.position else { return Ok(None) };
    let (id, position) = (team.columns.id.quoted(), team.columns.position.quoted());
    let table = in_schema(&config.layout, &team.name.quoted());
    let latest = format!(
        "select {id}::bigint, coalesce({position}, 0)::bigint from {table} order by {id} desc limit 1"
    );
    let row = session.first(&latest, &[]).await?;
    Ok(row.map(|row| TeamPosition {
        seen: row.get(0),
        position: row.get(1),
        name: team.name.as_str().into(),
    }))
}

/// What the relay before this one was about to try again, or had given up (B8).
async fn adopt_failed(
    session: &Session,
    config: &Config,
    failed: &FailedSql,
    position: i64,
) -> Result<(), Error> {
    let retries_max = i32::try_from(config.layout.retry.retries_max).unwrap_or(i32::MAX);
    let outbox = config.layout.table.as_str();
    let params = [(&outbox as _, Type::TEXT), (&position as _, Type::INT8), (&retries_max as _, Type::INT4)];
    session.execute(&failed.adopt, &params).await.map(drop)
}
