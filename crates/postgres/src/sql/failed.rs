//! A team's own table of failed entries (B6, B8): a copy of each, until it is published or for a person.

use postrider_core::Layout;
use postrider_core::layout::{Column, FailedTable};
use postrider_core::rows::Field;

use super::fields::{column, key, text};
use super::{Names, in_schema};
use crate::table::Table;

/// $1 is the outbox everywhere.
#[derive(Debug)]
pub(crate) struct FailedSql {
    /// $2 the entry, $3 retries that failed, $4 the error, $5 when it is due, in microseconds: where it is kept already.
    pub(crate) update: String,
    /// The same, where it is not.
    pub(crate) insert: String,
    /// $2 entries: keeps the row as it is, where none is kept yet.
    pub(crate) copy: String,
    /// $2 entries that are done with: which rows of theirs stay all the same.
    pub(crate) delete: String,
    /// The same, of those that stay where the table refuses that they go.
    pub(crate) kept: String,
    /// $2 owner, $3 fence, $4 the number of retries at which one is given up: takes over what a person has changed there;
    /// one row with the number of them.
    pub(crate) heed: String,
    /// $2 owner, $3 fence, $4 as above, $5 rows that are passed by: takes over what others have written there since, and
    /// answers each with whether it is to be passed by from now on.
    pub(crate) strangers: String,
    /// $2 the position, $3 as above: takes over what a relay before this one has left there; how many.
    pub(crate) adopt: String,
    /// Characters of an error that fit.
    pub(crate) error_chars_max: Option<usize>,
}

impl FailedSql {
    pub(crate) fn new(layout: &Layout, outbox: &Table, team: &FailedTable, live: &Table) -> Self {
        let names = Names::new(layout);
        let Names { table, exceptions, claims, leases, position, .. } = &names;
        let failed = in_schema(layout, &team.name.quoted());
        let columns = &team.columns;
        let (id, retries, due) = (columns.id.quoted(), columns.retries.quoted(), columns.not_before.quoted());
        let row =
            column(layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id"));
        let parts = [
            (Some(&columns.event_id), Field::EventId),
            (Some(&columns.event_type), Field::Type),
            (columns.source.as_ref(), Field::Source),
            (columns.aggregate_type.as_ref(), Field::AggregateType),
            (columns.aggregate_id.as_ref(), Field::AggregateId),
            (Some(&columns.payload), Field::Payload),
        ];
        let parts = parts.into_iter().filter_map(|(to, field)| {
            let from = match Field::columns(layout)[field as usize]? {
                Column::Named(name, _) => column(name),
                _ => text(layout, outbox, field),
            };
            Some((to?.quoted(), from))
        });
        let when = "coalesce(timestamptz 'epoch' + $5::bigint * interval '1 microsecond', clock_timestamp())";
        let (mut to, mut from): (Vec<String>, Vec<String>) = parts.unzip();
        to.extend([retries.clone(), due.clone()]);
        from.extend(["$3::int".to_owned(), when.to_owned()]);
        if let Some(error) = &columns.error {
            to.push(error.quoted());
            from.push("$4::text".into());
        }
        if let Some(at) = &columns.failed_at {
            to.push(at.quoted());
            from.push("clock_timestamp()".into());
        }
        let error =
            columns.error.as_ref().map_or(String::new(), |error| format!(", {} = $4::text", error.quoted()));
        let old_error =
            columns.error.as_ref().map_or("null".into(), |error| format!("f.{}::text", error.quoted()));
        let count = format!("coalesce(f.{retries}, 0)::int");
        let event_id = text(layout, outbox, Field::EventId);
        let (key_scope, key_id) = key(layout, outbox);
        let own = format!("f.{}::text", columns.event_id.quoted());
        // What is dead already holds no key.
        let taken = |most: &str| {
            format!(
                "$1, {row}, case when {count} < {most} and {key_id} is not null then {key_scope} end, \
                 case when {count} < {most} then {key_id} end, case when {count} < {most} then 'waiting' else 'dead' end, \
                 case when {count} < {most} then coalesce(f.{due}, clock_timestamp()) end, \
                 case when {count} < {most} then {count} + 1 else {count} end, {old_error}, f.{id}::bigint, row_to_json(t)"
            )
        };
        Self {
            update: format!(
                "update {failed} as f set {retries} = $3::int, {due} = {when}{error} \
                 from {exceptions} as e where e.outbox = $1 and e.entry = $2 and f.{id} = e.failed"
            ),
            insert: format!(
                "with f as (insert into {failed} ({}) select {} from {table} as t where {row} = $2 returning {id}::bigint as id) \
                 update {exceptions} set failed = (select id from f) where outbox = $1 and entry = $2",
                to.join(", "),
                from.join(", ")
            ),
            copy: format!(
                "update {exceptions} as e set copy = row_to_json(t) from {table} as t \
                 where e.outbox = $1 and e.entry = any($2) and e.copy is null and {row} = e.entry"
            ),
            delete: format!(
                "with known as (select failed from {exceptions} where outbox = $1 and entry = any($2) and failed is not null), \
                 gone as (delete from {failed} where {id} in (select failed from known) returning {id}) \
                 select failed from known except select {id} from gone"
            ),
            kept: format!(
                "select failed from {exceptions} where outbox = $1 and entry = any($2) and failed is not null"
            ),
            heed: format!(
                "with held as (select 1 from {leases} where outbox = $1 and name = 'relay' and owner = $2 and fence = $3 for share), \
                 found as (select e.entry, f.{id} is null as gone, {count} as retries, f.{due} as due \
                 from {exceptions} as e left join {failed} as f on f.{id} = e.failed \
                 where e.outbox = $1 and e.failed is not null and e.shelf in ('waiting', 'dead') \
                 and not exists (select from {claims} as c where c.outbox = e.outbox and c.entry = e.entry) \
                 and (f.{id} is null or (e.shelf = 'dead' and {count} < $4) \
                 or (e.shelf = 'waiting' and ({count} <> greatest(e.retries - 1, 0) or f.{due} is distinct from e.due)))), \
                 dropped as (delete from {exceptions} as e using found \
                 where e.outbox = $1 and e.entry = found.entry and found.gone and exists (select from held)), \
                 changed as (update {exceptions} as e set \
                 shelf = case when found.retries >= $4 then 'dead' else 'waiting' end, \
                 retries = case when found.retries >= $4 then e.retries else found.retries + 1 end, \
                 due = case when found.retries >= $4 then null else coalesce(found.due, clock_timestamp()) end \
                 from found where e.outbox = $1 and e.entry = found.entry and not found.gone and exists (select from held)) \
                 select count(*) from found"
            ),
            // What was handed out, or may be, is told of by whoever has it. An event that waits already has its row there.
            strangers: format!(
                "with held as (select 1 from {leases} where outbox = $1 and name = 'relay' and owner = $2 and fence = $3 for share), \
                 found as (select f.* from {failed} as f where f.{id} <> all($5::bigint[]) and exists (select from held) \
                 and not exists (select from {exceptions} as e where e.outbox = $1 and e.failed = f.{id}) \
                 order by f.{id} limit 1000), \
                 met as (select f.{id}::bigint as failed, min({row}) as entry from found as f join {table} as t on {event_id} = {own} \
                 group by 1), \
                 due as (select m.* from met as m join {position} as p on p.outbox = $1 and m.entry <= p.position \
                 and not exists (select from {claims} as c where c.outbox = $1 and c.entry = m.entry) \
                 and not exists (select from unnest(p.gap_first, p.gap_last) as g(first, last) \
                 where m.entry between g.first and g.last)), \
                 taken as (insert into {exceptions} as e (outbox, entry, key_scope, key_id, shelf, due, retries, error, failed, copy) \
                 select distinct on ({row}) {taken} from due as d join found as f on f.{id} = d.failed \
                 join {table} as t on {row} = d.entry order by {row}, f.{id} desc \
                 on conflict (outbox, entry) do update set failed = excluded.failed, copy = coalesce(e.copy, excluded.copy) where e.failed is null returning e.failed) \
                 select f.{id}::bigint, f.{id} not in (select failed from taken) \
                 and (f.{id} in (select failed from due) or f.{id} not in (select failed from met)), \
                 f.{id} not in (select failed from met) from found as f",
                taken = taken("$4"),
            ),
            adopt: format!(
                "insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, due, retries, error, failed, copy) \
                 select distinct on ({row}) {} \
                 from {failed} as f join {table} as t on {event_id} = {own} where {row} <= $2 \
                 order by {row}, f.{id} desc on conflict do nothing",
                taken("$3")
            ),
            error_chars_max: columns
                .error
                .as_ref()
                .and_then(|error| live.column(error.as_str())?.characters_max)
                .and_then(|most| usize::try_from(most).ok()),
        }
    }
}
