//! What is no table: a view, or a table of another server.

use postrider_core::Fault;
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::Error;
use crate::session::Session;
use crate::table::Table;

/// $1 the view: the tables that it reads, through other views too.
const BEHIND: &str = "\
with recursive behind(oid, kind) as ( \
select $1::oid, 'v'::\"char\" \
union select c.oid, c.relkind from behind as b join pg_rewrite as r on r.ev_class = b.oid \
join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass \
join pg_class as c on c.oid = d.refobjid and c.oid <> b.oid and c.relkind in ('r', 'p', 'v', 'm') \
where b.kind in ('v', 'm')) \
select n.nspname::text, c.relname::text from behind as b join pg_class as c on c.oid = b.oid \
join pg_namespace as n on n.oid = c.relnamespace where b.kind in ('r', 'p') order by 1, 2 limit 10";

/// Why what the layout names is not claimed from, where it is no table.
///
/// A view could be updated and locked through, but it shows neither an index nor who has locked a row nor where its ids come
/// from, and a layout gives columns of any name their meaning: whatever a view renames can be mapped on the table itself.
pub(crate) async fn no_table_at_all(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<Option<Fault>, Error> {
    match table.relation {
        'r' | 'p' => return Ok(None),
        'v' | 'm' => {}
        _ => {
            return Ok(Some(Fault::new(
                config.place(),
                "it is a foreign table",
                "Connect to the server that has it: only there do locks and transactions show.",
            )));
        }
    }
    let behind: Vec<(String, String)> = session
        .query(BEHIND, &[(&table.oid, Type::OID)])
        .await?
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    let remedy = match &behind[..] {
        [(schema, name)] => format!(
            "Name the table behind it: schema = \"{schema}\" and table = \"{name}\", with its own column names in the layout."
        ),
        [] => "Name a table.".to_owned(),
        several => {
            let names: Vec<String> =
                several.iter().map(|(schema, name)| format!("{schema}.{name}")).collect();
            format!("Name the one table behind it that holds the events: {}.", names.join(", "))
        }
    };
    Ok(Some(Fault::new(
        config.place(),
        "it is a view, and rows are locked, watched and found again by their table only",
        remedy,
    )))
}
