//! Writers at their worst on a status table, and a log of what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::common::Harness;
use crate::wait;

/// Aggregates that writers lock, and a trigger that is slow now and then, after the row was stamped.
pub(crate) fn scene(table: &str) -> String {
    format!(
        "create table aggregates (key text primary key, v int not null);
        insert into aggregates select 'k' || g, 0 from generate_series(0, 19) as g;
        create table elsewhere (x int);
        create function slow() returns trigger language plpgsql as $$
        begin
            if random() < 0.1 then perform pg_sleep(random() * 0.02); end if;
            return new;
        end $$;
        create trigger slow before insert on {table} for each row execute function slow();"
    )
}

/// What the columns of a table are called, and what an INSERT and a COPY give for those behind the payload.
pub(crate) struct Written {
    pub(crate) table: &'static str,
    pub(crate) columns: &'static str,
    pub(crate) values: &'static str,
    pub(crate) copied: &'static str,
}

pub(crate) const LETTERS: Written = Written {
    table: "letters",
    columns: "event_id, event_type, kind, subject, payload, created_at, status",
    values: "pg_catalog.clock_timestamp(), 'NEW'",
    copied: "now\tNEW",
};

pub(crate) const QUOTED: Written = Written {
    table: "\"Post Office\".\"Letters\"",
    columns: "event_id, event_type, kind, subject, payload, \"createdAt\", \"Status\"",
    values: "pg_catalog.clock_timestamp(), 'NEW'",
    copied: "now\tNEW",
};

pub(crate) const LOGISTICS: Written = Written {
    table: "outbox_events",
    columns: "event_id, event_type, aggregate_type, aggregate_id, payload, occurred_at",
    values: "pg_catalog.clock_timestamp()",
    copied: "now",
};

impl Written {
    /// Rows with the same key and version.
    pub(crate) fn insert(&self, ids: &[String], key: &str, version: i64) -> String {
        let Self { table, columns, values, .. } = self;
        let rows: Vec<String> =
            ids.iter().map(|id| format!("('{id}', 't', 'k', '{key}', '{version}', {values})")).collect();
        format!("insert into {table} ({columns}) values {}", rows.join(", "))
    }
}

/// What was committed, and what a relay saw.
#[derive(Default)]
pub(crate) struct Log {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    committed: BTreeSet<String>,
    seen: Vec<Seen>,
    /// What a relay had in its hands when it died.
    died_with: BTreeSet<String>,
}

/// An event as a relay saw it: its id, its key and the key's version.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) version: i64,
}

impl Log {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn commit(&self, ids: Vec<String>) {
        self.inner().committed.extend(ids);
    }

    pub(crate) fn see(&self, seen: impl IntoIterator<Item = Seen>) {
        self.inner().seen.extend(seen);
    }

    pub(crate) fn die(&self, ids: impl IntoIterator<Item = String>) {
        self.inner().died_with.extend(ids);
    }

    /// How often something was seen again, and what of it nobody died with.
    pub(crate) fn repeated(&self) -> (usize, Vec<String>) {
        let inner = self.inner();
        let mut known = BTreeSet::new();
        let again: Vec<&String> =
            inner.seen.iter().map(|seen| &seen.id).filter(|id| !known.insert(*id)).collect();
        let unexplained = again.iter().filter(|id| !inner.died_with.contains(**id));
        (again.len(), unexplained.map(|id| (*id).clone()).collect())
    }

    /// What was committed and never seen.
    pub(crate) fn lost(&self) -> Vec<String> {
        let inner = self.inner();
        let seen: BTreeSet<&String> = inner.seen.iter().map(|seen| &seen.id).collect();
        inner.committed.iter().filter(|id| !seen.contains(id)).cloned().collect()
    }

    /// What was seen and never committed.
    pub(crate) fn ghosts(&self) -> Vec<String> {
        let inner = self.inner();
        let ghosts = inner.seen.iter().filter(|seen| !inner.committed.contains(&seen.id));
        ghosts.map(|seen| seen.id.clone()).collect()
    }

    /// Of locked keys, what came before its predecessor. A repetition is none.
    pub(crate) fn inverted(&self) -> Vec<Seen> {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut inverted = Vec::new();
        for seen in self.inner().seen.iter().filter(|seen| seen.key.starts_with('k')) {
            let before = last.entry(seen.key.clone()).or_default();
            match seen.version - *before {
                1 => *before = seen.version,
                ..=0 => {}
                _ => inverted.push(seen.clone()),
            }
        }
        inverted
    }
}

/// A small generator: the same chances in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

pub(crate) async fn client(harness: &Harness) -> Client {
    let (client, connection) = tokio_postgres::connect(&harness.database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) struct Writer<'a> {
    pub(crate) client: Client,
    pub(crate) written: &'a Written,
    pub(crate) number: u64,
    /// Names of prepared transactions are the server's: others write there too.
    place: String,
    ids: Vec<String>,
    drawn: usize,
}

impl<'a> Writer<'a> {
    pub(crate) async fn new(harness: &Harness, written: &'a Written, number: u64) -> Self {
        let place = harness.database.name().to_owned();
        Self { client: client(harness).await, written, number, place, ids: Vec::new(), drawn: 0 }
    }

    async fn run(&self, sql: &str) -> Option<i64> {
        let answer =
            self.client.simple_query(sql).await.unwrap_or_else(|error| panic!("{error:?}, of: {sql}"));
        answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        })
    }

    fn ids(&mut self, count: usize) -> Vec<String> {
        let ids: Vec<String> =
            (self.drawn..self.drawn + count).map(|at| format!("{}-{at}", self.number)).collect();
        self.drawn += count;
        self.ids.extend(ids.iter().cloned());
        ids
    }

    /// Locks a key, takes its next version, and appends it.
    async fn append_locked(&mut self, key: &str) {
        let lock = format!("update aggregates set v = v + 1 where key = '{key}' returning v");
        let version = self.run(&lock).await.unwrap();
        let id = self.ids(1);
        self.run(&self.written.insert(&id, key, version)).await;
    }

    async fn copy(&mut self, own: &str) {
        let Written { table, columns, copied, .. } = self.written;
        let lines: String =
            self.ids(2).iter().map(|id| format!("{id}\tt\tk\t{own}\t0\t{copied}\n")).collect();
        let sink = self.client.copy_in(&format!("copy {table} ({columns}) from stdin")).await.unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from(lines)).await.unwrap();
        sink.as_mut().finish().await.unwrap();
    }

    pub(crate) async fn write(mut self, rounds: u64, log: &Log) {
        let mut chance = Chance((self.number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for round in 0..rounds {
            let key = format!("k{}", chance.below(20));
            let own = format!("own-{}-{round}", self.number);
            let kind = (self.number + round) % 8;
            self.run("begin").await;
            match kind {
                0 => self.append_locked(&key).await,
                1 => {
                    for _ in 0..2 {
                        self.append_locked(&key).await;
                        wait::nap(chance.below(10)).await;
                    }
                }
                2 => {
                    let ids = self.ids(3);
                    self.run(&self.written.insert(&ids, &own, 0)).await;
                }
                3 => self.copy(&own).await,
                4 => {
                    self.append_locked(&key).await;
                    let undone = self.written.insert(&[format!("undone-{own}")], "undone", 0);
                    self.run(&format!("savepoint s; {undone}; rollback to savepoint s")).await;
                    self.append_locked(&key).await;
                }
                // Under a number of its own, which no snapshot lists.
                5 => {
                    self.run("savepoint s").await;
                    self.append_locked(&key).await;
                    self.run("release savepoint s").await;
                }
                6 => {
                    self.append_locked(&key).await;
                    self.run(&format!("prepare transaction '{}-{own}'", self.place)).await;
                }
                _ => {
                    self.run("insert into elsewhere values (1)").await;
                    wait::nap(chance.below(20)).await;
                    self.append_locked(&key).await;
                }
            }
            wait::nap(chance.below(40)).await;
            let end = if chance.below(100) < 15 { "rollback" } else { "commit" };
            let of = match kind {
                6 => format!(" prepared '{}-{own}'", self.place),
                _ => String::new(),
            };
            self.run(&format!("{end}{of}")).await;
            let ids = std::mem::take(&mut self.ids);
            if end == "commit" {
                log.commit(ids);
            }
        }
    }
}
