//! A fresh database per test.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use tokio_postgres::error::SqlState;

use crate::sql::{Rows, SqlError, query};
use crate::{address, url, wait};

/// A database of the test's own on a shared server; dropped with it, whoever is still connected.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// One on [`crate::postgres`].
    pub async fn create() -> Self {
        Self::create_on(&address::postgres()).await
    }

    /// One on the server of this URL.
    pub async fn create_on(server: &str) -> Self {
        let (tell, told) = tokio::sync::oneshot::channel();
        let server = server.to_owned();
        // If nobody waits any more, the database is dropped right here.
        std::thread::spawn(move || drop(tell.send(Self::create_blocking_on(&server))));
        told.await.expect("a database is created: the thread above says what is wrong")
    }

    /// One on [`crate::postgres`], for tests without a runtime.
    #[must_use]
    pub fn create_blocking() -> Self {
        Self::create_blocking_on(&address::postgres())
    }

    /// One on the server of this URL, for tests without a runtime.
    #[must_use]
    pub fn create_blocking_on(server: &str) -> Self {
        Self::create_blocking_with(server, "")
    }

    /// One on [`crate::postgres`] that holds whatever bytes it is given as text.
    #[must_use]
    pub fn create_without_encoding() -> Self {
        let any = " encoding 'SQL_ASCII' locale 'C' locale_provider libc";
        Self::create_blocking_with(&address::postgres(), any)
    }

    fn create_blocking_with(server: &str, options: &str) -> Self {
        let chance = RandomState::new().build_hasher().finish();
        let name = format!("postrider_{}_{chance:016x}", std::process::id());
        // Nobody may connect to template0, so nobody is in the way but others who copy it.
        let create = format!("create database {name} template template0{options}");
        let mut problem = None;
        let created = wait::within_deadline(|| match query(server, &create) {
            Ok(_) => true,
            Err(error) if passes(&error) => {
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
        self.url_at(&self.server)
    }

    /// The same database by way of another server, such as a pooler.
    #[must_use]
    pub fn url_at(&self, server: &str) -> String {
        url::with_database(server, &self.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs SQL here; panics with the error. Blocks the thread.
    pub fn query(&self, text: &str) -> Rows {
        query(&self.url(), text).unwrap_or_else(|error| panic!("{error}, of: {text}"))
    }
}

impl Drop for Database {
    #[allow(clippy::print_stderr, reason = "a panic here would hide the test's own")]
    fn drop(&mut self) {
        let Self { server, name } = self;
        let here = url::with_database(server, name);
        // Neither is dropped by force.
        let prepared = format!("select gid from pg_prepared_xacts where database = '{name}'");
        for gid in query(server, &prepared).unwrap_or_default().into_iter().flatten().flatten() {
            let _ = query(&here, &format!("rollback prepared '{}'", gid.replace('\'', "''")));
        }
        let slots = format!(
            "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots where database = '{name}' and active;
             select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = '{name}'"
        );
        let _ = query(server, &slots);
        if let Err(error) = query(server, &format!("drop database if exists {name} with (force)")) {
            eprintln!("the database {name} stays behind: {error}");
        }
    }
}

/// Faults of a busy server.
fn passes(error: &SqlError) -> bool {
    error.code.as_ref().is_some_and(|code| {
        [SqlState::OBJECT_IN_USE, SqlState::TOO_MANY_CONNECTIONS, SqlState::CANNOT_CONNECT_NOW].contains(code)
    })
}
