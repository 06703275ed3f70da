//! The native table's partitions: created ahead of its ids, dropped whole when all in them is published and old enough.

use std::time::Duration;

use postrider_core::layout::Column;
use postrider_core::store::Filter;
use postrider_core::{Layout, State};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::view::microseconds;
use crate::fault::Error;
use crate::fitness::sequence;
use crate::migrate::is_native;
use crate::session::{Durable, Session};
use crate::sql::time::{TimeColumn, interval};
use crate::sql::{Names, in_schema, quoted};
use crate::table::Table;

/// Ids in one partition.
const PARTITION_IDS: i64 = 1_000_000;
/// Partitions that are kept ahead of the highest id.
const AHEAD: i64 = 5;
/// Writers wait for no longer than this on a partition's account.
const LOCK_TIMEOUT: &str = "set local lock_timeout = '200ms'";
/// What goes with its whole partition within this time is not deleted row by row.
const SOON: Duration = Duration::from_secs(24 * 60 * 60);

/// How the partitions of one table are found, made and dropped.
#[derive(Debug)]
pub(super) struct Partitions {
    table: u32,
    parent: String,
    outbox: String,
    /// What names of partitions begin with.
    prefix: String,
    layout: Layout,
    last_drawn: String,
    id: String,
    /// When a row of `t` happened, where SQL can tell.
    moment: Option<String>,
    /// $1 outbox, $2 and $3 the first and last id: whether nothing between them is to be published.
    clean: String,
}

/// A partition: its ids from `first` up to, not including, `end`.
#[derive(Debug)]
struct Part {
    name: String,
    bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Range { first: i64, end: i64 },
    Default,
}

/// What sweeping did.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Entries that went with their partitions.
    pub(super) entries: u64,
    /// Up to this id everything will go with its partition before long.
    pub(super) left_up_to: Option<i64>,
}

/// $1 the table. The bound is a text like `FOR VALUES FROM ('1000000') TO ('2000000')`.
const PARTS: &str = "\
select format('%I.%I', n.nspname, c.relname), pg_get_expr(c.relpartbound, c.oid) \
from pg_inherits as i join pg_class as c on c.oid = i.inhrelid join pg_namespace as n on n.oid = c.relnamespace \
where i.inhparent = $1 and not i.inhdetachpending";

const OWNED: &str = "select pg_has_role(c.relowner, 'usage') from pg_class as c where c.oid = $1";

impl Partitions {
    /// None where the table is not Postrider's own, not partitioned, or belongs to somebody else.
    pub(super) async fn of(session: &Session, layout: &Layout, table: &Table) -> Result<Option<Self>, Error> {
        let id = layout.columns.id.as_ref().and_then(Column::name);
        let Some(id) = id.filter(|_| is_native(layout) && table.relation == 'p') else { return Ok(None) };
        let owned = session.first(OWNED, &[(&table.oid, Type::OID)]).await?;
        if !owned.is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let Some(sequence) = sequence(session, table, id.as_str()).await? else { return Ok(None) };
        let names = Names::new(layout);
        let Names { table: outbox, exceptions, claims, ranges, closed, position, .. } = &names;
        let none = |from: &str, which: &str| {
            format!("not exists (select 1 from {from} where outbox = $1 and {which})")
        };
        let time = layout.columns.time.as_ref();
        Ok(Some(Self {
            table: table.oid,
            parent: names.table.clone(),
            outbox: layout.table.as_str().to_owned(),
            prefix: short(layout.table.as_str()),
            last_drawn: format!(
                "select case when is_called then last_value else 0 end from {}",
                sequence.name
            ),
            id: id.quoted(),
            moment: TimeColumn::readable(time, table, layout.zone),
            clean: format!(
                "select {} and {} and {} \
                 and not exists (select 1 from {closed} as z join {outbox} as t on t.{id} between z.first and z.last \
                 where z.outbox = $1 and z.first <= $3 and z.last >= $2 and t.{id} between $2 and $3) and exists (select 1 from {position} as p where p.outbox = $1 and p.position >= $3 \
                 and not exists (select 1 from unnest(p.gap_first, p.gap_last) as g(first, last) \
                 where g.first <= $3 and g.last >= $2))",
                none(exceptions, "entry between $2 and $3"),
                none(claims, "entry between $2 and $3"),
                none(ranges, "first <= $3"),
                id = id.quoted(),
            ),
            layout: layout.clone(),
        }))
    }

    /// Creates partitions before ids reach them. What cannot be done now is tried again next time: until then rows go to the
    /// default partition.
    pub(super) async fn create_ahead(&self, session: &Session) -> Result<(), Error> {
        let (parts, last) = (self.parts(session).await?, self.last_drawn(session).await?);
        let end = parts.iter().filter_map(Part::range).map(|(_, end)| end).max().unwrap_or(0);
        let rest = parts.iter().find(|part| part.bound == Bound::Default);
        let mut first = end;
        if let Some(fallen) = self.fallen(session, rest).await?.filter(|fallen| *fallen >= end) {
            first = after(fallen.max(last));
            tracing::warn!(
                table = self.parent,
                up_to = fallen,
                "rows went to the default partition, because none was created in time; the next one begins at {first}"
            );
        }
        while first < after(last) + AHEAD * PARTITION_IDS {
            if let Err(error) = self.create(session, first).await {
                self.passes_by(&error, "no partition could be created ahead; it is tried again");
                return if session.is_good() { Ok(()) } else { Err(error) };
            }
            first += PARTITION_IDS;
        }
        Ok(())
    }

    /// Drops the first partitions, as long as all in them is to be pruned.
    pub(super) async fn sweep(&self, session: &Session, filter: &Filter) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let Some(age) = self.sweeps(filter) else { return Ok(swept) };
        let last = self.last_drawn(session).await?;
        let mut parts: Vec<_> =
            self.parts(session).await?.into_iter().filter(|part| part.range().is_some()).collect();
        parts.sort_by_key(Part::range);
        for part in &parts {
            let Some((first, end)) = part.range().filter(|(_, end)| *end <= last) else { break };
            let span =
                [(&self.outbox as _, Type::TEXT), (&first as _, Type::INT8), (&(end - 1) as _, Type::INT8)];
            let is_clean = session.first(&self.clean, &span).await?.is_some_and(|row| row.get(0));
            if !is_clean {
                break;
            }
            match self.stands(session, part, age).await? {
                Stands::Old(entries) => match self.drop_part(session, part).await {
                    Ok(()) => swept.entries += entries,
                    Err(error) => {
                        self.passes_by(
                            &error,
                            "a partition could not be dropped; its rows are deleted instead",
                        );
                        return if session.is_good() { Ok(swept) } else { Err(error) };
                    }
                },
                Stands::Soon => swept.left_up_to = Some(end - 1),
                Stands::Young => break,
            }
        }
        Ok(swept)
    }

    /// Only what asks for everything of an age can take a whole partition.
    fn sweeps(&self, filter: &Filter) -> Option<Option<i64>> {
        let Filter { ids, event_type, key, state, older_than, newer_than, limit } = filter;
        let all = ids.is_empty()
            && event_type.is_none()
            && key.is_none()
            && newer_than.is_none()
            && limit.is_none();
        let published = state.is_none_or(|state| state == State::Published);
        (all && published && (older_than.is_none() || self.moment.is_some()))
            .then(|| older_than.map(microseconds))
    }

    async fn stands(&self, session: &Session, part: &Part, age: Option<i64>) -> Result<Stands, Error> {
        let (Some(age), Some(moment)) = (age, &self.moment) else {
            let counted = session.first(&format!("select count(*) from {}", part.name), &[]).await?;
            return Ok(Stands::Old(counted.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs())));
        };
        let since = format!("clock_timestamp() - {}", interval("$1"));
        // The last row tells most of the time, without a look at the others.
        let newest =
            format!("select {moment} > {since} from {} as t order by t.{} desc limit 1", part.name, self.id);
        let soon = age.saturating_sub(microseconds(SOON).min(age / 2));
        let is_young = |row: Option<tokio_postgres::Row>| {
            row.is_some_and(|row| row.get::<_, Option<bool>>(0) == Some(true))
        };
        if is_young(session.first(&newest, &[(&soon, Type::INT8)]).await?) {
            return Ok(Stands::Young);
        }
        if is_young(session.first(&newest, &[(&age, Type::INT8)]).await?) {
            return Ok(Stands::Soon);
        }
        let count = format!(
            "select count(*), count(*) filter (where ({moment} > {since}) is not false) from {} as t",
            part.name
        );
        let counted = session.first(&count, &[(&age, Type::INT8)]).await?;
        let (all, young): (i64, i64) = counted.map_or((0, 0), |row| (row.get(0), row.get(1)));
        Ok(if young > 0 { Stands::Young } else { Stands::Old(all.unsigned_abs()) })
    }

    async fn create(&self, session: &Session, first: i64) -> Result<(), Error> {
        let number = first / PARTITION_IDS;
        let name = in_schema(&self.layout, &quoted(&format!("{}_p{number}", self.prefix)));
        let end = first + PARTITION_IDS;
        // Attached, it takes a weaker lock on the table than created in place: nobody who writes waits for it.
        let sql = format!(
            "{LOCK_TIMEOUT}; create table {name} (like {parent} including all); \
             alter table {parent} attach partition {name} for values from ({first}) to ({end})",
            parent = self.parent
        );
        in_transaction(session, &sql).await
    }

    async fn drop_part(&self, session: &Session, part: &Part) -> Result<(), Error> {
        in_transaction(session, &format!("{LOCK_TIMEOUT}; drop table {}", part.name)).await
    }

    async fn parts(&self, session: &Session) -> Result<Vec<Part>, Error> {
        let rows = session.query(PARTS, &[(&self.table, Type::OID)]).await?;
        let part = |row: &tokio_postgres::Row| Some(Part { name: row.get(0), bound: bound(row.get(1))? });
        Ok(rows.iter().filter_map(part).collect())
    }

    async fn last_drawn(&self, session: &Session) -> Result<i64, Error> {
        Ok(session.first(&self.last_drawn, &[]).await?.map_or(0, |row| row.get(0)))
    }

    /// The highest id that fell into the default partition.
    async fn fallen(&self, session: &Session, rest: Option<&Part>) -> Result<Option<i64>, Error> {
        let Some(rest) = rest else { return Ok(None) };
        let highest = session.first(&format!("select max({}) from {}", self.id, rest.name), &[]).await?;
        Ok(highest.and_then(|row| row.get(0)))
    }

    fn passes_by(&self, error: &Error, what: &str) {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            tracing::debug!(table = self.parent, %error, "{what}");
        } else {
            tracing::warn!(table = self.parent, %error, "{what}");
        }
    }
}

enum Stands {
    /// All in it is old enough: so many.
    Old(u64),
    /// All in it will be before long.
    Soon,
    Young,
}

impl Part {
    fn range(&self) -> Option<(i64, i64)> {
        match self.bound {
            Bound::Range { first, end } => Some((first, end)),
            Bound::Default => None,
        }
    }
}

/// The first boundary that lies a whole partition behind an id.
fn after(id: i64) -> i64 {
    (id / PARTITION_IDS + 1).saturating_mul(PARTITION_IDS)
}

async fn in_transaction(session: &Session, sql: &str) -> Result<(), Error> {
    let transaction = session.begin(Durable::Now).await?;
    match transaction.run(sql).await {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

/// What a partition's name begins with: short enough for a number behind it.
fn short(table: &str) -> String {
    const BYTES_MAX: usize = 50;
    let mut end = table.len().min(BYTES_MAX);
    while !table.is_char_boundary(end) {
        end -= 1;
    }
    table[..end].to_owned()
}

/// None for a bound that Postrider has not made.
fn bound(text: &str) -> Option<Bound> {
    if text == "DEFAULT" {
        return Some(Bound::Default);
    }
    let rest = text.strip_prefix("FOR VALUES FROM (")?;
    let (first, rest) = rest.split_once(") TO (")?;
    let number = |text: &str| match text.trim_matches('\'') {
        "MINVALUE" => Some(i64::MIN),
        "MAXVALUE" => Some(i64::MAX),
        number => number.parse().ok(),
    };
    Some(Bound::Range { first: number(first)?, end: number(rest.strip_suffix(')')?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_the_server_writes_them() {
        assert_eq!(bound("DEFAULT"), Some(Bound::Default));
        let range = |text| bound(text);
        assert_eq!(
            range("FOR VALUES FROM (MINVALUE) TO ('1000000')"),
            Some(Bound::Range { first: i64::MIN, end: 1_000_000 })
        );
        assert_eq!(
            range("FOR VALUES FROM ('1000000') TO ('2000000')"),
            Some(Bound::Range { first: 1_000_000, end: 2_000_000 })
        );
        assert_eq!(bound("FOR VALUES IN ('x')"), None);
    }

    #[test]
    fn a_name_leaves_room_for_its_number() {
        assert_eq!(short("outbox"), "outbox");
        assert_eq!(short(&"é".repeat(31)).len(), 50);
    }
}
