//! Rows as operators see them, and which of them a filter chooses.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;
use mysql_async::{Params, Row, Value as Bound, params};
use postrider_core::layout::Way;
use postrider_core::route::matches;
use postrider_core::rows::{Batch, Decoder, Value};
use postrider_core::store::{Filter, Listed, Shown, unknown_status};
use postrider_core::{Entry, EntryId, State, Text};

use crate::config::Config;
use crate::cursor::gaps;
use crate::fault::Error;
use crate::rows::{count, number, text, value, values};
use crate::session::Session;
use crate::sql::store::{PAGE_ROWS, StoreSql, seen};
use crate::sql::{Id, Names, ids, literal};
use crate::table::Table;

/// What a store reads by.
#[derive(Debug)]
pub(super) struct View {
    pub(super) outbox: String,
    decoder: Decoder,
    sql: StoreSql,
    id: Id,
    is_cursor: bool,
    /// Whether rows are held by their locks alone.
    is_hold: bool,
    standing: String,
}

/// How far a cursor's table was read, and who holds the outbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) now: Timestamp,
    /// The holder, while its lease is good.
    pub(super) holder: Option<String>,
    position: i64,
    claimed: i64,
    /// A JSON array.
    returned: String,
    /// Sorted.
    pub(super) gaps: Vec<RangeInclusive<i64>>,
    /// Where the first gap or parked range begins.
    lowest: Option<i64>,
}

impl Standing {
    /// The gaps as a statement takes them.
    fn gaps_list(&self) -> String {
        let pairs: Vec<(i64, i64)> = self.gaps.iter().map(|gap| (*gap.start(), *gap.end())).collect();
        serde_json::to_string(&pairs).unwrap_or_default()
    }

    /// Whether a row was passed before it was committed.
    fn has_passed(&self, id: &EntryId) -> bool {
        let Some(id) = id.int() else { return false };
        let at = self.gaps.partition_point(|gap| *gap.end() < id);
        self.gaps.get(at).is_some_and(|gap| gap.contains(&id))
    }

    /// A statement that is not to be prepared, with what it takes.
    pub(super) fn inline(&self, sql: &str, outbox: &str) -> String {
        [
            (":outbox", literal(outbox)),
            (":position", self.position.to_string()),
            (":claimed", self.claimed.to_string()),
            (":returned", literal(&self.returned)),
            (":alive", self.holder.is_some().to_string()),
            (":gaps", literal(&self.gaps_list())),
        ]
        .into_iter()
        .fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, &value))
    }
}

/// A span as the database takes it. Longer than a thousand years is as good as a thousand.
pub(super) fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(MILLENNIUM_US)
}

const MILLENNIUM_US: i64 = 1_000 * 365 * 86_400 * 1_000_000;

impl View {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let is_cursor = config.layout.way == Way::Cursor;
        Self {
            outbox: config.layout.table.as_str().to_owned(),
            // Whether order is kept decides what a source blocks, not what an operator sees.
            decoder: Decoder::new(&config.layout).with_keys(),
            sql: StoreSql::new(config, table),
            id: Id::new(&config.layout, table),
            standing: standing(&Names::new(config), is_cursor),
            is_cursor,
            is_hold: config.layout.way == Way::Hold,
        }
    }

    pub(super) async fn standing(&self, session: &mut Session) -> Result<Standing, Error> {
        let row = session.first(&self.standing, params! { "outbox" => &self.outbox }).await?;
        let Some(row) = row else { return Ok(Standing::default()) };
        let mut gaps = gaps(&row, 5);
        gaps.sort_by_key(|gap| *gap.start());
        let first = gaps.first().map(|gap| *gap.start());
        Ok(Standing {
            now: moment(value(&row, 0)).unwrap_or_default(),
            holder: text(&row, 1),
            position: number(&row, 2).unwrap_or(0),
            claimed: number(&row, 3).unwrap_or(0),
            returned: text(&row, 4).unwrap_or_else(|| "[]".into()),
            lowest: [first, number(&row, 6)].into_iter().flatten().min(),
            gaps,
        })
    }

    /// Entries that match, oldest first.
    pub(super) async fn each(
        &self,
        session: &mut Session,
        standing: &Standing,
        filter: &Filter,
        mut take: impl FnMut(Listed),
    ) -> Result<(), Error> {
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let wanted: Vec<String> =
            filter.ids.iter().filter(|id| self.id.takes(id)).map(EntryId::to_string).collect();
        // Which of those that could be claimed are locked is found out row by row.
        let state = filter.state.map(|state| match state {
            State::Leased if self.is_hold => State::Pending,
            state => state,
        });
        let sql = if filter.ids.is_empty() { self.sql.list(state) } else { &self.sql.listed };
        let mut mark: Option<(Bound, Option<String>)> = None;
        while left > 0 {
            let rows = session.query(sql, self.params(standing, filter, &wanted, mark.take())).await?;
            let locked = self.locked(session, &rows).await?;
            for row in &rows {
                if let Some((listed, _)) = self.listed(row, standing, &locked)
                    && chooses(filter, &listed, standing.now)
                    && left > 0
                {
                    take(listed);
                    left -= 1;
                }
            }
            let Some(last) = rows.last().filter(|_| rows.len() >= PAGE_ROWS) else { break };
            let Some(id) = last.as_ref(0).cloned() else { break };
            mark = Some((id, text(last, seen::LEAD)));
        }
        Ok(())
    }

    fn params(
        &self,
        standing: &Standing,
        filter: &Filter,
        wanted: &[String],
        mark: Option<(Bound, Option<String>)>,
    ) -> Params {
        let (id, lead) = mark.unwrap_or((Bound::NULL, None));
        let keys = filter.key_ids().map(|keys| serde_json::to_string(&keys).unwrap_or_default());
        let mut all = self.asked(standing);
        all.extend([
            ("older_us", filter.older_than.map(microseconds).into()),
            // One that is this long leaves nothing out.
            ("newer_us", filter.newer_than.map(microseconds).filter(|us| *us < MILLENNIUM_US).into()),
            ("keys", keys.into()),
            ("id", id),
        ]);
        if self.sql.has_lead {
            all.push(("lead", lead.into()));
        }
        if !filter.ids.is_empty() {
            all.push(("list", ids(wanted.iter().map(String::as_str)).into()));
        }
        Params::from(all)
    }

    /// What every statement takes.
    fn asked(&self, standing: &Standing) -> Vec<(&'static str, Bound)> {
        let mut all: Vec<(&str, Bound)> = vec![("outbox", self.outbox.as_str().into())];
        if self.is_cursor {
            all.extend([
                ("position", standing.position.into()),
                ("claimed", standing.claimed.into()),
                ("returned", standing.returned.as_str().into()),
                ("alive", standing.holder.is_some().into()),
                ("lowest", standing.lowest.into()),
            ]);
        }
        all
    }

    pub(super) async fn show(
        &self,
        session: &mut Session,
        standing: &Standing,
        id: &EntryId,
    ) -> Result<Option<Shown>, Error> {
        let wanted = id.to_string();
        let mut row = None;
        if self.id.takes(id) {
            row = self.one(session, standing, &wanted).await?;
        }
        if row.is_none() {
            let mut all = self.asked(standing);
            all.push(("event", wanted.into()));
            row = session.first(&self.sql.shown_by_event, Params::from(all)).await?;
        }
        let Some(row) = row else { return Ok(None) };
        let rows = [row];
        let locked = self.locked(session, &rows).await?;
        Ok(self.shown(&rows[0], standing, &locked))
    }

    /// How many rows that could be claimed are locked, among the first of them: that is where relays are.
    pub(super) async fn count_locked(
        &self,
        session: &mut Session,
        standing: &Standing,
    ) -> Result<u64, Error> {
        if !self.is_hold {
            return Ok(0);
        }
        let params = self.params(standing, &Filter::default(), &[], None);
        let rows = session.query(&self.sql.first_open, params).await?;
        Ok(self.locked(session, &rows).await?.len() as u64)
    }

    /// The ids of those rows that could be claimed, but that somebody has locked. Nobody but the locker knows; so it is tried,
    /// and waits for nobody.
    async fn locked(&self, session: &mut Session, rows: &[Row]) -> Result<HashSet<String>, Error> {
        if !self.is_hold {
            return Ok(HashSet::new());
        }
        let is_pending = |row: &&Row| text(row, seen::WORD).as_deref() == Some(State::Pending.word());
        let mut all: HashSet<String> =
            rows.iter().filter(is_pending).filter_map(|row| text(row, 0)).collect();
        if all.is_empty() {
            return Ok(all);
        }
        let list = ids(all.iter().map(String::as_str));
        for row in session.query(&self.sql.free, params! { "list" => list }).await? {
            all.remove(&text(&row, 0).unwrap_or_default());
        }
        Ok(all)
    }

    /// One row, by its id.
    async fn one(&self, session: &mut Session, standing: &Standing, id: &str) -> Result<Option<Row>, Error> {
        let mut all = self.asked(standing);
        all.push(("list", ids([id]).into()));
        session.first(&self.sql.shown, Params::from(all)).await
    }

    fn shown(&self, row: &Row, standing: &Standing, locked: &HashSet<String>) -> Option<Shown> {
        let (listed, entry) = self.listed(row, standing, locked)?;
        let published_at = self.decoder.time(value(row, seen::PUBLISHED_AT), self.sql.published_at_form);
        // One lease covers all that a cursor's holder has.
        let of_outbox = standing.holder.clone().filter(|_| self.is_cursor && listed.state == State::Leased);
        Some(Shown {
            holder: text(row, seen::HOLDER).or(of_outbox).map(Text::from),
            published_at: published_at.filter(|_| listed.state == State::Published),
            listed,
            entry,
        })
    }

    /// The oldest entry that is to be published.
    pub(super) async fn oldest(
        &self,
        session: &mut Session,
        standing: &Standing,
    ) -> Result<Option<Listed>, Error> {
        let mut all = self.asked(standing);
        let row = if self.is_cursor {
            all.push(("gaps", standing.gaps_list().into()));
            let row = session.first(&self.sql.oldest, Params::from(all)).await?;
            let Some(id) = row.and_then(|row| number(&row, 0)) else { return Ok(None) };
            self.one(session, standing, &id.to_string()).await?
        } else {
            session.first(&self.sql.oldest, Params::from(all)).await?
        };
        let listed = row.as_ref().and_then(|row| self.listed(row, standing, &HashSet::new()));
        Ok(listed.map(|(listed, _)| listed))
    }

    fn listed(&self, row: &Row, standing: &Standing, locked: &HashSet<String>) -> Option<(Listed, Entry)> {
        let word = text(row, seen::WORD)?;
        let states = [State::Pending, State::Leased, State::Published, State::Dead, State::Unknown];
        let state = states.into_iter().find(|state| state.word() == word)?;
        let retries = count(row, seen::RETRIES).unwrap_or(0);
        let mut batch = Batch::new(&self.decoder);
        let Ok(()) = batch.read(retries, count(row, seen::RETRIES_MAX), values(row));
        let entry = batch.finish().pop()?;
        let state = match state {
            State::Published if self.is_cursor && standing.has_passed(&entry.id) => State::Pending,
            State::Pending if text(row, 0).is_some_and(|id| locked.contains(&id)) => State::Leased,
            state => state,
        };
        let listed = Listed {
            id: entry.id.clone(),
            event_id: entry.envelope.id.clone(),
            event_type: entry.envelope.event_type.clone(),
            key: entry.key.clone(),
            state,
            retries,
            time: entry.envelope.known_time(),
            not_before: moment(value(row, seen::NOT_BEFORE)).filter(|_| state == State::Pending),
            error: match state {
                State::Unknown => Some(unknown_status(text(row, seen::STATUS).as_deref())),
                _ => text(row, seen::ERROR).filter(|error| !error.is_empty()).map(Text::from),
            },
        };
        Some((listed, entry))
    }
}

/// The time and the holder; of a cursor, how far its table was read, and where the first kind is parked.
fn standing(names: &Names, is_cursor: bool) -> String {
    let Names { leases, position, ranges, now, .. } = names;
    let holder = format!(
        "(select owner from {leases} where outbox = :outbox and name = 'relay' and expires_at > {now})"
    );
    if !is_cursor {
        return format!("select {now}, {holder}, 0, 0, null, null, null");
    }
    format!(
        "select {now}, {holder}, p.position, p.claimed, p.returned, p.gaps, \
         (select min(first_id) from {ranges} where outbox = :outbox) \
         from (select 1) as one left join {position} as p on p.outbox = :outbox"
    )
}

/// A moment that a statement worked out, in UTC.
pub(super) fn moment(value: Value<'_>) -> Option<Timestamp> {
    match value {
        Value::Time(us) | Value::Local(us) => Timestamp::from_microsecond(us).ok(),
        Value::Text(text) => postrider_core::layout::Zone::default().read(std::str::from_utf8(text).ok()?),
        _ => None,
    }
}

fn chooses(filter: &Filter, listed: &Listed, now: Timestamp) -> bool {
    let age = listed.time.map(|time| Duration::try_from(time.duration_until(now)).unwrap_or_default());
    filter.state.is_none_or(|state| state == listed.state)
        && filter.event_type.as_ref().is_none_or(|pattern| matches(pattern, &listed.event_type))
        && filter.is_of_key(listed.key.as_ref())
        && filter.older_than.is_none_or(|span| age.is_some_and(|age| age > span))
        && filter.newer_than.is_none_or(|span| age.is_some_and(|age| age < span))
}
