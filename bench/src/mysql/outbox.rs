//! Outboxes to measure on, each in a database of its own.

use postrider_core::Layout;
use postrider_mysql::{Config, migrate};
use postrider_servers::MysqlDatabase;
use tokio::runtime::Runtime;

use super::server::Server;
use crate::Outcome;
use crate::load::{KEYS, failed, payload};

/// A table, and how it is claimed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Postrider's own, by cursor.
    Native,
    /// Ledger's, by lease, each account in order.
    Leased,
    /// The same, held, without order.
    Held,
}

/// Ledger's table, with its own index.
const LEDGER: &str = "create table outbox_event (id bigint auto_increment primary key, aggregate_type varchar(50) not null, \
    aggregate_id bigint not null, event_type varchar(100) not null, payload json not null, \
    status varchar(20) not null default 'PENDING', retry_count int not null default 0, created_at datetime(6) not null, \
    processed_at datetime(6) null, index idx_outbox_status_created (status, created_at))";

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Native, Self::Leased, Self::Held];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "cursor",
            Self::Leased => "lease",
            Self::Held => "hold",
        }
    }

    /// Its layout's file.
    pub(crate) fn layout_text(self) -> String {
        let ledger = include_str!("../../../layouts/ledger.toml");
        match self {
            Self::Native => include_str!("../../../layouts/native.toml").to_owned(),
            Self::Leased => ledger.to_owned(),
            Self::Held => ledger
                .replace("way   = \"lease\"", "way   = \"hold\"")
                .replace("order = \"key\"", "order = \"none\"")
                .replace("on_dead  = \"hold\"", "on_dead  = \"skip\""),
        }
    }

    /// Rows from one number to another, published already or still pending.
    fn rows(self, from: usize, to: usize, published: bool) -> String {
        if self == Self::Native {
            return format!(
                "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload) \
                 select concat('018f0000-0000-7000-8000-', lpad(seq, 12, '0')), 'bench.order.placed.v1', '/bench', 'Order', \
                 seq mod {KEYS}, '{}' from seq_{from}_to_{to}",
                payload()
            );
        }
        let at = "timestamp'2020-01-01 00:00:00' + interval seq * 1000 microsecond";
        let (word, done) = if published { ("PROCESSED", at) } else { ("PENDING", "null") };
        // The account makes the payload as long as the others', on the whole.
        let payload = payload();
        let payload = format!("json_insert('{payload}', '$.accountId', seq mod {KEYS})");
        format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, status, created_at, processed_at) \
             select 'TRANSACTION', seq, 'LEDGER_POSTED', {payload}, '{word}', {at}, {done} from seq_{from}_to_{to}"
        )
    }

    /// One row more, before all that are pending: whoever leaves its transaction open leaves a gap at the bottom.
    pub(crate) fn one_more(self) -> &'static str {
        match self {
            Self::Native => {
                "insert into outbox (type, aggregate_type, aggregate_id, payload) \
                 values ('bench.order.placed.v1', 'Order', 'late', '{}')"
            }
            _ => {
                "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) \
                 values ('TRANSACTION', 0, 'LEDGER_POSTED', '{\"accountId\": \"late\"}', timestamp'2019-01-01')"
            }
        }
    }
}

/// An outbox in a database that goes with it.
pub(crate) struct Outbox<'s> {
    pub(crate) server: &'s Server,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
    database: MysqlDatabase,
}

impl<'s> Outbox<'s> {
    /// An empty one.
    pub(crate) fn create(server: &'s Server, kind: Kind) -> Outcome<Self> {
        let database = server.database();
        if kind != Kind::Native {
            database.query(LEDGER);
        }
        let layout = Layout::parse("bench.toml", kind.layout_text().as_bytes())?;
        let outbox = Self { server, kind, layout, database };
        runtime()?.block_on(migrate(&outbox.config()?)).map_err(|fault| failed(&fault))?;
        Ok(outbox)
    }

    pub(crate) fn url(&self) -> String {
        self.database.url()
    }

    pub(crate) fn query(&self, sql: &str) {
        self.database.query(sql);
    }

    pub(crate) fn config(&self) -> Outcome<Config> {
        Config::new(&self.url(), self.layout.clone(), "bench").map_err(|fault| failed(&fault))
    }

    /// Full of pending rows behind published ones, as after a quiet hour. What `between` writes and leaves open stands
    /// between the two.
    pub(crate) fn fill(
        &self,
        retained: usize,
        pending: usize,
        between: impl FnOnce(&str) -> Outcome<()>,
    ) -> Outcome<()> {
        let table = self.layout.table.as_str();
        self.query(&format!("truncate {table}"));
        if retained > 0 {
            self.query(&self.kind.rows(1, retained, true));
        }
        between(self.kind.one_more())?;
        self.query(&self.kind.rows(retained + 1, retained + pending, false));
        self.query(&format!("analyze table {table}"));
        self.forget(retained);
        Ok(())
    }

    /// Nothing is held, and nothing was read but what was published before.
    pub(crate) fn forget(&self, retained: usize) {
        for side in ["position", "exceptions", "claims", "ranges", "entries", "leases"] {
            self.query(&format!("delete from postrider_{side}"));
        }
        if self.kind == Kind::Native {
            self.query(&format!(
                "insert into postrider_position (outbox, position, claimed, start) \
                 values ('outbox', {retained}, {retained}, 'beginning')"
            ));
        }
    }
}

/// As the binary's.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
