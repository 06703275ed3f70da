//! The server: one that keeps what it is given, as in production.

use std::error::Error;
use std::time::Duration;

use postrider_servers::{Options, PrivatePostgres};

use crate::Outcome;
use crate::measure::{Cost, cost};
use crate::process;

/// The tests' servers neither sync nor have memory to speak of.
const SETTINGS: [&str; 6] = [
    "fsync = on",
    "wal_level = replica",
    "shared_buffers = '1GB'",
    "max_wal_size = '8GB'",
    "checkpoint_timeout = '15min'",
    "effective_io_concurrency = 16",
];

pub(crate) struct Server {
    postgres: PrivatePostgres,
    /// The parent of all its processes.
    postmaster: u32,
}

impl Server {
    pub(crate) fn start() -> Outcome<Self> {
        let settings = SETTINGS.map(str::to_owned).into();
        let postgres = PrivatePostgres::start_with(&Options { settings, ..Options::default() });
        let mut server = Self { postgres, postmaster: 0 };
        server.postmaster =
            server.ask("select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)")?.parse()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        self.postgres.url()
    }

    /// Runs something and says what it cost, here and there.
    pub(crate) fn cost(&self, run: impl FnOnce() -> Outcome<()>) -> Outcome<Cost> {
        let (wal, cpu) = (self.wal_bytes()?, self.cpu());
        let cost = cost(|| run().map(|()| Duration::ZERO))?;
        let database = self.cpu().saturating_sub(cpu);
        Ok(Cost { database, wal_bytes: self.wal_bytes()?.saturating_sub(wal), ..cost })
    }

    /// What all its processes have taken so far, ended ones included.
    pub(crate) fn cpu(&self) -> Duration {
        let living: Duration = children(self.postmaster).chain([self.postmaster]).filter_map(taken).sum();
        living + process::ended(self.postmaster).unwrap_or_default()
    }

    fn wal_bytes(&self) -> Outcome<u64> {
        Ok(self.ask("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?.parse()?)
    }

    fn ask(&self, sql: &str) -> Result<String, Box<dyn Error>> {
        let answer = self.postgres.query(sql).into_iter().flatten().flatten().next();
        answer.ok_or_else(|| format!("no answer to {sql}").into())
    }
}

fn children(parent: u32) -> impl Iterator<Item = u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_string_lossy().parse::<u32>().ok());
    pids.filter(move |pid| {
        process::stat(*pid).is_some_and(|stat| stat.get(process::PARENT) == Some(&u64::from(parent)))
    })
}

/// CPU time of one living process.
fn taken(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
