//! What a cursor would lose events on is refused at the start, with the alternative (B10, F5).

use postrider_core::{Layout, Start};
use postrider_mysql::{Config, check, open_source};

use crate::common::{Harness, block_on};
use crate::scene::{native, servers};

/// What opening says, and whether `check` says the same.
fn told(config: &Config) -> String {
    let mut told = String::new();
    block_on(async {
        told = match open_source(config).await {
            Ok(_) => "nothing is refused".into(),
            Err(fault) => fault.to_string(),
        };
        let found = check(config).await;
        assert!(
            found.iter().any(|found| found.fault.to_string() == told),
            "check says {found:?}, not {told}"
        );
    });
    told
}

#[test]
fn tables_that_lose_events_are_refused_with_the_alternative() {
    for server in servers() {
        for (change, problem, remedy) in [
            ("alter table outbox modify id bigint unsigned not null", "AUTO_INCREMENT", "way = \"lease\""),
            ("alter table outbox drop primary key, add key (id)", "not unique", "add unique key"),
            ("alter table outbox engine = MyISAM", "no transactions", "engine = InnoDB"),
        ] {
            let outbox = Harness::on(&server, native(), "");
            outbox.database.query(change);
            let told = told(&outbox.config("relay").start(Start::Beginning));
            assert!(told.contains(problem) && told.contains(remedy), "{change}: {told}");
        }
    }
}

/// Who may not see which transactions are alive would lose what commits late.
#[test]
fn a_user_without_process_is_refused_with_the_grant() {
    for server in servers() {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        let (name, user) = (outbox.database.name(), &outbox.database.name()[..24]);
        outbox
            .database
            .query(&format!("create user {user}@'%' identified by 'x'; grant all on {name}.* to {user}@'%'"));
        let url = outbox.database.url().replacen("root@", &format!("{user}:x@"), 1);
        let config = Config::new(&url, native(), "relay").unwrap();
        let refused = told(&config);
        for part in ["innodb_trx", "grant process on *.* to", user, "way = \"lease\""] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        outbox.database.query(&format!("grant process on *.* to {user}@'%'"));
        block_on(async { drop(open_source(&config).await.unwrap()) });
        outbox.database.query(&format!("drop user {user}@'%'"));
    }
}

/// A layout whose positions and failures live in the team's tables is not followed half-way.
#[test]
fn side_tables_are_refused() {
    let layout = Layout::built_in("commerce").unwrap();
    let config = Config::new("mysql://root@127.0.0.1:1/none", layout, "relay").unwrap();
    block_on(async {
        let refused = open_source(&config).await.err().unwrap().to_string();
        assert!(refused.contains("[position.table]"), "{refused}");
    });
}
