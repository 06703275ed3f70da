//! Whether a table can be claimed from at all, and in its layout's way: asked when a source opens, and told in full by `check`.

use postrider_core::Fault;
use postrider_core::layout::{Column, Way};
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::{Durable, Session};
use crate::sql::Names;
use crate::sql::depth::unknown_words;
use crate::table::{Kind, Table};
use crate::zone;

/// Older servers lack what the statements are written with, and nobody maintains them.
const SERVER_MIN: i32 = 150_000;

/// $1 the table, $2 every part of it.
const SURROUNDINGS: &str = "\
select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), \
current_setting('transaction_read_only') = 'on', row_security_active($1::oid), \
exists (select 1 from pg_subscription_rel where srrelid = any($2::oid[])), current_user::text";

/// The sequence that a column's ids are drawn from by the INSERT: of an identity, or of a default's nextval.
/// $1 the table, $2 the column.
const SEQUENCE: &str = "\
select format('%I.%I', n.nspname, c.relname), s.seqcache, s.seqincrement, s.seqcycle \
from pg_sequence as s join pg_class as c on c.oid = s.seqrelid join pg_namespace as n on n.oid = c.relnamespace \
where s.seqrelid in ( \
select d.objid from pg_depend as d join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid \
where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.deptype = 'i' \
and a.attrelid = $1 and a.attname = $2 \
union select d.refobjid from pg_depend as d join pg_attrdef as f on f.oid = d.objid \
join pg_attribute as a on a.attrelid = f.adrelid and a.attnum = f.adnum \
where d.classid = 'pg_attrdef'::regclass and d.refclassid = 'pg_class'::regclass and a.attrelid = $1 and a.attname = $2)";

/// The sequence that ids are drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// Quoted, with its schema.
    pub(crate) name: String,
    pub(crate) cache: i64,
    pub(crate) increment: i64,
    pub(crate) cycles: bool,
}

/// Refuses a table that cannot be claimed from: the first reason of [`refusals`].
pub(crate) async fn require_fit(session: &Session, config: &Config, table: &Table) -> Result<(), Fault> {
    let refusals = refusals(session, config, table).await.map_err(|error| fault(&config.place(), error))?;
    refusals.into_iter().next().map_or(Ok(()), Err)
}

/// Every reason why the table cannot be claimed from in its layout's way.
pub(crate) async fn refusals(session: &Session, config: &Config, table: &Table) -> Result<Vec<Fault>, Error> {
    let params = [(&table.oid as _, Type::OID), (&table.tree as _, Type::OID_ARRAY)];
    let mut found = Vec::new();
    let mut refuse = |problem: String, remedy: &str| found.push(Fault::new(config.place(), problem, remedy));
    let is_cursor = config.layout.way == Way::Cursor;
    if let Some(row) = session.first(SURROUNDINGS, &params).await? {
        let (number, version): (i32, String) = (row.get(0), row.get(1));
        if number < SERVER_MIN {
            refuse(
                format!("the server is PostgreSQL {version}"),
                "Upgrade it: PostgreSQL 15 is the oldest that Postrider works with.",
            );
        }
        let (is_standby, is_read_only): (bool, bool) = (row.get(2), row.get(3));
        if is_standby {
            refuse(
                "the server is a hot standby, which nobody can write to, and which shows neither who is about to commit nor in what order".into(),
                "Connect to the primary; target_session_attrs=read-write in [outbox] url finds it among several hosts.",
            );
        } else if is_read_only {
            refuse(
                "the database or the user is set to read-only".into(),
                "A relay writes how far it has come: lift default_transaction_read_only for this user and database.",
            );
        }
        if row.get(4) {
            let user: String = row.get(6);
            refuse(
                format!(
                    "row-level security applies to the user \"{user}\": rows that a policy hides would never be published"
                ),
                "Give the user BYPASSRLS (`alter role … bypassrls`), or disable row-level security on the table.",
            );
        }
        let is_replicated: bool = row.get(5);
        if is_replicated && is_cursor {
            refuse(
                "a subscription writes to the table: its rows arrive in another order than their ids were drawn".into(),
                "Run the relay at the publisher, or use way = \"lease\" on a status table.",
            );
        }
    }
    found.extend(zone::refusal(session, config, table).await?);
    let mut refuse = |problem: String, remedy: &str| found.push(Fault::new(config.place(), problem, remedy));
    if is_cursor {
        drawn(session, config, table, &mut refuse).await?;
    }
    found.extend(config.start.and_then(|start| start.fits(&config.layout, &config.place()).err()));
    Ok(found)
}

/// Refuses a transaction pooler that the URL does not speak of: two connections at once that are served by one process of the
/// server show it.
pub(crate) async fn require_session(session: &Session, config: &Config) -> Result<(), Fault> {
    if session.is_pooled() {
        return Ok(());
    }
    let failed = |error| fault(&config.connect.shown(), error);
    let other = Session::open(config, Durable::Now).await?;
    if session.server_process().await.map_err(failed)? != other.server_process().await.map_err(failed)? {
        return Ok(());
    }
    Err(Fault::new(
        config.connect.shown(),
        "a transaction pooler stands between: two connections are served by one process of the server",
        "Add pooler=transaction to [outbox] url, or connect to the server itself.",
    ))
}

/// Rows with a status that is none of the layout's words are never claimed: whoever starts a relay is told. Looking takes two
/// seconds at most; `check` looks to the end.
pub(crate) async fn warn_of_unknown_words(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<(), Error> {
    let Some(sql) = unknown_words(&config.layout, &Names::new(&config.layout), table) else { return Ok(()) };
    let transaction = session.begin(Durable::Soon).await?;
    transaction.run("set local statement_timeout = '2s'").await?;
    match transaction.query(&sql, &[]).await {
        Ok(rows) => {
            for row in rows {
                let (status, rows): (Option<String>, i64) = (row.get(0), row.get(1));
                let table = config.layout.table.as_str();
                tracing::warn!(
                    table,
                    status,
                    rows,
                    "a status is none of the layout's words: its rows are passed by"
                );
            }
            transaction.commit().await
        }
        Err(error) if error.code().is_some() => transaction.rollback().await,
        Err(error) => Err(error),
    }
}

/// A row whose id is above all that the sequence has handed out, and how far that is: rows that the sequence gives lower ids
/// than a reader has seen commit behind its back. None where there is no such row.
pub(crate) async fn ids_ahead(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<Option<Ahead>, Error> {
    let Some(id) = config.layout.columns.id.as_ref().and_then(Column::name) else { return Ok(None) };
    if config.layout.way != Way::Cursor || !table.id_counts(&config.layout) {
        return Ok(None);
    }
    let Some(sequence) = sequence(session, table, id.as_str()).await? else { return Ok(None) };
    // In this order: whoever inserts in between moves the sequence.
    let names = Names::new(&config.layout);
    let highest = format!("select max({})::int8 from {}", id.quoted(), names.table);
    let drawn =
        format!("select case when is_called then last_value else last_value - 1 end from {}", sequence.name);
    let number = |row: Option<tokio_postgres::Row>| row.and_then(|row| row.get::<_, Option<i64>>(0));
    let highest = number(session.first(&highest, &[]).await?).unwrap_or(0);
    let drawn = number(session.first(&drawn, &[]).await?).unwrap_or(highest);
    let remedy = format!(
        "Let the table hand out every id. Move the sequence past them: select setval('{}', {highest});",
        sequence.name.replace('\'', "''")
    );
    let problem = format!(
        "there is a row with id {highest}, and sequence {} is at {drawn}: what is written next gets lower ids, and is published \
         late, minutes after its commit",
        sequence.name
    );
    Ok((highest > drawn).then_some(Ahead { problem, remedy }))
}

/// Ids that the sequence did not hand out.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) problem: String,
    pub(crate) remedy: String,
}

/// Whoever starts a relay is told.
pub(crate) async fn warn_of_ids_ahead(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<(), Error> {
    if let Some(Ahead { problem, remedy }) = ids_ahead(session, config, table).await? {
        tracing::warn!(table = config.layout.table.as_str(), remedy, "{problem}");
    }
    Ok(())
}

/// A cursor loses nothing only where the INSERT itself draws the id, one by one, upwards.
async fn drawn(
    session: &Session,
    config: &Config,
    table: &Table,
    refuse: &mut impl FnMut(String, &str),
) -> Result<(), Error> {
    let Some(id) = config.layout.columns.id.as_ref().and_then(Column::name) else { return Ok(()) };
    let Some(column) = table.column(id.as_str()) else { return Ok(()) };
    if column.kind != Kind::Integer {
        refuse(
            format!(
                "way = \"cursor\" reads by a number that grows, and column {} is {}",
                id.quoted(),
                column.shown()
            ),
            "Add a `bigint generated always as identity` column and map it as columns.id, or use way = \"lease\" on a status table.",
        );
        return Ok(());
    }
    let Some(sequence) = sequence(session, table, id.as_str()).await? else {
        refuse(
            format!(
                "column {} is neither an identity nor has it a nextval default: an id that was not drawn by the INSERT itself can commit behind the cursor's back",
                id.quoted()
            ),
            "Make it an identity: `alter table … alter column … add generated by default as identity`; and let no application set it.",
        );
        return Ok(());
    };
    let Sequence { name, cache, increment, cycles, .. } = sequence;
    if cache > 1 {
        refuse(
            format!(
                "sequence {name} hands out ids {cache} at a time (cache): they are drawn long before the INSERT that uses them"
            ),
            "alter sequence … cache 1; and restart the sessions that write.",
        );
    }
    if increment != 1 {
        refuse(
            format!("sequence {name} counts by {increment}"),
            "alter sequence … increment by 1; an ORM that reserves ids in blocks must be told to stop.",
        );
    }
    if cycles {
        refuse(
            format!("sequence {name} starts over at its end: ids would come again"),
            "alter sequence … no cycle;",
        );
    }
    Ok(())
}

/// The sequence behind a column, where its INSERT draws from one.
pub(crate) async fn sequence(
    session: &Session,
    table: &Table,
    column: &str,
) -> Result<Option<Sequence>, Error> {
    let params = [(&table.oid as _, Type::OID), (&column as _, Type::TEXT)];
    let row = session.first(SEQUENCE, &params).await?;
    Ok(row.map(|row| Sequence {
        name: row.get(0),
        cache: row.get(1),
        increment: row.get(2),
        cycles: row.get(3),
    }))
}
