//! Appends outside of an application, in transactions of its own: for scripts.

use postrider_core::append::{AppendError, Appended};
use postrider_core::{Envelope, Fault};

use crate::append::Outbox;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::Session;

/// Events of one statement: a transaction takes as many as are given, part by part.
const PART_ENTRIES: usize = 1_000;

/// A connection that appends to an outbox. An application appends in its own transactions, with [`Outbox`].
pub struct Writer {
    session: Session,
    outbox: Outbox,
    place: String,
}

impl Writer {
    /// Connects.
    ///
    /// # Errors
    /// When the database cannot be reached, or the layout is not sound.
    pub async fn open(config: &Config) -> Result<Self, Fault> {
        let outbox = Outbox::new(&config.layout)?.payload_bytes_max(config.payload_bytes_max);
        Ok(Self { session: Session::open(config).await?, outbox, place: config.place() })
    }

    /// Appends all of them, or none.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all(&mut self, envelopes: &[Envelope]) -> Result<Vec<Appended>, Fault> {
        self.begin().await?;
        let mut all = Vec::with_capacity(envelopes.len());
        for part in envelopes.chunks(PART_ENTRIES) {
            let appended = self.outbox.append_all(self.session.conn(), part).await;
            all.extend(appended.map_err(|error| refused(&self.place, error))?);
        }
        self.commit().await?;
        Ok(all)
    }

    /// Appends one event once, however often it is repeated with the same key.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once(&mut self, envelope: &Envelope, key: &str) -> Result<Appended, Fault> {
        self.begin().await?;
        let appended = self.outbox.append_once(self.session.conn(), envelope, key).await;
        let appended = appended.map_err(|error| refused(&self.place, error))?;
        self.commit().await?;
        Ok(appended)
    }

    async fn begin(&mut self) -> Result<(), Fault> {
        self.session.begin().await.map_err(|error| fault(&self.place, error))
    }

    async fn commit(&mut self) -> Result<(), Fault> {
        self.session.commit().await.map_err(|error| fault(&self.place, error))
    }
}

fn refused(place: &str, error: AppendError<mysql_async::Error>) -> Fault {
    match error {
        AppendError::Refused(fault) => fault,
        AppendError::Database(error) => match crate::append::hint(&error) {
            Some(hint) => Fault::new(place, hint.problem, hint.remedy).caused_by(Error::Server(error)),
            None => fault(place, Error::Server(error)),
        },
    }
}
