//! Which outbox in which database, and how this process holds it.

use std::path::PathBuf;
use std::time::Duration;

use mysql_async::Opts;
use postrider_core::layout::{Identifier, Order, Published, Way};
use postrider_core::{Fault, Layout, Start, limits};

use crate::sql::Names;
use crate::url;

/// Which outbox in which database, and how this process holds it.
///
/// ```
/// use postrider_core::Layout;
/// use postrider_mysql::Config;
/// let ledger = Layout::built_in("ledger").unwrap();
/// let config = Config::new("mysql://app@localhost/bank?sslmode=verify-full", ledger, "relay-7f3a").unwrap();
/// assert_eq!(config.layout.table.as_str(), "outbox_event");
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach it.
    pub(crate) connect: Connect,
    /// How its outbox spells an entry; its table and way may have been overridden.
    pub layout: Layout,
    /// Who holds what is claimed: unique among all processes on the database, so a name with a random suffix.
    pub holder: String,
    /// How long what is claimed is held without being extended.
    pub lease_ttl: Duration,
    /// Where a cursor begins that has no position yet.
    pub start: Option<Start>,
    /// The largest payload that the installed procedure takes.
    pub payload_bytes_max: usize,
    /// The database's clock as SQL, in UTC.
    pub(crate) now: String,
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) opts: Opts,
    pub(crate) tls: Tls,
    pub(crate) root_certificate: Option<PathBuf>,
}

/// How much of TLS is asked for: the words are those of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

impl Config {
    /// An outbox behind a URL, with the usual times.
    ///
    /// # Errors
    /// When the URL is none, with its remedy; the password is never shown.
    pub fn new(url: &str, layout: Layout, holder: impl Into<String>) -> Result<Self, Fault> {
        Ok(Self {
            connect: url::parse(url)?,
            layout,
            holder: holder.into(),
            lease_ttl: limits::LEASE_TTL,
            start: None,
            payload_bytes_max: limits::PAYLOAD_BYTES,
            now: "utc_timestamp(6)".into(),
        })
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

    /// Another clock than the server's, as SQL: a function of the server's own cannot be shadowed, as tests do it elsewhere.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(mut self, sql: impl Into<String>) -> Self {
        self.now = sql.into();
        self
    }

    /// What faults call the place: never the password.
    pub(crate) fn place(&self) -> String {
        format!("table {} in {}", Names::new(self).table, self.connect.shown())
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.layout.order == Order::Key
    }

    pub(crate) fn ttl_us(&self) -> i64 {
        i64::try_from(self.lease_ttl.as_micros()).unwrap_or(i64::MAX / 4)
    }

    /// After how long a row that another program took is taken back.
    pub(crate) fn stalled_us(&self) -> i64 {
        let stalled = self.layout.stalled.unwrap_or(self.lease_ttl);
        i64::try_from(stalled.as_micros()).unwrap_or(i64::MAX / 4)
    }

    pub(crate) fn validate(&self) -> Result<(), Fault> {
        let refuse = |problem: String, remedy: &str| Err(Fault::new(self.place(), problem, remedy));
        self.validate_way()?;
        if self.layout.published == Published::Column {
            return refuse(
                format!(
                    "layout \"{}\" says published = {{ column = … }}, which is not in this build yet on MySQL and MariaDB",
                    self.layout.name
                ),
                "Add a status column and map it, with its words in [status].",
            );
        }
        if let Some(name) = self.layout.zone.name() {
            return refuse(
                format!("zone = \"{name}\" is a name, and on MySQL and MariaDB only offsets are known"),
                "Write the zone as an offset such as +09:00.",
            );
        }
        if self.holder.is_empty() {
            return refuse("the holder has no name".into(), "Give each relay a name of its own.");
        }
        if self.lease_ttl < Duration::from_millis(3) {
            return refuse(
                "the lease's time to live is too short to be extended".into(),
                "Set lease_ttl to a second or more.",
            );
        }
        self.layout.validate(&self.place())
    }

    fn validate_way(&self) -> Result<(), Fault> {
        let refuse = |problem: &str, remedy: &str| Err(Fault::new(self.place(), problem, remedy));
        let (order, sides) = (self.layout.order, &self.layout.sides);
        match self.layout.way {
            Way::Log => refuse(
                "way = \"log\" is not in this build yet",
                "Set way = \"cursor\" for an append-only table, \"lease\" or \"hold\" for a status table.",
            ),
            Way::Cursor if order == Order::None => refuse(
                "way = \"cursor\" reads in order, and order = \"none\" is set",
                "Set order = \"key\", or way = \"lease\" on a status table.",
            ),
            Way::Cursor if sides.position.is_some() || sides.failed.is_some() => refuse(
                "the layout has [position.table] or [retry.table], which are not in this build yet on MySQL and MariaDB",
                "Take them out of a copy of the layout: positions and retries are kept in Postrider's own tables then.",
            ),
            Way::Hold if order == Order::Key => refuse(
                "way = \"hold\" locks rows one by one, which keeps no key's order across relays, and order = \"key\" is set",
                "Set way = \"lease\", or order = \"none\".",
            ),
            Way::Cursor | Way::Lease | Way::Hold => Ok(()),
        }
    }
}

impl Connect {
    /// The database, for people: host, port and name, nothing else.
    pub(crate) fn shown(&self) -> String {
        let name = self.opts.db_name().unwrap_or_default();
        format!("{}:{}/{name}", self.opts.ip_or_hostname(), self.opts.tcp_port())
    }
}
