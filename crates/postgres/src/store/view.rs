//! Rows as operators see them, and which of them a filter chooses.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::layout::TimeForm;
use postrider_core::route::matches;
use postrider_core::rows::{Batch, Decoder, Value};
use postrider_core::store::{Filter, Listed, Shown, unknown_status};
use postrider_core::{Entry, EntryId, Layout, State, Text};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::ids::Ids;
use crate::fault::Error;
use crate::rows::{lenient, value, values};
use crate::session::{Param, Session};
use crate::sql::Names;
use crate::sql::store::{FETCH_ROWS, Query, StoreSql, seen};
use crate::table::{Kind, Table};

/// What a store reads by.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) outbox: String,
    pub(crate) decoder: Decoder,
    pub(crate) sql: StoreSql,
    pub(crate) id_kind: Kind,
    standing: String,
}

/// How far the outbox was read, and who holds it.
#[derive(Default, Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) now: Timestamp,
    pub(crate) position: i64,
    pub(crate) claimed: i64,
    pub(crate) returned: Vec<i64>,
    /// The holder, while its lease is good.
    pub(crate) holder: Option<String>,
}

/// A span as the database takes it. Longer than a thousand years is as good as a thousand.
pub(crate) fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(MILLENNIUM_US)
}

const MILLENNIUM_US: i64 = 1_000 * 365 * 86_400 * 1_000_000;

/// What a query's rows are chosen by, beside the state.
struct Narrowed<'a> {
    wanted: Wanted<'a>,
    older: Option<i64>,
    newer: Option<i64>,
    key: Option<Vec<String>>,
    above: Option<i64>,
}

enum Wanted<'a> {
    Ids(Ids),
    Event(&'a str),
}

impl View {
    pub(crate) fn new(layout: &Layout, names: &Names, table: &Table, ttl_us: i64) -> Self {
        Self {
            outbox: layout.table.as_str().to_owned(),
            // Whether order is kept decides what a source blocks, not what an operator sees.
            decoder: Decoder::new(layout).with_keys(),
            sql: StoreSql::new(layout, names, table, ttl_us),
            id_kind: table.id_kind(layout),
            standing: format!(
                "select clock_timestamp(), p.position, p.claimed, p.returned, (select l.owner from {} as l \
                 where l.outbox = $1 and l.name = 'relay' and l.expires_at > clock_timestamp()) \
                 from (values (1)) as one left join {} as p on p.outbox = $1",
                names.leases, names.position
            ),
        }
    }

    pub(crate) async fn standing(&self, session: &Session) -> Result<Standing, Error> {
        let row = session.first(&self.standing, &[(&self.outbox, Type::TEXT)]).await?;
        let Some(row) = row else { return Ok(Standing::default()) };
        let now = match value(&row, 0)? {
            Value::Time(us) => Timestamp::from_microsecond(us).unwrap_or_default(),
            _ => Timestamp::default(),
        };
        Ok(Standing {
            now,
            position: row.get::<_, Option<i64>>(1).unwrap_or(0),
            claimed: row.get::<_, Option<i64>>(2).unwrap_or(0),
            returned: row.get::<_, Option<Vec<i64>>>(3).unwrap_or_default(),
            holder: row.get(4),
        })
    }

    /// Entries that match, oldest first.
    pub(crate) async fn each(
        &self,
        session: &Session,
        standing: &Standing,
        filter: &Filter,
        take: impl FnMut(Listed),
    ) -> Result<(), Error> {
        self.each_above(session, standing, filter, None, take).await
    }

    /// The same among the rows whose ids are above one.
    pub(crate) async fn each_above(
        &self,
        session: &Session,
        standing: &Standing,
        filter: &Filter,
        above: Option<i64>,
        mut take: impl FnMut(Listed),
    ) -> Result<(), Error> {
        let mut left = filter.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }
        let query = if filter.ids.is_empty() { self.sql.list(filter.state) } else { &self.sql.listed };
        let narrowed = Narrowed {
            wanted: Wanted::Ids(Ids::new(self.id_kind, &filter.ids)),
            older: filter.older_than.map(microseconds),
            // One that is this long leaves nothing out.
            newer: filter.newer_than.map(microseconds).filter(|us| *us < MILLENNIUM_US),
            key: filter.key_ids().map(|ids| ids.into_iter().map(str::to_owned).collect()),
            above,
        };
        self.rows(session, query, standing, &narrowed, |row| {
            if let Some((listed, _)) = self.listed(row)?
                && chooses(filter, &listed, standing.now)
            {
                take(listed);
                left -= 1;
            }
            Ok(left > 0)
        })
        .await
    }

    pub(crate) async fn show(
        &self,
        session: &Session,
        standing: &Standing,
        id: &EntryId,
    ) -> Result<Option<Shown>, Error> {
        let ids = Ids::new(self.id_kind, [id]);
        if !ids.is_empty()
            && let Some(shown) = self.shown(session, standing, &self.sql.shown, Wanted::Ids(ids)).await?
        {
            return Ok(Some(shown));
        }
        let event = id.to_string();
        if event.contains('\0') {
            return Ok(None);
        }
        self.shown(session, standing, &self.sql.shown_by_event, Wanted::Event(&event)).await
    }

    /// The oldest entry that is to be published.
    pub(crate) async fn oldest(
        &self,
        session: &Session,
        standing: &Standing,
    ) -> Result<Option<Listed>, Error> {
        let mut oldest = None;
        let any = Narrowed::new(Wanted::Ids(Ids::new(self.id_kind, [])));
        self.rows(session, &self.sql.oldest, standing, &any, |row| {
            oldest = self.listed(row)?.map(|(listed, _)| listed);
            Ok(false)
        })
        .await?;
        Ok(oldest)
    }

    async fn shown(
        &self,
        session: &Session,
        standing: &Standing,
        query: &Query,
        wanted: Wanted<'_>,
    ) -> Result<Option<Shown>, Error> {
        let mut found = None;
        self.rows(session, query, standing, &Narrowed::new(wanted), |row| {
            let Some((listed, entry)) = self.listed(row)? else { return Ok(true) };
            let of_entry = lenient(row, seen::HOLDER)?.map(Text::from);
            let of_outbox = standing.holder.clone().map(Text::from).filter(|_| listed.state == State::Leased);
            let published_at = self.time(row, seen::PUBLISHED_AT, self.sql.published_at_form)?;
            let published_at = published_at.filter(|_| listed.state == State::Published);
            found = Some(Shown { holder: of_entry.or(of_outbox), published_at, listed, entry });
            Ok(false)
        })
        .await?;
        Ok(found)
    }

    /// Rows of a query, within its caller's transaction, until `take` has enough.
    async fn rows(
        &self,
        session: &Session,
        query: &Query,
        standing: &Standing,
        narrowed: &Narrowed<'_>,
        mut take: impl FnMut(&Row) -> Result<bool, tokio_postgres::Error>,
    ) -> Result<(), Error> {
        let alive = standing.holder.is_some();
        let wanted: Param<'_> = match &narrowed.wanted {
            Wanted::Ids(ids) => ids.param(),
            Wanted::Event(id) => (id, Type::TEXT),
        };
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&standing.position as _, Type::INT8),
            (&standing.claimed as _, Type::INT8),
            (&standing.returned as _, Type::INT8_ARRAY),
            (&alive as _, Type::BOOL),
            wanted,
            (&narrowed.older as _, Type::INT8),
            (&narrowed.newer as _, Type::INT8),
            (&narrowed.key as _, Type::TEXT_ARRAY),
            (&narrowed.above as _, Type::INT8),
        ];
        session.execute(&query.declare, &params).await?;
        loop {
            let rows = session.query(&query.fetch, &[]).await?;
            for row in &rows {
                if !take(row)? {
                    return session.run(&query.close).await;
                }
            }
            if rows.len() < FETCH_ROWS {
                return session.run(&query.close).await;
            }
        }
    }

    fn listed(&self, row: &Row) -> Result<Option<(Listed, Entry)>, tokio_postgres::Error> {
        let state = match row.try_get::<_, Option<&str>>(seen::WORD)? {
            Some("pending") => State::Pending,
            Some("leased") => State::Leased,
            Some("published") => State::Published,
            Some("dead") => State::Dead,
            Some("unknown") => State::Unknown,
            _ => return Ok(None),
        };
        let number = |at| {
            Ok::<_, tokio_postgres::Error>(match value(row, at)? {
                Value::Integer(number) => u32::try_from(number).ok(),
                _ => None,
            })
        };
        let retries = number(seen::RETRIES)?.unwrap_or(0);
        let mut batch = Batch::new(&self.decoder);
        batch.read(retries, number(seen::RETRIES_MAX)?, values(row))?;
        let Some(entry) = batch.finish().pop() else { return Ok(None) };
        let due = self.time(row, seen::NOT_BEFORE, self.sql.not_before_form)?;
        let listed = Listed {
            id: entry.id.clone(),
            event_id: entry.envelope.id.clone(),
            event_type: entry.envelope.event_type.clone(),
            key: entry.key.clone(),
            state,
            retries,
            time: entry.envelope.known_time(),
            not_before: due.filter(|_| state == State::Pending),
            error: match state {
                State::Unknown => Some(unknown_status(lenient(row, seen::STATUS)?.as_deref())),
                _ => lenient(row, seen::ERROR)?.filter(|error| !error.is_empty()).map(Text::from),
            },
        };
        Ok(Some((listed, entry)))
    }

    fn time(&self, row: &Row, at: usize, form: TimeForm) -> Result<Option<Timestamp>, tokio_postgres::Error> {
        Ok(self.decoder.time(value(row, at)?, form))
    }
}

impl<'a> Narrowed<'a> {
    fn new(wanted: Wanted<'a>) -> Self {
        Self { wanted, older: None, newer: None, key: None, above: None }
    }
}

/// Everything that SQL does not decide.
fn chooses(filter: &Filter, listed: &Listed, now: Timestamp) -> bool {
    let age = listed.time.map(|time| Duration::try_from(time.duration_until(now)).unwrap_or_default());
    filter.state.is_none_or(|state| state == listed.state)
        && filter.event_type.as_ref().is_none_or(|pattern| matches(pattern, &listed.event_type))
        && filter.is_of_key(listed.key.as_ref())
        && filter.older_than.is_none_or(|span| age.is_some_and(|age| age > span))
        && filter.newer_than.is_none_or(|span| age.is_some_and(|age| age < span))
}
