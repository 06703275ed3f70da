//! The examples in other languages run as they stand in the repository (F9).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::world::World;

/// Tries of an installation: registries have bad moments.
const TRIES: u32 = 3;

/// F9: from Python.
#[tokio::test]
async fn python_appends_in_its_own_transaction() {
    let folder = installed("python-mysql", |folder| {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--target",
        ]);
        pip.arg(folder).arg("PyMySQL==1.2.4");
        pip
    });
    places_orders(|world, order| {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1").arg(example("append_mysql.py"));
        python.env("DATABASE_URL", world.database.url()).arg(order);
        python
    })
    .await;
}

/// F9: from Node.
#[tokio::test]
async fn node_appends_in_its_own_transaction() {
    let folder = installed("node-mysql", |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix"])
            .arg(folder)
            .arg("mysql2@3.24.5");
        npm
    });
    places_orders(|world, order| {
        let mut node = Command::new("node");
        node.env("NODE_PATH", folder.join("node_modules")).arg(example("append_mysql.js"));
        node.env("DATABASE_URL", world.database.url()).arg(order);
        node
    })
    .await;
}

/// F9: by the client that comes with the server, in its own transaction; each order is there with its event, or not at all.
#[tokio::test]
async fn the_plain_client_appends_in_its_own_transaction() {
    let client = ["mariadb", "mysql"]
        .into_iter()
        .find(|client| Command::new(client).arg("--version").output().is_ok());
    let client = client.expect("the client that comes with the server's package");
    for world in World::native().await {
        if world.value("select version() like '%MariaDB%'") != "1" && client == "mariadb" {
            // MariaDB's client comes without the plugin that MySQL's users log in with.
            world.database.query("create user if not exists plain@'127.0.0.1' identified with mysql_native_password by ''; grant all on *.* to plain@'127.0.0.1'");
        }
        let url = world.database.url();
        let port = url.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1.to_owned();
        let user = if world.value("select version() like '%MariaDB%'") == "1" { "root" } else { "plain" };
        let run = |sql: &str| {
            let mut command = Command::new(client);
            command.args([
                "--no-defaults",
                "--host=127.0.0.1",
                "--batch",
                "--skip-column-names",
                "--default-character-set=utf8mb4",
            ]);
            command.arg(format!("--port={port}")).arg(format!("--user={user}")).arg(world.database.name());
            command.arg("--execute").arg(sql).output().unwrap()
        };
        let event = "json_object('type', 'loopers.order.created.v1', 'aggregate_type', 'Order', 'aggregate_id', '7', \
            'payload', json_object('note', 'naïve'), 'idempotency_key', 'request-7')";
        let place = |end: &str| {
            run(&format!(
                "start transaction; insert into orders values (7, 12); call postrider_append_outbox({event}); {end}"
            ))
        };
        let told = place("rollback");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        assert_eq!(world.value("select (select count(*) from orders) + (select count(*) from outbox)"), "0");
        let told = place("commit");
        assert!(String::from_utf8_lossy(&told.stdout).trim_end().ends_with("\t0"), "{told:?}");
        assert_eq!(world.value("select json_unquote(json_extract(payload, '$.note')) from outbox"), "naïve");
        let again = run(&format!("call postrider_append_outbox({event})"));
        assert!(String::from_utf8_lossy(&again.stdout).trim_end().ends_with("\t1"), "{again:?}");
        assert!(!place("commit").status.success(), "an order of that number is there");
        assert_eq!(world.value("select concat(count(*), (select count(*) from orders)) from outbox"), "11");
    }
}

/// Places an order, repeats the request, and places another one that fails: each time, order and event are there together
/// or not at all.
async fn places_orders(program: impl Fn(&World, &str) -> Command) {
    for world in World::native().await {
        let run = |order: &str| program(&world, order).output().unwrap();
        let told = |output: &Output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
        };
        let first = told(&run("7"));
        let again = told(&run("7"));
        assert_eq!((&first["repeated"], &again["repeated"]), (&false.into(), &true.into()));
        assert_eq!((&first["entry"], &first["event_id"]), (&again["entry"], &again["event_id"]));
        let row = "select concat_ws('|', id, event_id, type, aggregate_id, json_unquote(json_extract(payload, '$.note'))) from outbox";
        let expected = format!(
            "{}|{}|loopers.order.created.v1|7|naïve \"quotes\" and a \\ backslash",
            first["entry"].as_str().unwrap(),
            first["event_id"].as_str().unwrap()
        );
        assert_eq!(world.texts(row), [expected]);
        assert_eq!(world.texts("select concat(id, ' ', total) from orders"), ["7 12"]);

        world.database.query("insert into orders values (8, 1)");
        let failed = run("8");
        assert!(!failed.status.success(), "an order of that number is there");
        assert_eq!(world.value("select count(*) from outbox"), "1", "its event was rolled back with it");
    }
}

fn example(name: &str) -> PathBuf {
    root().join("examples/any-language").join(name)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The folder with a language's driver, installed once under `target`.
fn installed(language: &str, install: impl Fn(&Path) -> Command) -> PathBuf {
    let target =
        root().join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from));
    let folder = target.join("any-language").join(language);
    if folder.exists() {
        return folder;
    }
    let unfinished = target.join("any-language").join(format!("{language}.{}", std::process::id()));
    let mut problems = String::new();
    for _ in 0..TRIES {
        let _ = std::fs::remove_dir_all(&unfinished);
        std::fs::create_dir_all(&unfinished).unwrap();
        match install(&unfinished).output() {
            Ok(output) if output.status.success() => {
                // Another test run may have been quicker.
                if std::fs::rename(&unfinished, &folder).is_err() {
                    let _ = std::fs::remove_dir_all(&unfinished);
                }
                assert!(folder.exists(), "{} cannot be written", folder.display());
                return folder;
            }
            Ok(output) => problems.push_str(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => problems.push_str(&format!("cannot be started: {error}\n")),
        }
    }
    panic!("{:?} failed {TRIES} times; is the package registry reachable?\n{problems}", install(&unfinished));
}
