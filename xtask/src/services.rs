//! `cargo xtask services`: real servers for the tests, on this machine, by one command.

mod command;
mod env;
mod fetch;
mod kafka;
mod kafka_node;
mod launch;
mod mysql;
mod mysql_node;
mod port;
mod postgres;
#[cfg_attr(not(test), allow(dead_code, reason = "shared with crates/servers, which uses the rest"))]
mod process;
mod redis;
mod session;
mod state;
mod user;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;

pub(crate) use command::main;
pub(crate) use session::Session;

use crate::cargo::target;
use env::Env;
use launch::{Launched, Place};
use process::Process;

/// The variable that holds the folder of all data; under `/tmp` when who runs the servers cannot get to `target`.
const DATA: &str = "POSTRIDER_SERVICES_DATA";

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Postgres,
    Postgres15,
    Pgbouncer,
    Kafka,
    Redis,
    Mariadb,
    Mariadb10,
    Mysql,
}

impl Service {
    /// What no run of the tests can do without.
    pub(crate) const NEEDED: [Self; 3] = [Self::Postgres, Self::Kafka, Self::Mariadb];

    /// What the tests use where it is there.
    pub(crate) const OPTIONAL: [Self; 3] = [Self::Postgres15, Self::Pgbouncer, Self::Mysql];

    /// In the order in which they can be started.
    pub(crate) const ALL: [Self; 8] = [
        Self::Postgres,
        Self::Postgres15,
        Self::Pgbouncer,
        Self::Kafka,
        Self::Redis,
        Self::Mariadb,
        Self::Mariadb10,
        Self::Mysql,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Postgres15 => "postgres15",
            Self::Pgbouncer => "pgbouncer",
            Self::Kafka => "kafka",
            Self::Redis => "redis",
            Self::Mariadb => "mariadb",
            Self::Mariadb10 => "mariadb10",
            Self::Mysql => "mysql",
        }
    }

    /// The variable that holds its address; whoever sets it uses a server of their own.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Postgres => postgres::URL,
            Self::Postgres15 => postgres::URL_15,
            Self::Pgbouncer => postgres::PGBOUNCER_URL,
            Self::Kafka => kafka::BROKERS,
            Self::Redis => redis::URL,
            Self::Mariadb => mysql::MARIADB_URL,
            Self::Mariadb10 => mysql::MARIADB10_URL,
            Self::Mysql => mysql::MYSQL_URL,
        }
    }

    /// Whether nothing has to be installed for it.
    pub(crate) fn is_at_hand(self) -> bool {
        match self {
            Self::Postgres | Self::Kafka | Self::Mariadb => true,
            Self::Postgres15 => fetch::is_there("/usr/lib/postgresql/15/bin/postgres"),
            Self::Pgbouncer => fetch::is_there("/usr/sbin/pgbouncer"),
            // Half a gigabyte is fetched by whoever asks for it only.
            Self::Mysql => false,
            // No test needs them: `mariadb` is of this version already.
            Self::Redis | Self::Mariadb10 => false,
        }
    }

    fn needs(self) -> Option<Self> {
        (self == Self::Pgbouncer).then_some(Self::Postgres)
    }

    fn start(self, place: &Place, env: &Env) -> Result<Started, String> {
        match self {
            Self::Postgres => postgres::start(place),
            Self::Postgres15 => postgres::start_15(place),
            Self::Pgbouncer => postgres::start_pgbouncer(place, env.get(postgres::URL).unwrap_or_default()),
            Self::Kafka => kafka::start(place),
            Self::Redis => redis::start(place),
            Self::Mariadb => mysql::start_mariadb(place),
            Self::Mariadb10 => mysql::start_mariadb10(place),
            Self::Mysql => mysql::start_mysql(place),
        }
    }

    /// What has to be known besides the address of a server that is the user's own.
    fn beside(self, fetched: &Path) -> Result<Env, String> {
        let mut env = Env::default();
        if self == Self::Postgres && std::env::var_os(postgres::BIN).is_none() {
            env.set(postgres::BIN, postgres::binaries(fetched)?.to_string_lossy());
        }
        if self == Self::Kafka && std::env::var_os(kafka_node::JARS).is_none() {
            env.set(kafka_node::JARS, kafka::jars(fetched)?.to_string_lossy());
        }
        if self == Self::Mariadb && std::env::var_os(mysql_node::MARIADB_BASE).is_none() {
            env.set(mysql_node::MARIADB_BASE, mysql::mariadb(fetched)?.to_string_lossy());
        }
        if self == Self::Mysql && std::env::var_os(mysql_node::MYSQL_BASE).is_none() {
            env.set(mysql_node::MYSQL_BASE, mysql::mysql(fetched)?.to_string_lossy());
        }
        Ok(env)
    }
}

/// A server that was started just now.
pub(crate) struct Started {
    processes: Vec<Process>,
    children: Vec<Child>,
    /// The signal that makes it end in order.
    signal: &'static str,
    env: Env,
}

impl Started {
    fn new(launched: Launched, signal: &'static str, env: Env) -> Self {
        Self { processes: launched.processes, children: launched.children, signal, env }
    }

    fn end(&mut self) -> Result<(), String> {
        let ended = self.processes.iter().try_for_each(|process| process.end(self.signal));
        for child in &mut self.children {
            let _ = child.try_wait();
        }
        ended
    }
}

/// The folders of the services of this checkout.
pub(crate) struct Home {
    /// Where tests look for the addresses.
    target: PathBuf,
    /// Where data and programs lie: the same, unless who runs the servers cannot get there.
    data: PathBuf,
}

impl Home {
    pub(crate) fn open() -> Result<Self, String> {
        let target = target().join("services");
        let data = user::reachable(&target)?;
        Ok(Self { target, data })
    }

    fn env_file(&self) -> PathBuf {
        self.target.join("env")
    }

    fn place(&self, service: Service, run: Option<&str>) -> Place {
        let folder = run.map_or_else(|| self.data.clone(), |run| self.data.join(run)).join(service.name());
        Place { folder, fetched: self.data.join("fetched"), tied: run.is_some(), brokers: 1 }
    }

    /// One at a time fetches, starts and stops.
    fn lock(&self) -> Result<File, String> {
        let path = self.target.join("lock");
        let file = File::create(&path).and_then(|file| file.lock().map(|()| file));
        file.map_err(|error| format!("cannot lock {}: {error}", path.display()))
    }
}

/// The services behind the names, with those that they need before them, each once.
fn ordered(names: &[String]) -> Result<Vec<Service>, String> {
    let mut asked = Vec::new();
    for name in names {
        let service = Service::ALL.into_iter().find(|service| service.name() == name).ok_or_else(|| {
            let known = Service::ALL.map(Service::name).join(", ");
            format!("there is no service `{name}`: they are {known}")
        })?;
        asked.push(service);
        asked.extend(service.needs());
    }
    Ok(Service::ALL.into_iter().filter(|service| asked.contains(service)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Result<Vec<Service>, String> {
        ordered(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_service_needs_comes_before_it_and_once() {
        assert_eq!(names("pgbouncer"), Ok(vec![Service::Postgres, Service::Pgbouncer]));
        assert_eq!(
            names("pgbouncer postgres15 postgres"),
            Ok(vec![Service::Postgres, Service::Postgres15, Service::Pgbouncer])
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let told = names("postgres oracle").unwrap_err();
        assert!(told.contains("`oracle`") && told.contains("postgres15"), "{told}");
    }
}
