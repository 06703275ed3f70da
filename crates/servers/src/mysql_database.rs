//! A fresh database per test, on MariaDB or MySQL.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Row, Value};

use crate::sql::Rows;
use crate::{address, url, wait};

const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Too many connections: somebody's end soon.
const TOO_MANY: u16 = 1040;

/// A database of the test's own on a shared server; dropped with it.
#[derive(Debug)]
pub struct MysqlDatabase {
    server: String,
    name: String,
}

impl MysqlDatabase {
    /// One on [`crate::mariadb`], for tests without a runtime.
    #[must_use]
    pub fn create_blocking() -> Self {
        Self::create_blocking_on(&address::mariadb())
    }

    /// One on the server of this URL, for tests without a runtime.
    #[must_use]
    pub fn create_blocking_on(server: &str) -> Self {
        let chance = RandomState::new().build_hasher().finish();
        let name = format!("postrider_{}_{chance:016x}", std::process::id());
        let create = format!("create database {name} character set utf8mb4");
        let mut problem = None;
        let created = wait::within_deadline(|| match query(server, &create) {
            Ok(_) => true,
            Err(mysql_async::Error::Server(error)) if error.code == TOO_MANY => {
                problem = Some(error);
                false
            }
            Err(error) => {
                panic!("cannot create a database: {error}; is the server up? `cargo xtask services status`")
            }
        });
        assert!(created, "cannot create a database: {problem:?}");
        Self { server: server.to_owned(), name }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        url::with_database(&self.server, &self.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs SQL here, one or more statements, and returns the rows of them all; panics with the error. Blocks the thread.
    pub fn query(&self, text: &str) -> Rows {
        self.try_query(text).unwrap_or_else(|error| panic!("{error}, of: {text}"))
    }

    /// The same, where the server may refuse.
    ///
    /// # Errors
    /// What it says.
    pub fn try_query(&self, text: &str) -> Result<Rows, String> {
        query(&self.url(), text).map_err(|error| error.to_string())
    }
}

impl Drop for MysqlDatabase {
    #[allow(clippy::print_stderr, reason = "a panic here would hide the test's own")]
    fn drop(&mut self) {
        let Self { server, name } = self;
        // A transaction that is still open would keep the tables, and us waiting.
        let open = format!("select id from information_schema.processlist where db = '{name}'");
        for id in query(server, &open).unwrap_or_default().into_iter().flatten().flatten() {
            let _ = query(server, &format!("kill {id}"));
        }
        if let Err(error) = query(server, &format!("drop database if exists {name}")) {
            eprintln!("the database {name} stays behind: {error}");
        }
    }
}

pub(crate) fn query(url: &str, text: &str) -> mysql_async::Result<Rows> {
    let opts = Opts::from_url(url)?;
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = async { tokio::time::timeout(ANSWER_WITHIN, ask(opts, text)).await };
        let answer = runtime.expect("a runtime for one connection").block_on(asked);
        answer.unwrap_or_else(|_| Err(mysql_async::Error::Other("no answer for two minutes".into())))
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn ask(opts: Opts, text: &str) -> mysql_async::Result<Rows> {
    let mut conn = Conn::new(opts).await?;
    let mut rows = Rows::new();
    let mut result = conn.query_iter(text).await?;
    while !result.is_empty() {
        let found: Vec<Row> = result.collect().await?;
        rows.extend(found.into_iter().map(|row| row.unwrap().into_iter().map(shown).collect()));
    }
    drop(result);
    conn.disconnect().await?;
    Ok(rows)
}

fn shown(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
