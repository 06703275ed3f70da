//! What goes wrong on MariaDB and MySQL, as the commands tell it: the place, the remedy, the documented exit code, no secret.

use postrider_servers::{Certificates, MysqlOptions, PrivateMysql};

use crate::bank::{Bank, LEDGER, servers};
use crate::world::{World, finish};

const FILE: &str = "[[sink]]\nurl = \"file://events.jsonl\"\n";
const SECRET: &str = "swordfish-7";

/// Issue 6: a status that is none of the layout's words is claimed by nobody and hides from nobody; the rest flows on.
#[test]
fn an_unknown_status_word_is_shown_and_left_alone() {
    for server in servers() {
        let bank = Bank::new(&server, "donation", FILE);
        bank.donate("strange", &[("status", "'ON_HOLD'")]);
        bank.donate("fine", &[]);
        bank.world.run(&["run", "--until-empty"]).ok();
        assert_eq!(bank.sql("select status from donation_outbox order by id"), ["ON_HOLD", "COMPLETED"]);
        assert_eq!(bank.world.landed().lines().count(), 1);
        let listed = bank.world.run(&["list", "--state", "unknown"]).ok();
        assert!(listed.contains("strange") && listed.contains("its status is \"ON_HOLD\""), "{listed}");
        bank.world.run(&["revive", "--state", "unknown"]).ok();
        bank.world.run(&["run", "--until-empty"]).ok();
        assert_eq!(bank.sql("select status from donation_outbox order by id"), ["COMPLETED", "COMPLETED"]);
    }
}

/// Runs each command with every log on; each is refused as documented, and none shows the password.
#[track_caller]
fn refused(world: &World, url: &str, code: i32, said: &[&str]) {
    world.write("postrider.toml", &format!("[outbox]\nurl = \"{url}\"\nlayout = \"ledger\"\n{FILE}"));
    for args in [&["migrate"][..], &["check"], &["run", "--until-empty"], &["status"], &["list"]] {
        let mut command = world.command(args);
        command.env("RUST_LOG", "trace");
        let did = finish(command, b"");
        let told = format!("{}{}", did.stdout, did.stderr);
        let code = if code == 2 && args == ["check"] { 5 } else { code };
        assert_eq!(did.code, code, "{args:?}: {told}");
        let error = did.stderr.lines().rfind(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in said {
            assert!(error.contains(part), "{args:?}: \"{part}\" is not in: {error}");
        }
        assert!(!told.contains(SECRET), "{args:?}: {told}");
    }
}

/// F5, F6: a login, a database, a certificate: each is told apart, with exit code 3.
#[test]
fn what_keeps_a_command_from_the_database_is_told() {
    let options =
        MysqlOptions { certificates: Some(Certificates::of("localhost")), ..MysqlOptions::default() };
    let servers = [Some(PrivateMysql::mariadb_with(&options)), PrivateMysql::mysql_with(&options)];
    for server in servers.into_iter().flatten() {
        let (world, database) = (World::new(), server.database());
        database.query(LEDGER);
        server.query(&format!("create user app identified by '{SECRET}'"));
        let name = database.name().to_owned();
        let place = format!("127.0.0.1:{}/{name}", server.port());
        let url = |query: &str| format!("{}?{query}", server.url_as(&format!("app:{SECRET}"), &name));
        world.write("other.pem", &Certificates::of("localhost").authority);

        let wrong = url("").replace(SECRET, &format!("{SECRET}x"));
        refused(&world, &wrong, 3, &[&place, "the login was refused", "user and password in [outbox] url"]);
        refused(&world, &url(""), 3, &[&place, "may not use this database", "docs/mysql.md"]);
        server.query(&format!("grant all on {name}.* to app"));
        let gone = url("").replace(&name, "nowhere");
        refused(&world, &gone, 3, &["/nowhere", "no such database"]);
        let untrusted = url("sslmode=verify-full&sslrootcert=other.pem");
        refused(&world, &untrusted, 3, &[&place, "certificate is not trusted", "sslrootcert"]);
        // And as it should be, all the way.
        world.write(
            "postrider.toml",
            &format!("[outbox]\nurl = \"{}\"\nlayout = \"ledger\"\n{FILE}", url("sslmode=require")),
        );
        world.run(&["migrate"]).ok();
        world.run(&["run", "--until-empty"]).ok();
    }
}

/// F5: a right that is missing is no matter of the server: exit code 2, and for `check` 5.
#[test]
fn a_user_without_rights_is_told() {
    for server in servers() {
        let bank = Bank::new(&server, "ledger", FILE);
        let (name, user) = (bank.database.name(), format!("poor_{}", std::process::id()));
        bank.database.query(&format!(
            "create user {user} identified by '{SECRET}'; grant select on {name}.* to {user}"
        ));
        let url = bank.database.url().replace("root@", &format!("{user}:{SECRET}@"));
        bank.post("LEDGER_POSTED", "a", 1);
        bank.world
            .write("postrider.toml", &format!("[outbox]\nurl = \"{url}\"\nlayout = \"ledger\"\n{FILE}"));
        let run = bank.world.run(&["run", "--until-empty"]);
        let told = format!("{}{}", run.stdout, run.stderr);
        assert!(told.contains("a right is missing") && told.contains("docs/mysql.md"), "{told}");
        assert!(!told.contains(SECRET) && run.code != 0, "{} {told}", run.code);
        assert!(bank.world.landed().is_empty(), "nothing is published that could not be settled");
        bank.database.query(&format!("drop user {user}"));
    }
}
