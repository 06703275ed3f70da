//! Appends events to the configured outbox, in transactions of its own.

mod sqlite;

use std::ops::Deref;

use postrider_core::append::Appended;
use postrider_core::{Envelope, Fault, Names};

use crate::config::Config;
use crate::exit::Failure;
use crate::outbox::{Database, database, failure};

/// A connection and what it may write.
pub(crate) struct Writer {
    rules: Rules,
    inner: Inner,
}

enum Inner {
    Sqlite(Box<sqlite::Writer>),
    Postgres(Box<postrider_postgres::Writer>),
    Mysql(Box<postrider_mysql::Writer>),
}

/// What the outbox takes.
pub(crate) struct Rules {
    names: Names,
    pub(crate) payload_bytes_max: usize,
}

impl Writer {
    /// Opens a database that is there.
    pub(crate) async fn open(config: &Config) -> Result<Self, Failure> {
        let payload_bytes_max = config.outbox.payload_bytes_max;
        let (names, inner) = match database(config)? {
            Database::Sqlite(settings) => {
                (settings.layout.names, Inner::Sqlite(Box::new(sqlite::Writer::open(&settings)?)))
            }
            Database::Postgres(settings) => {
                let writer = postrider_postgres::Writer::open(&settings).await.map_err(failure)?;
                (settings.layout.names, Inner::Postgres(Box::new(writer)))
            }
            Database::Mysql(settings) => {
                let writer = postrider_mysql::Writer::open(&settings).await.map_err(failure)?;
                (settings.layout.names, Inner::Mysql(Box::new(writer)))
            }
        };
        Ok(Self { rules: Rules { names, payload_bytes_max }, inner })
    }

    /// All of them, or none.
    pub(crate) async fn append_all(&mut self, envelopes: &[Envelope]) -> Result<Vec<Appended>, Failure> {
        match &mut self.inner {
            Inner::Sqlite(writer) => writer.append_all(envelopes),
            Inner::Postgres(writer) => writer.append_all(envelopes).await.map_err(failure),
            Inner::Mysql(writer) => writer.append_all(envelopes).await.map_err(failure),
        }
    }

    /// Once, however often it is repeated with the same key.
    pub(crate) async fn append_once(&mut self, envelope: &Envelope, key: &str) -> Result<Appended, Failure> {
        match &mut self.inner {
            Inner::Sqlite(writer) => writer.append_once(envelope, key),
            Inner::Postgres(writer) => writer.append_once(envelope, key).await.map_err(failure),
            Inner::Mysql(writer) => writer.append_once(envelope, key).await.map_err(failure),
        }
    }
}

impl Rules {
    /// What would be refused, before anything is written.
    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Fault> {
        envelope.validate(self.names, self.payload_bytes_max)
    }
}

impl Deref for Writer {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}
