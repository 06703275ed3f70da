//! The statements of the hot path over status tables, for whoever measures: a bare loop is one of the very same SQL, or it
//! measures nothing.

use postrider_core::Fault;
use postrider_core::layout::Way;

use crate::config::Config;
use crate::session::{Durable, Session};
use crate::sql::status::{HoldSql, LeaseSql, Parts, ScanSql, SettleSql, scanned, taken};
use crate::table::inspect;

/// What claiming and settling rows of a status table runs.
#[derive(Debug)]
pub struct StatusStatements {
    /// Open rows: $1 the outbox, $2 and $3 null, $4 rows at most.
    pub first: String,
    /// Open rows behind one: $2 what it is ordered by, $3 its id.
    pub on: String,
    /// Takes rows by their ids: $1 the outbox, $2 ids; for a lease $3 the owner, $4 rows at most, $5 zero; for a hold $3 rows
    /// at most.
    pub take: String,
    /// $1 the outbox, $2 ids, $3 versions, $4 the owner, $5 the claim, $6 zero.
    pub published: String,
}

impl StatusStatements {
    /// Where [`Self::first`] and [`Self::on`] answer what a row is ordered by, and its id.
    pub const RANK: (usize, usize) = (scanned::LEADS, scanned::ENTRY);
    /// Where [`Self::take`] answers the row's id and the claim.
    pub const TAKEN: (usize, usize) = (taken::ENTRY, taken::CLAIM);

    /// As the layout compiles them for the live table.
    ///
    /// # Errors
    /// When the database cannot be reached, or there is no such table.
    pub async fn read(config: &Config) -> Result<Self, Fault> {
        let session = Session::open(config, Durable::Soon).await?;
        let table = inspect(&session, config).await?;
        let parts = Parts::new(&config.layout, &table, config.ttl_us());
        let ScanSql { first, on, .. } = ScanSql::new(&parts);
        let take = match config.layout.way {
            Way::Hold => HoldSql::new(&parts).lock,
            _ => LeaseSql::new(&parts).take,
        };
        Ok(Self { first, on, take, published: SettleSql::new(&parts).published })
    }
}
