//! How claims find their rows: by ranges of an index, above a low-water mark, and nothing that commits late is overtaken.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod late;
mod plans;
mod writers;

/// MariaDB, and MySQL 8.0 where there is one.
fn servers() -> Vec<String> {
    [Some(postrider_servers::mariadb()), postrider_servers::mysql()].into_iter().flatten().collect()
}
