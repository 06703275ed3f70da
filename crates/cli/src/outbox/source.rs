//! The source of whichever database it is.

use postrider_core::Settlement;
use postrider_core::source::{self, Ask, Claim, Claimed, SourceError, SourceFeatures};
use postrider_mysql::MysqlSource;
use postrider_postgres::PostgresSource;
use postrider_sqlite::SqliteSource;

/// What the relay takes entries from.
pub(crate) struct Source(Inner);

enum Inner {
    Sqlite(Box<SqliteSource>),
    Postgres(Box<PostgresSource>),
    Mysql(Box<MysqlSource>),
}

/// A claim of it.
pub(crate) enum Hold {
    Sqlite(<SqliteSource as source::Source>::Hold),
    Postgres(<PostgresSource as source::Source>::Hold),
    Mysql(<MysqlSource as source::Source>::Hold),
}

impl Source {
    pub(super) fn sqlite(source: SqliteSource) -> Self {
        Self(Inner::Sqlite(Box::new(source)))
    }

    pub(super) fn postgres(source: PostgresSource) -> Self {
        Self(Inner::Postgres(Box::new(source)))
    }

    pub(super) fn mysql(source: MysqlSource) -> Self {
        Self(Inner::Mysql(Box::new(source)))
    }
}

impl source::Source for Source {
    type Hold = Hold;

    fn features(&self) -> SourceFeatures {
        match &self.0 {
            Inner::Sqlite(source) => source.features(),
            Inner::Postgres(source) => source.features(),
            Inner::Mysql(source) => source.features(),
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<Hold>, SourceError> {
        Ok(match &self.0 {
            Inner::Sqlite(source) => held(source.claim(ask).await?, Hold::Sqlite),
            Inner::Postgres(source) => held(source.claim(ask).await?, Hold::Postgres),
            Inner::Mysql(source) => held(source.claim(ask).await?, Hold::Mysql),
        })
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        match (&self.0, hold) {
            (Inner::Sqlite(source), Hold::Sqlite(hold)) => source.extend(hold).await,
            (Inner::Postgres(source), Hold::Postgres(hold)) => source.extend(hold).await,
            (Inner::Mysql(source), Hold::Mysql(hold)) => source.extend(hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        match (&self.0, hold) {
            (Inner::Sqlite(source), Hold::Sqlite(hold)) => source.settle(hold, settlements).await,
            (Inner::Postgres(source), Hold::Postgres(hold)) => source.settle(hold, settlements).await,
            (Inner::Mysql(source), Hold::Mysql(hold)) => source.settle(hold, settlements).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        match (&self.0, hold) {
            (Inner::Sqlite(source), Hold::Sqlite(hold)) => source.release(hold).await,
            (Inner::Postgres(source), Hold::Postgres(hold)) => source.release(hold).await,
            (Inner::Mysql(source), Hold::Mysql(hold)) => source.release(hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn retire(&self) -> Result<(), SourceError> {
        match &self.0 {
            Inner::Sqlite(source) => source.retire().await,
            Inner::Postgres(source) => source.retire().await,
            Inner::Mysql(source) => source.retire().await,
        }
    }

    async fn wake(&self) {
        match &self.0 {
            Inner::Sqlite(source) => source.wake().await,
            Inner::Postgres(source) => source.wake().await,
            Inner::Mysql(source) => source.wake().await,
        }
    }
}

fn held<H>(claimed: Claimed<H>, hold: impl FnOnce(H) -> Hold) -> Claimed<Hold> {
    match claimed {
        Claimed::Batch(claim) => {
            Claimed::Batch(Claim { hold: hold(claim.hold), entries: claim.entries, more: claim.more })
        }
        Claimed::Nothing(idle) => Claimed::Nothing(idle),
        Claimed::Standby => Claimed::Standby,
    }
}
