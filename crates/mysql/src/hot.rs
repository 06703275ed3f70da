//! What runs for every batch, for the benchmarks: the bare loop of the same SQL is what a relay is measured against.

use postrider_core::Fault;

use crate::config::Config;
use crate::session::Session;
use crate::sql::status::{LeaseSql, Parts, ScanSql, SettleSql, scanned};
use crate::table::inspect;

/// The statements of a batch over a status table, under a lease. `:outbox` is the table's name; `:list` are ids, as JSON.
#[doc(hidden)]
#[derive(Debug)]
pub struct StatusStatements {
    /// What operators' verbs bump, a number that no other call gets, and the clocks.
    pub pulse: String,
    /// Open rows: `:rows` at most.
    pub first: String,
    /// Open rows behind one: `:lead` what it is ordered by, `:id` its id.
    pub on: String,
    /// Open rows up to one, behind the id `:sealed`.
    pub late: String,
    /// Whether the outbox's lease is held: `:owner`, `:fence`.
    pub guard: String,
    /// Locks rows of the list, and answers them whole: `:rows` at most.
    pub lock: String,
    /// Marks entries of the list as held: `:owner`, `:claim`.
    pub hold: String,
    /// Which of them are: the same.
    pub held: String,
    /// Locks the rows of the list again.
    pub settle_lock: String,
    /// Which entries of the list are the claim's: `:owner`, `:claim`.
    pub mine: String,
    /// The rows of the list are published.
    pub published: String,
    /// Nothing is kept beside them any more.
    pub forget: String,
}

impl StatusStatements {
    /// Where [`Self::first`] and [`Self::on`] answer a row's id.
    pub const ENTRY: usize = scanned::ENTRY;

    /// As the layout compiles them for the live table.
    ///
    /// # Errors
    /// When the database cannot be reached, or there is no such table.
    pub async fn read(config: &Config) -> Result<Self, Fault> {
        let mut session = Session::open(config).await?;
        let table = inspect(&mut session, config).await?;
        let parts = Parts::new(config, &table);
        let scan = ScanSql::new(&parts);
        let LeaseSql { guard, lock, hold, held, .. } = LeaseSql::new(&parts);
        let settle = SettleSql::new(config, &parts);
        Ok(Self {
            pulse: scan.pulse,
            // A backlog's rows stand close to each other.
            on: scan.walk.map_or(scan.gather.on, |walk| walk.on),
            first: scan.gather.first,
            late: scan.late_behind,
            guard,
            lock,
            hold,
            held,
            settle_lock: settle.lock,
            mine: settle.mine,
            published: settle.published,
            forget: settle.forget,
        })
    }
}
