//! Rights: each one that is missing, with the statement that grants it.

use postrider_core::layout::{Column, Published, Way};
use tokio_postgres::types::Type;

use super::Found;
use crate::fault::Error;
use crate::fitness::sequence;
use crate::session::Session;
use crate::sql::{Names, quoted};
use crate::table::Table;

/// $1 the table, $2 columns, $3 the right: which of the columns lack it.
const COLUMNS: &str = "\
select c.name from unnest($2::text[]) as c(name) where not has_column_privilege($1::oid, c.name, $3) order by 1";
/// $1 the table's name, $2 rights: which of them are missing. A table that is not there lacks none.
const TABLE: &str = "\
select r.name from unnest($2::text[]) with ordinality as r(name, at) \
where not has_table_privilege(to_regclass($1)::oid, r.name) order by r.at";
/// $1 the name of a table that rows are inserted into: its sequences that nothing may be drawn from. Identities need no right.
const SEQUENCES: &str = "\
select q.name from pg_attribute as a cross join lateral pg_get_serial_sequence($1, a.attname) as q(name) \
where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped and a.attidentity = '' and q.name is not null \
and not has_sequence_privilege(q.name, 'usage, update')";
const SCHEMA: &str = "\
select n.nspname::text, has_schema_privilege(n.oid, 'usage'), \
has_any_column_privilege(c.oid, 'update'), has_table_privilege(c.oid, 'delete') \
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = $1";

/// The columns that Postrider writes, where a layout maps them.
const WRITTEN: [&str; 9] = [
    "status",
    "retries",
    "not_before",
    "error",
    "published_at",
    "lease_owner",
    "leased_at",
    "version",
    "published",
];

impl Found<'_> {
    /// Says whether the table's columns can be read at all.
    pub(super) async fn rights(&mut self, session: &Session, table: &Table) -> Result<bool, Error> {
        let layout = self.config.layout.clone();
        let names = Names::new(&layout);
        let user = self.user.clone();
        let Some(row) = session.first(SCHEMA, &[(&table.oid, Type::OID)]).await? else { return Ok(false) };
        let (schema, may_use): (String, bool) = (row.get(0), row.get(1));
        let (may_update, may_delete): (bool, bool) = (row.get(2), row.get(3));
        if !may_use {
            let schema = quoted(&schema);
            self.fault(
                format!("user {user} may not use schema {schema}"),
                format!("grant usage on schema {schema} to {user};"),
            );
        }
        let mapped: Vec<&str> = layout
            .columns
            .given()
            .filter_map(|(_, column)| column.name())
            .map(|name| name.as_str())
            .filter(|name| table.column(name).is_some())
            .collect();
        let unread = self.columns_without(session, table, &mapped, "select").await?;
        let mut lacking = Lacking::default();
        lacking.columns("select", &unread, mapped.len());
        if layout.way == Way::Cursor {
            self.lacks(lacking, &names.table);
            self.of_cursor(session, table, may_delete).await?;
        } else {
            let written: Vec<&str> = layout
                .columns
                .given()
                .filter(|(key, _)| WRITTEN.contains(key))
                .filter_map(|(_, column)| column.name())
                .map(|name| name.as_str())
                .filter(|name| table.column(name).is_some())
                .collect();
            let unwritten = self.columns_without(session, table, &written, "update").await?;
            lacking.columns("update", &unwritten, written.len());
            // A row is locked by whoever may update any of its columns.
            if !may_update && unwritten.is_empty() {
                lacking.whole("update", "without it no row can be locked");
            }
            let deletes = layout.published == Published::Delete;
            if deletes && !may_delete {
                lacking.whole("delete", "published = \"delete\" is set");
            }
            self.lacks(lacking, &names.table);
            if !deletes && layout.retention.is_some() && !may_delete {
                self.no_retention(&names.table);
            }
        }
        self.side_rights(session, &names).await?;
        Ok(unread.is_empty() && may_use)
    }

    async fn of_cursor(&mut self, session: &Session, table: &Table, may_delete: bool) -> Result<(), Error> {
        let names = Names::new(self.layout());
        let user = self.user.clone();
        if self.layout().retention.is_some() && !may_delete {
            self.no_retention(&names.table);
        }
        let Some(id) = self.layout().columns.id.as_ref().and_then(Column::name).cloned() else {
            return Ok(());
        };
        let Some(sequence) = sequence(session, table, id.as_str()).await? else { return Ok(()) };
        let may = "select has_sequence_privilege(to_regclass($1)::oid, 'select')";
        let may = session.first(may, &[(&sequence.name, Type::TEXT)]).await?;
        if may.is_some_and(|row| row.get::<_, Option<bool>>(0) == Some(false)) {
            self.fault(
                format!(
                    "user {user} may not read sequence {}, by which a relay notices that ids went backwards",
                    sequence.name
                ),
                format!("grant select on sequence {} to {user};", sequence.name),
            );
        }
        Ok(())
    }

    fn no_retention(&mut self, table: &str) {
        let user = self.user.clone();
        self.advise(
            format!("user {user} may not delete from {table}: published entries are kept for ever"),
            format!("grant delete on {table} to {user}; or set [retention] published = \"none\"."),
        );
    }

    async fn side_rights(&mut self, session: &Session, names: &Names) -> Result<(), Error> {
        let all = ["select", "insert", "update", "delete"];
        let own = [
            (&names.schema, &all[..1]),
            (&names.position, &all[..]),
            (&names.exceptions, &all[..]),
            (&names.ranges, &all[..]),
            (&names.claims, &all[..]),
            (&names.closed, &all[..]),
            (&names.leases, &all[..]),
            (&names.jobs, &all[..]),
            (&names.entries, &all[..]),
            (&names.reports, &all[..]),
            (&names.idempotency, &["select", "delete"]),
        ];
        for (table, rights) in own {
            self.table_rights(session, table, rights).await?;
        }
        let layout = self.config.layout.clone();
        let team = |name: &postrider_core::layout::Identifier| crate::sql::in_schema(&layout, &name.quoted());
        if let Some(position) = &layout.sides.position {
            self.table_rights(session, &team(&position.name), &all[..2]).await?;
            self.sequence_rights(session, &team(&position.name)).await?;
        }
        if let Some(failed) = &layout.sides.failed {
            self.table_rights(session, &team(&failed.name), &all).await?;
            self.sequence_rights(session, &team(&failed.name)).await?;
        }
        Ok(())
    }

    /// A team's table may draw its ids from a sequence.
    async fn sequence_rights(&mut self, session: &Session, table: &str) -> Result<(), Error> {
        for row in session.query(SEQUENCES, &[(&table, Type::TEXT)]).await? {
            let (user, sequence): (_, String) = (self.user.clone(), row.get(0));
            self.fault(
                format!("user {user} may not draw ids of {table} from sequence {sequence}"),
                format!("grant usage on sequence {sequence} to {user};"),
            );
        }
        Ok(())
    }

    async fn table_rights(&mut self, session: &Session, table: &str, rights: &[&str]) -> Result<(), Error> {
        let mut lacking = Lacking::default();
        for row in session.query(TABLE, &[(&table, Type::TEXT), (&rights, Type::TEXT_ARRAY)]).await? {
            lacking.rights.push(row.get(0));
        }
        self.lacks(lacking, table);
        Ok(())
    }

    async fn columns_without(
        &self,
        session: &Session,
        table: &Table,
        columns: &[&str],
        right: &str,
    ) -> Result<Vec<String>, Error> {
        let params =
            [(&table.oid as _, Type::OID), (&columns as _, Type::TEXT_ARRAY), (&right as _, Type::TEXT)];
        Ok(session.query(COLUMNS, &params).await?.iter().map(|row| row.get(0)).collect())
    }

    /// One line per table, with all that is missing there.
    fn lacks(&mut self, lacking: Lacking, table: &str) {
        let Lacking { rights, why } = lacking;
        if rights.is_empty() {
            return;
        }
        let (user, rights) = (self.user.clone(), rights.join(", "));
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        self.fault(
            format!("user {user} may not {rights} on {table}{why}"),
            format!("grant {rights} on {table} to {user};"),
        );
    }
}

/// The rights that are missing on one table, as a GRANT has them.
#[derive(Default)]
struct Lacking {
    rights: Vec<String>,
    why: Vec<&'static str>,
}

impl Lacking {
    /// A right that is missing on some of so many columns.
    fn columns(&mut self, right: &str, without: &[String], of: usize) {
        if without.is_empty() {
            return;
        }
        let columns = without.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let is_whole = without.len() == of;
        self.rights.push(if is_whole { right.to_owned() } else { format!("{right} ({columns})") });
    }

    fn whole(&mut self, right: &str, why: &'static str) {
        self.rights.push(right.to_owned());
        self.why.push(why);
    }
}
