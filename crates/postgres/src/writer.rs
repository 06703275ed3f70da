//! Appends outside of an application, in transactions of its own: for scripts.

use postrider_core::append::{AppendError, Appended};
use postrider_core::{Envelope, Fault};

use crate::append::Outbox;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::{Durable, Session};

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
        let session = Session::open(config, Durable::Now).await?;
        Ok(Self { session, outbox, place: config.place() })
    }

    /// Appends all of them, or none.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all(&self, envelopes: &[Envelope]) -> Result<Vec<Appended>, Fault> {
        let transaction =
            self.session.begin(Durable::Now).await.map_err(|error| fault(&self.place, error))?;
        let appended = self.outbox.append_all(transaction.client(), envelopes).await;
        let appended = appended.map_err(|error| self.refused(error))?;
        transaction.commit().await.map_err(|error| fault(&self.place, error))?;
        Ok(appended)
    }

    /// Appends one event once, however often it is repeated with the same key.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once(&self, envelope: &Envelope, key: &str) -> Result<Appended, Fault> {
        let transaction =
            self.session.begin(Durable::Now).await.map_err(|error| fault(&self.place, error))?;
        let appended = self.outbox.append_once(transaction.client(), envelope, key).await;
        let appended = appended.map_err(|error| self.refused(error))?;
        transaction.commit().await.map_err(|error| fault(&self.place, error))?;
        Ok(appended)
    }

    fn refused(&self, error: AppendError<tokio_postgres::Error>) -> Fault {
        match error {
            AppendError::Refused(fault) => fault,
            AppendError::Database(error) => fault(&self.place, Error::Server(error)),
        }
    }
}
