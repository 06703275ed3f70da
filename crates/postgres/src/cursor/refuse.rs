//! What a cursor cannot follow without losing events is refused before it starts.

use postrider_core::Fault;
use postrider_core::layout::Column;
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::fault;
use crate::fitness::{self, Sequence};
use crate::session::Session;
use crate::table::Table;

/// $1 the table, $2 every part of it, $3 the column, $4 the sequence: whether the sequence may be read; a child that is no
/// partition; a partition whose ids come from elsewhere when one inserts into it directly.
const REST: &str = "\
select has_sequence_privilege($4::regclass, 'select'), \
(select i.inhrelid::regclass::text from pg_inherits as i join pg_class as c on c.oid = i.inhrelid \
where i.inhparent = $1 and not c.relispartition limit 1), \
(select d.adrelid::regclass::text from pg_attrdef as d \
join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum where d.adrelid = any($2) and a.attname = $3 \
and not exists (select 1 from pg_depend as p where p.classid = 'pg_attrdef'::regclass and p.objid = d.oid \
and p.refclassid = 'pg_class'::regclass and p.refobjid = $4::regclass) limit 1)";

/// Refuses what a cursor would lose events on, beyond what [`fitness`] knows; answers the sequence that ids are drawn from.
pub(super) async fn require_fit(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<Sequence, Fault> {
    let place = config.place();
    let failed = |error| fault(&place, error);
    let refuse = |problem: String, remedy: String| Err(Fault::new(&*place, problem, remedy));
    let id = config.layout.columns.id.as_ref().and_then(Column::name).map_or("id", |id| id.as_str());
    let Some(sequence) = fitness::sequence(session, table, id).await.map_err(failed)? else {
        return refuse(
            format!("column \"{id}\" draws its ids from no sequence"),
            "Make it an identity column.".into(),
        );
    };
    let default = table.column(id).and_then(|column| column.default.as_deref());
    if default.is_some_and(|default| !is_plain_nextval(default)) {
        return refuse(
            format!("the default of column \"{id}\" is more than nextval: its ids may not grow"),
            format!("alter table … alter column \"{id}\" set default nextval('{}');", sequence.name),
        );
    }
    if !is_unique(table, id) {
        return refuse(
            format!(
                "column \"{id}\" is not unique, so a row cannot be found again by it, and reading it in order has no index"
            ),
            format!("Make \"{id}\" the primary key, or create a unique index on it."),
        );
    }
    let params = [
        (&table.oid as _, Type::OID),
        (&table.tree as _, Type::OID_ARRAY),
        (&id as _, Type::TEXT),
        (&sequence.name as _, Type::TEXT),
    ];
    let Some(row) = session.first(REST, &params).await.map_err(failed)? else { return Ok(sequence) };
    if !row.get::<_, bool>(0) {
        return refuse(
            format!(
                "the relay may not read sequence {}, by which it notices that ids went backwards",
                sequence.name
            ),
            format!("grant select on sequence {} to the relay's user;", sequence.name),
        );
    }
    if let Some(child) = row.get::<_, Option<String>>(1) {
        return refuse(
            format!("table {child} inherits from it: ids are not unique among both"),
            "Use declarative partitions, or let the child inherit no more.".into(),
        );
    }
    if let Some(part) = row.get::<_, Option<String>>(2) {
        return refuse(
            format!(
                "partition {part} draws its ids from elsewhere than the table, when one inserts into it directly"
            ),
            format!("alter table {part} alter column \"{id}\" set default nextval('{}');", sequence.name),
        );
    }
    Ok(sequence)
}

/// `nextval('outbox_id_seq'::regclass)` and nothing else.
fn is_plain_nextval(default: &str) -> bool {
    let inner = default.strip_prefix("nextval('").and_then(|rest| rest.strip_suffix("'::regclass)"));
    inner.is_some_and(|name| !name.contains("::"))
}

/// On a partitioned table that is as unique as PostgreSQL can make it.
fn is_unique(table: &Table, id: &str) -> bool {
    table.indexes.iter().filter(|index| index.unique && index.condition.is_none()).any(|index| {
        match index.columns.as_slice() {
            [only] => only == id,
            [first, ..] => table.relation == 'p' && first == id,
            [] => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_is_more_than_nextval_is_told_apart() {
        assert!(is_plain_nextval("nextval('outbox_id_seq'::regclass)"));
        assert!(is_plain_nextval("nextval('shop.\"Outbox_id_seq\"'::regclass)"));
        assert!(!is_plain_nextval("(nextval('outbox_id_seq'::regclass) * 2)"));
        assert!(!is_plain_nextval("(nextval('a'::regclass) + nextval('b'::regclass))"));
        assert!(!is_plain_nextval("nextval('a'::regclass) + nextval('b'::regclass)"));
        assert!(!is_plain_nextval("my_ids()"));
    }
}
