//! Appending inside the caller's own transaction (F9).

mod document;
mod driver;
mod hint;
mod mysql_async;
pub(crate) mod shape;
pub(crate) mod values;

use std::sync::{Arc, PoisonError, RwLock};

use postrider_core::append::accept;
use postrider_core::layout::Numbers;
use postrider_core::{Envelope, Fault, Layout, limits};

pub(crate) use driver::{Answer, Columns, Driver};
pub use hint::hint;
pub(crate) use shape::Shape;
pub(crate) use values::Value;

use crate::sql::append::AppendSql;

/// An outbox that events are appended to; clones share what is known of its table.
///
/// Every method takes the caller's connection, which has the caller's transaction open: the event is there if and only if
/// that commits. Each is one round trip once its statement is prepared, apart from the first of all, which looks at the
/// table's columns.
///
/// An event that the table cannot keep is refused before anything is written, so that the transaction goes on. The trace
/// context is the exception: on a table without a column for it, it is left out.
///
/// ```no_run
/// # async fn append(envelope: &postrider_core::Envelope) -> Result<(), Box<dyn std::error::Error>> {
/// use mysql_async::prelude::Queryable;
/// use mysql_async::{Conn, TxOpts};
/// use postrider_core::Layout;
/// use postrider_mysql::Outbox;
///
/// let outbox = Outbox::new(&Layout::built_in("ledger")?)?;
/// let mut conn = Conn::from_url("mysql://app@localhost/bank").await?;
/// let mut transaction = conn.start_transaction(TxOpts::default()).await?;
/// transaction.query_drop("insert into transactions (id) values (7)").await?;
/// outbox.append(&mut transaction, envelope).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Outbox {
    inner: Arc<Inner>,
    payload_bytes_max: usize,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    /// Compiled when the first event comes, for the table as it is then.
    sql: RwLock<Option<Arc<AppendSql>>>,
}

impl Outbox {
    /// An outbox with this layout. Where the row's id is the event's, the event gives it, unless the table counts: then the
    /// number that it hands out is the event's id, and `Appended::event_id` tells it.
    ///
    /// # Errors
    /// When the layout is not sound.
    pub fn new(layout: &Layout) -> Result<Self, Fault> {
        let place = format!("table \"{}\"", layout.table);
        layout.validate(&place)?;
        if let Some(name) = layout.zone.name() {
            return Err(Fault::new(
                place,
                format!("zone = \"{name}\" is a name, and on MySQL and MariaDB only offsets are known"),
                "Write the zone as an offset such as +09:00",
            ));
        }
        let inner = Inner { layout: layout.clone(), sql: RwLock::new(None) };
        Ok(Self { inner: Arc::new(inner), payload_bytes_max: limits::PAYLOAD_BYTES })
    }

    /// Sets another bound on payloads than [`limits::PAYLOAD_BYTES`].
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes.min(limits::PAYLOAD_BYTES_MAX);
        self
    }

    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Fault> {
        accept(&self.inner.layout, self.payload_bytes_max, envelope)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// Whether each event gets the next number of its key, which only the installed procedure can do in one round trip.
    pub(crate) fn gives_numbers(&self) -> bool {
        self.inner.layout.numbers == Numbers::Append
    }

    pub(crate) fn known(&self) -> Option<Arc<AppendSql>> {
        self.inner.sql.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn know(&self, sql: AppendSql) -> Arc<AppendSql> {
        let sql = Arc::new(sql);
        *self.inner.sql.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&sql));
        sql
    }

    pub(crate) fn forget(&self) {
        *self.inner.sql.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
