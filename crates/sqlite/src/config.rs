//! Which outbox in which file, and how this process holds it.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::layout::{Identifier, Order, Published, SideTables, Way};
use postrider_core::{Fault, Layout, Start, limits};

/// Which outbox in which file, and how this process holds it.
///
/// ```
/// use postrider_core::Layout;
/// use postrider_sqlite::Config;
/// let config = Config::new("shop.db", Layout::built_in("native").unwrap(), "relay-7f3a");
/// assert_eq!(config.layout.table.as_str(), "outbox");
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The database's file.
    pub path: PathBuf,
    /// How its outbox spells an entry; its table and way may have been overridden.
    pub layout: Layout,
    /// Where a cursor begins on a table that has rows already.
    pub start: Option<Start>,
    /// Who holds what is claimed: unique among all processes on the file, so a name with a random suffix.
    pub holder: String,
    /// How long what is claimed is held without being extended.
    pub lease_ttl: Duration,
    /// How long a locked database is waited for.
    pub busy_timeout: Duration,
    /// Bytes of one event's payload that `append` takes.
    pub payload_bytes_max: usize,
}

impl Config {
    /// An outbox in a file, with the usual times.
    pub fn new(path: impl Into<PathBuf>, layout: Layout, holder: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            layout,
            start: None,
            holder: holder.into(),
            lease_ttl: limits::LEASE_TTL,
            busy_timeout: Duration::from_secs(5),
            payload_bytes_max: limits::PAYLOAD_BYTES,
        }
    }

    /// The layout's table under another name.
    #[must_use]
    pub fn table(mut self, table: Identifier) -> Self {
        self.layout.table = table;
        self
    }

    /// Another way of claiming than the layout's.
    #[must_use]
    pub fn way(mut self, way: Way) -> Self {
        self.layout.way = way;
        self
    }

    /// Where to begin.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// What faults call the place.
    pub(crate) fn place(&self) -> String {
        format!("table \"{}\" in {}", self.layout.table, self.path.display())
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.layout.order == Order::Key
    }

    /// SQLite has one writer: a row lock held in an open transaction would lock out every other process.
    pub(crate) fn validate(&self) -> Result<(), Fault> {
        let way = self.layout.way;
        if !matches!(way, Way::Cursor | Way::Lease) {
            return Err(Fault::new(
                self.place(),
                format!(
                    "layout \"{}\" claims by way = \"{}\", which SQLite does not have",
                    self.layout.name,
                    way.word()
                ),
                "Set way = \"lease\" for a status table, or way = \"cursor\" for an append-only one.",
            ));
        }
        if way == Way::Cursor && self.layout.order == Order::None {
            return Err(Fault::new(
                self.place(),
                "way = \"cursor\" reads in order, and order = \"none\" is set",
                "Set order = \"key\", or way = \"lease\" on a status table.",
            ));
        }
        if let Some(name) = self.layout.zone.name() {
            return Err(Fault::new(
                self.place(),
                format!("zone = \"{name}\" is a name, and SQLite knows none"),
                "Write the zone as an offset such as +09:00; where its clock changes with the seasons, let the application write UTC.",
            ));
        }
        if self.layout.published == Published::Column {
            return Err(Fault::new(
                self.place(),
                format!(
                    "layout \"{}\" says published = {{ column = … }}, which SQLite does not have",
                    self.layout.name
                ),
                "Add a status column and map it, with its words in [status], or use way = \"cursor\" on an id that counts.",
            ));
        }
        if self.layout.sides.dead.is_some() || self.layout.stalled.is_some() {
            return Err(Fault::new(
                self.place(),
                "[dead.table] and stalled are not in this build yet on SQLite",
                "Leave them out: what is dead stays in the table, and what another program took is taken back after lease_ttl.",
            ));
        }
        if way == Way::Lease && self.layout.status.is_none() {
            return Err(Fault::new(
                self.place(),
                format!(
                    "layout \"{}\" has no status column, and a lease on SQLite needs one",
                    self.layout.name
                ),
                "Add a status column and map it, or use way = \"cursor\" on an id that counts.",
            ));
        }
        if way == Way::Lease && !self.layout.shows_dead() {
            return Err(Fault::new(
                self.place(),
                "status.dead is missing, and on SQLite a status table needs a word for entries that are given up",
                "Give the word that the table has for it, such as \"FAILED\".",
            ));
        }
        if self.layout.sides != SideTables::default() {
            return Err(Fault::new(
                self.place(),
                format!(
                    "layout \"{}\" has side tables of its own, which SQLite does not use",
                    self.layout.name
                ),
                "Leave [position.table] and [retry.table] out: Postrider keeps both in tables of its own.",
            ));
        }
        if self.holder.is_empty() {
            return Err(Fault::new(
                self.place(),
                "the holder has no name",
                "Give each relay a name of its own.",
            ));
        }
        if self.lease_ttl < Duration::from_millis(3) {
            return Err(Fault::new(
                self.place(),
                "the lease's time to live is too short to be extended",
                "Set lease_ttl to a second or more.",
            ));
        }
        self.layout.validate(&self.place())
    }
}
