//! Where the servers are: the environment says so, else the file that `cargo xtask services up` has written.

use std::path::{Path, PathBuf};

pub(crate) const BIN: &str = "POSTRIDER_TEST_POSTGRES_BIN";
pub(crate) const DATA: &str = "POSTRIDER_SERVICES_DATA";

/// The URL of PostgreSQL 18, or of the user's own. Panics when there is none.
#[must_use]
pub fn postgres() -> String {
    needed("POSTRIDER_TEST_POSTGRES_URL")
}

/// The URL of PostgreSQL 15, if there is one.
#[must_use]
pub fn postgres15() -> Option<String> {
    find("POSTRIDER_TEST_POSTGRES15_URL")
}

/// The URL of PgBouncer with transaction pooling in front of [`postgres`], if there is one.
#[must_use]
pub fn pgbouncer() -> Option<String> {
    find("POSTRIDER_TEST_PGBOUNCER_URL")
}

/// The addresses of Kafka's brokers, `host:port` with commas between. Panics when there are none.
#[must_use]
pub fn kafka() -> String {
    needed("POSTRIDER_TEST_KAFKA")
}

/// The URL of Redis, if there is one.
#[must_use]
pub fn redis() -> Option<String> {
    find("POSTRIDER_TEST_REDIS_URL")
}

/// The URL of MariaDB. Panics when there is none.
#[must_use]
pub fn mariadb() -> String {
    needed("POSTRIDER_TEST_MARIADB_URL")
}

/// The URL of MariaDB 10.11, if there is one beside [`mariadb`].
#[must_use]
pub fn mariadb10() -> Option<String> {
    find("POSTRIDER_TEST_MARIADB10_URL")
}

/// The URL of MySQL 8.0, if there is one.
#[must_use]
pub fn mysql() -> Option<String> {
    find("POSTRIDER_TEST_MYSQL_URL")
}

/// A value that no test can do without.
pub(crate) fn needed(key: &str) -> String {
    find(key).unwrap_or_else(|| {
        panic!(
            "{key} is not set and no file target/services/env has it: run the tests by `cargo xtask test`, \
             or `cargo xtask services up` first"
        )
    })
}

pub(crate) fn find(key: &str) -> Option<String> {
    let set = std::env::var(key).ok().filter(|value| !value.is_empty());
    set.or_else(|| env_files().find_map(|path| value(&std::fs::read_to_string(path).ok()?, key)))
}

fn env_files() -> impl Iterator<Item = PathBuf> {
    let moved = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let targets: Vec<PathBuf> = here.ancestors().map(|folder| folder.join("target")).collect();
    moved.into_iter().chain(targets).map(|target| target.join(Path::new("services/env")))
}

fn value(text: &str, key: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(|value| value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = "# a comment\nA_URL_2=two\nA_URL=one=1 \n";
        assert_eq!(value(text, "A_URL").as_deref(), Some("one=1"));
        assert_eq!(value(text, "A_UR"), None);
        assert_eq!(value(text, "B"), None);
    }

    #[test]
    fn the_file_is_sought_upwards() {
        let files: Vec<PathBuf> = env_files().collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        assert!(files.contains(&root.join("target/services/env")), "{files:?}");
    }
}
