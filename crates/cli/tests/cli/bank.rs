//! Donation's and Ledger's own tables on MariaDB and MySQL, written by the servers' own client.

use postrider_servers::{MysqlDatabase, mariadb, mysql, mysql_client, topic_name};

use crate::world::World;

/// A13, as the team has it: times to the second, three indexes besides the primary key.
pub(crate) const DONATION: &str = "
    create table donation_outbox (
        id bigint auto_increment primary key, version bigint default 0, request_id varchar(50) not null unique,
        event_type varchar(50) not null, payload text not null, content_hash varchar(64) not null,
        status varchar(20) not null default 'PENDING', locked_by varchar(100), locked_at datetime,
        retry_count int default 0, max_retries int default 3, last_error varchar(500), next_retry_at datetime,
        created_at datetime, updated_at datetime,
        index idx_pending_poll (status, next_retry_at, id), index idx_locked (locked_by, locked_at)
    );
    create table donation_dlq (
        id bigint auto_increment primary key, original_id bigint not null, request_id varchar(50) not null,
        event_type varchar(50) not null, payload text not null, reason varchar(500), created_at datetime,
        index idx_request_id (request_id)
    );";

/// E3, as the team has it.
pub(crate) const LEDGER: &str = "
    create table outbox_event (
        id bigint auto_increment primary key, aggregate_type varchar(50) not null, aggregate_id bigint not null,
        event_type varchar(100) not null, payload json not null, status varchar(20) not null default 'PENDING',
        retry_count int not null default 0, created_at datetime(6) not null, processed_at datetime(6) null,
        index idx_outbox_status_created (status, created_at)
    );";

/// A team: its database, its configuration, and a word that no other test has.
pub(crate) struct Bank {
    pub(crate) world: World,
    pub(crate) database: MysqlDatabase,
    pub(crate) word: String,
}

/// The servers that there are.
pub(crate) fn servers() -> Vec<String> {
    [Some(mariadb()), mysql()].into_iter().flatten().collect()
}

impl Bank {
    /// On a server, with the tables of a layout. `sink` goes behind the outbox.
    pub(crate) fn new(server: &str, layout: &str, sink: &str) -> Self {
        let database = MysqlDatabase::create_blocking_on(server);
        let bank = Self { world: World::new(), database, word: topic_name("w") };
        bank.client(if layout.contains("donation") { DONATION } else { LEDGER });
        bank.configure(layout, sink);
        bank.world.run(&["migrate"]).ok();
        bank
    }

    /// Writes the configuration anew.
    pub(crate) fn configure(&self, layout: &str, sink: &str) {
        let url = self.database.url();
        self.world
            .write("postrider.toml", &format!("[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\n{sink}"));
    }

    /// Types SQL into the server's own client.
    pub(crate) fn client(&self, sql: &str) -> String {
        mysql_client(&self.database.url(), sql)
    }

    /// Donation: a row as the service writes it, its hash by the server. `more` are further columns and their values.
    pub(crate) fn donate(&self, request: &str, more: &[(&str, &str)]) {
        let (kind, payload) =
            ("DONATION_COMPLETED", format!("{{\"request\": \"{request}\", \"amount\": 100}}"));
        let (names, values): (Vec<&str>, Vec<&str>) = more.iter().copied().unzip();
        let (names, values) = (names.iter().map(|name| format!(", {name}")), values.iter());
        let names: String = names.collect();
        let values: String = values.map(|value| format!(", {value}")).collect();
        self.client(&format!(
            "insert into donation_outbox (request_id, event_type, payload, content_hash, created_at{names}) values \
             ('{request}', '{kind}', '{payload}', sha2('{request}|{kind}|{payload}', 256), '2026-01-02 03:04:05'{values})"
        ));
    }

    /// Ledger: a posting of an account.
    pub(crate) fn post(&self, kind: &str, account: &str, n: u32) {
        self.client(&format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
             ('TRANSACTION', {n}, '{kind}', '{{\"accountId\": \"{account}\", \"sequenceNumber\": {n}}}', \
             '2026-01-02 03:04:05.678')"
        ));
    }

    /// What a query says, a row a line, with spaces between; NULL is `null`.
    pub(crate) fn sql(&self, text: &str) -> Vec<String> {
        let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "null".into());
        let rows = self.database.query(text);
        rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
    }

    /// A single value.
    pub(crate) fn value(&self, text: &str) -> String {
        self.sql(text).into_iter().next().unwrap_or_default()
    }
}
