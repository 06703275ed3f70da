//! A table that is not found: whether its schema is not there, may not be looked into, or is another one.

use postrider_core::Fault;
use postrider_core::layout::Identifier;
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::migrate::is_native;
use crate::session::Session;
use crate::sql::quoted;

/// $1 the table, $2 the schema where the layout names one: schemas that have such a table, and whether this user may look into
/// each; those that it would look into by itself come first.
const ELSEWHERE: &str = "\
select n.nspname::text, has_schema_privilege(n.oid, 'usage'), current_user::text \
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace \
where c.relname = $1 and c.relkind in ('r', 'p', 'v', 'm', 'f') and ($2::text is null or n.nspname = $2) \
and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_temp%' \
order by n.nspname <> all(string_to_array(replace(replace(current_setting('search_path'), '\"', ''), ' ', ''), ',')), 2, 1 limit 5";
/// $1 a schema: whether it is there, and may be looked into; none: the one that tables are created in.
const SCHEMA: &str = "\
select $1::text is null and current_schema() is null or $1::text is not null and to_regnamespace(quote_ident($1)) is null, \
current_user::text, current_setting('search_path')";

/// What to tell where the layout's table is not found.
pub(crate) async fn no_table(session: &Session, config: &Config) -> Fault {
    match look(session, config).await {
        Ok(fault) => fault,
        Err(error) => fault(&config.place(), error),
    }
}

/// Refuses to go on where the schema that tables are to be in is not there.
pub(crate) async fn require_schema(session: &Session, config: &Config) -> Result<(), Fault> {
    match missing_schema(session, config).await {
        Ok(None) => Ok(()),
        Ok(Some(missing)) => Err(missing),
        Err(error) => Err(fault(&config.place(), error)),
    }
}

async fn look(session: &Session, config: &Config) -> Result<Fault, Error> {
    let layout = &config.layout;
    let named = layout.schema.as_ref().map(Identifier::as_str);
    let params = [(&layout.table.as_str() as _, Type::TEXT), (&named as _, Type::TEXT)];
    let found = session.query(ELSEWHERE, &params).await?;
    let told = |problem: String, remedy: String| Fault::new(config.place(), problem, remedy);
    if let Some(row) = found.iter().find(|row| !row.get::<_, bool>(1)) {
        let (schema, user): (String, String) = (quoted(row.get(0)), quoted(row.get(2)));
        return Ok(told(
            format!("user {user} may not use schema {schema}, which has such a table"),
            format!("grant usage on schema {schema} to {user};"),
        ));
    }
    if let Some(missing) = missing_schema(session, config).await? {
        return Ok(missing);
    }
    if let Some(row) = found.first().filter(|_| !is_native(layout)) {
        let schema: String = row.get(0);
        return Ok(told(
            "there is no such table where this connection looks".into(),
            format!("Schema \"{schema}\" has one: write schema = \"{schema}\" in [outbox] if it is that."),
        ));
    }
    let remedy = if is_native(layout) {
        "Run `postrider migrate`, which creates it."
    } else {
        "Create it with the application's own migrations, or name the right one with table = \"…\" and schema = \"…\"."
    };
    Ok(told("there is no such table".into(), remedy.into()))
}

async fn missing_schema(session: &Session, config: &Config) -> Result<Option<Fault>, Error> {
    let schema = config.layout.schema.as_ref();
    let named = schema.map(Identifier::as_str);
    let Some(row) = session.first(SCHEMA, &[(&named, Type::TEXT)]).await? else { return Ok(None) };
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let user = quoted(row.get(1));
    Ok(Some(match schema {
        Some(schema) => Fault::new(
            config.place(),
            format!("there is no schema {}", schema.quoted()),
            format!(
                "Correct schema = \"{schema}\" in [outbox] or in the layout, or create it: create schema {} authorization {user};",
                schema.quoted()
            ),
        ),
        None => Fault::new(
            config.place(),
            format!("user {user} finds no schema to look in: its search_path is {}", row.get::<_, String>(2)),
            format!("grant usage on schema public to {user}; or name the schema in [outbox] schema."),
        ),
    }))
}
