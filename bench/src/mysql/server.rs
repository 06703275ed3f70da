//! The server: one that keeps what it is given, as in production.

use std::time::Duration;

use postrider_servers::{MysqlDatabase, MysqlOptions, PrivateMysql};

use crate::Outcome;
use crate::measure::{Cost, cost};
use crate::process;

/// The tests' servers neither sync nor have memory to speak of.
const SETTINGS: [&str; 6] = [
    "innodb-flush-log-at-trx-commit=1",
    "innodb-flush-method=O_DIRECT",
    "sync-binlog=1",
    "innodb-buffer-pool-size=1G",
    "innodb-log-file-size=2G",
    "max-allowed-packet=64M",
];

pub(crate) struct Server {
    mariadb: PrivateMysql,
}

impl Server {
    pub(crate) fn start() -> Outcome<Self> {
        let settings = SETTINGS.map(str::to_owned).into();
        let mariadb = PrivateMysql::mariadb_with(&MysqlOptions { settings, ..MysqlOptions::default() });
        Ok(Self { mariadb })
    }

    pub(crate) fn database(&self) -> MysqlDatabase {
        self.mariadb.database()
    }

    /// Runs something and says what it cost, here and there.
    pub(crate) fn cost(&self, run: impl FnOnce() -> Outcome<()>) -> Outcome<Cost> {
        let (log, cpu) = (self.log_bytes()?, self.cpu());
        let cost = cost(|| run().map(|()| Duration::ZERO))?;
        let database = self.cpu().saturating_sub(cpu);
        Ok(Cost { database, wal_bytes: self.log_bytes()?.saturating_sub(log), ..cost })
    }

    fn cpu(&self) -> Duration {
        self.mariadb.pid().and_then(process::cpu).unwrap_or_default()
    }

    /// What was written ahead, the log of changes included.
    fn log_bytes(&self) -> Outcome<u64> {
        let sql = "select sum(variable_value) from information_schema.global_status \
                   where variable_name in ('innodb_os_log_written', 'binlog_bytes_written')";
        let answer = self.mariadb.query(sql).into_iter().flatten().flatten().next();
        Ok(answer.ok_or("no answer")?.parse::<f64>()? as u64)
    }
}
