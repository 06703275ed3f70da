//! Which outbox in which database, and how this process holds it.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::layout::{Identifier, Order, Way};
use postrider_core::{Fault, Layout, Start, limits};
use tokio_postgres::config::Host;

use crate::sql::Names;
use crate::url;

/// Which outbox in which database, and how this process holds it.
///
/// ```
/// use postrider_core::Layout;
/// use postrider_postgres::Config;
/// let native = Layout::built_in("native").unwrap();
/// let config = Config::new("postgres://app@localhost/shop?sslmode=verify-full", native, "relay-7f3a").unwrap();
/// assert_eq!(config.layout.table.as_str(), "outbox");
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach it.
    pub(crate) connect: Connect,
    /// How its outbox spells an entry; its table and way may have been overridden.
    pub layout: Layout,
    /// Where a cursor begins on a table that has rows already.
    pub start: Option<Start>,
    /// Who holds what is claimed: unique among all processes on the database, so a name with a random suffix.
    pub holder: String,
    /// How long what is claimed is held without being extended.
    pub lease_ttl: Duration,
    /// Bytes of one event's payload that `append` takes.
    pub payload_bytes_max: usize,
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) postgres: tokio_postgres::Config,
    pub(crate) tls: Tls,
    pub(crate) root_certificate: Option<PathBuf>,
    /// Whether a transaction pooler stands between: then nothing outlives a transaction, prepared statements included.
    pub(crate) pooled: bool,
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
            start: None,
            holder: holder.into(),
            lease_ttl: limits::LEASE_TTL,
            payload_bytes_max: limits::PAYLOAD_BYTES,
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

    /// What faults call the place: never the password.
    pub(crate) fn place(&self) -> String {
        format!("table {} in {}", Names::new(&self.layout).table, self.connect.shown())
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.layout.order == Order::Key
    }

    pub(crate) fn ttl_us(&self) -> i64 {
        i64::try_from(self.lease_ttl.as_micros()).unwrap_or(i64::MAX / 4)
    }

    pub(crate) fn validate(&self) -> Result<(), Fault> {
        let refuse = |problem: &str, remedy: &str| Err(Fault::new(self.place(), problem, remedy));
        match self.layout.way {
            Way::Log => {
                return refuse(
                    "way = \"log\" is not in this build yet",
                    "Set way = \"cursor\" for an append-only table, \"lease\" or \"hold\" for a status table.",
                );
            }
            Way::Cursor if self.layout.order == Order::None => {
                return refuse(
                    "way = \"cursor\" reads in order, and order = \"none\" is set",
                    "Set order = \"key\", or way = \"lease\" on a status table.",
                );
            }
            Way::Hold if self.layout.order == Order::Key => {
                return refuse(
                    "way = \"hold\" locks rows one by one, which keeps no key's order across relays, and order = \"key\" is set",
                    "Set way = \"lease\", or order = \"none\".",
                );
            }
            Way::Cursor | Way::Lease | Way::Hold => {}
        }
        if self.layout.sides.dead.is_some() || self.layout.stalled.is_some() {
            return refuse(
                "[dead.table] and stalled are not in this build yet on PostgreSQL",
                "Leave them out: what is dead stays in the table, and what another program took is taken back after lease_ttl.",
            );
        }
        if self.holder.is_empty() {
            return refuse("the holder has no name", "Give each relay a name of its own.");
        }
        if self.lease_ttl < Duration::from_millis(3) {
            return refuse(
                "the lease's time to live is too short to be extended",
                "Set lease_ttl to a second or more.",
            );
        }
        self.layout.validate(&self.place())
    }
}

impl Connect {
    /// The database, for people: host, port and name, nothing else.
    pub(crate) fn shown(&self) -> String {
        let host = match self.postgres.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".into(),
        };
        let port = self.postgres.get_ports().first().map_or(String::new(), |port| format!(":{port}"));
        let name = self.postgres.get_dbname().or(self.postgres.get_user()).unwrap_or_default();
        format!("{host}{port}/{name}")
    }
}
