//! Rows as operators see them, and which of them a filter chooses.

use std::time::Duration;

use jiff::Timestamp;
use mysql_async::{Params, Row, Value as Bound, params};
use postrider_core::route::matches;
use postrider_core::rows::{Batch, Decoder, Value};
use postrider_core::store::{Filter, Listed, Shown, unknown_status};
use postrider_core::{Entry, EntryId, State, Text};

use crate::config::Config;
use crate::fault::Error;
use crate::rows::{count, text, value, values};
use crate::session::Session;
use crate::sql::store::{PAGE_ROWS, StoreSql, seen};
use crate::sql::{Id, Names, ids};
use crate::table::Table;

/// What a store reads by.
#[derive(Debug)]
pub(super) struct View {
    pub(super) outbox: String,
    decoder: Decoder,
    sql: StoreSql,
    id: Id,
    now: String,
    /// Who holds the outbox, while that lease is good.
    holder: String,
}

/// A span as the database takes it. Longer than a thousand years is as good as a thousand.
pub(super) fn microseconds(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(MILLENNIUM_US)
}

const MILLENNIUM_US: i64 = 1_000 * 365 * 86_400 * 1_000_000;

impl View {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let Names { leases, now, .. } = Names::new(config);
        Self {
            outbox: config.layout.table.as_str().to_owned(),
            // Whether order is kept decides what a source blocks, not what an operator sees.
            decoder: Decoder::new(&config.layout).with_keys(),
            sql: StoreSql::new(config, table),
            id: Id::new(&config.layout, table),
            holder: format!(
                "select owner from {leases} where outbox = :outbox and name = 'relay' and expires_at > {now}"
            ),
            now: format!("select {now}"),
        }
    }

    pub(super) async fn holder(&self, session: &mut Session) -> Result<Option<String>, Error> {
        let row = session.first(&self.holder, params! { "outbox" => &self.outbox }).await?;
        Ok(row.and_then(|row| text(&row, 0)))
    }

    /// Entries that match, oldest first.
    pub(super) async fn each(
        &self,
        session: &mut Session,
        filter: &Filter,
        mut take: impl FnMut(Listed),
    ) -> Result<(), Error> {
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let now = self.now(session).await?;
        let wanted: Vec<String> =
            filter.ids.iter().filter(|id| self.id.takes(id)).map(EntryId::to_string).collect();
        let sql = if filter.ids.is_empty() { self.sql.list(filter.state) } else { &self.sql.listed };
        let mut mark: Option<(Bound, Option<String>)> = None;
        while left > 0 {
            let rows = session.query(sql, self.params(filter, &wanted, mark.take())).await?;
            for row in &rows {
                if let Some((listed, _)) = self.listed(row)
                    && chooses(filter, &listed, now)
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

    fn params(&self, filter: &Filter, wanted: &[String], mark: Option<(Bound, Option<String>)>) -> Params {
        let (id, lead) = mark.unwrap_or((Bound::NULL, None));
        let keys = filter.key_ids().map(|keys| serde_json::to_string(&keys).unwrap_or_default());
        let mut all: Vec<(&str, Bound)> = vec![
            ("outbox", self.outbox.as_str().into()),
            ("older_us", filter.older_than.map(microseconds).into()),
            // One that is this long leaves nothing out.
            ("newer_us", filter.newer_than.map(microseconds).filter(|us| *us < MILLENNIUM_US).into()),
            ("keys", keys.into()),
            ("id", id),
        ];
        if self.sql.has_lead {
            all.push(("lead", lead.into()));
        }
        if !filter.ids.is_empty() {
            all.push(("list", ids(wanted.iter().map(String::as_str)).into()));
        }
        Params::from(all)
    }

    pub(super) async fn show(&self, session: &mut Session, id: &EntryId) -> Result<Option<Shown>, Error> {
        let wanted = id.to_string();
        let mut row = None;
        if self.id.takes(id) {
            let params = params! { "outbox" => &self.outbox, "list" => ids([wanted.as_str()]) };
            row = session.first(&self.sql.shown, params).await?;
        }
        if row.is_none() {
            let params = params! { "outbox" => &self.outbox, "event" => &wanted };
            row = session.first(&self.sql.shown_by_event, params).await?;
        }
        Ok(row.as_ref().and_then(|row| self.shown(row)))
    }

    fn shown(&self, row: &Row) -> Option<Shown> {
        let (listed, entry) = self.listed(row)?;
        let published_at = self.decoder.time(value(row, seen::PUBLISHED_AT), self.sql.published_at_form);
        Some(Shown {
            holder: text(row, seen::HOLDER).map(Text::from),
            published_at: published_at.filter(|_| listed.state == State::Published),
            listed,
            entry,
        })
    }

    /// The oldest entry that is to be published.
    pub(super) async fn oldest(&self, session: &mut Session) -> Result<Option<Listed>, Error> {
        let row = session.first(&self.sql.oldest, params! { "outbox" => &self.outbox }).await?;
        Ok(row.as_ref().and_then(|row| self.listed(row)).map(|(listed, _)| listed))
    }

    async fn now(&self, session: &mut Session) -> Result<Timestamp, Error> {
        let row = session.first(&self.now, Params::Empty).await?;
        Ok(row.and_then(|row| moment(value(&row, 0))).unwrap_or_default())
    }

    fn listed(&self, row: &Row) -> Option<(Listed, Entry)> {
        let word = text(row, seen::WORD)?;
        let states = [State::Pending, State::Leased, State::Published, State::Dead, State::Unknown];
        let state = states.into_iter().find(|state| state.word() == word)?;
        let retries = count(row, seen::RETRIES).unwrap_or(0);
        let mut batch = Batch::new(&self.decoder);
        let Ok(()) = batch.read(retries, count(row, seen::RETRIES_MAX), values(row));
        let entry = batch.finish().pop()?;
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
