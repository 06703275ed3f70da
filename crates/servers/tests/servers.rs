//! The tools themselves, over real servers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail tests")]
#![allow(clippy::disallowed_methods, reason = "a delay is measured by the real clock")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postrider_servers::{
    Database, Door, Options, PrivatePostgres, pgbouncer, postgres, postgres15, query, until,
};

fn one(rows: &[Vec<Option<String>>]) -> &str {
    rows[0][0].as_deref().unwrap()
}

fn known(name: &str) -> bool {
    let rows = query(&postgres(), &format!("select count(*) from pg_database where datname = '{name}'"));
    one(&rows.unwrap()) == "1"
}

#[test]
fn databases_are_made_side_by_side_and_go_with_their_tests() {
    let makers: Vec<_> = (0..8).map(|_| std::thread::spawn(Database::create_blocking)).collect();
    let databases: Vec<Database> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
    let names: HashSet<String> = databases.iter().map(|database| database.name().to_owned()).collect();
    assert_eq!(names.len(), 8);
    for database in &databases {
        assert_eq!(one(&database.query("select current_database()")), database.name());
    }
    drop(databases);
    assert!(names.iter().all(|name| !known(name)));
}

/// On a server of its own: a slot is made only when no transaction of any other test is open.
#[test]
fn a_database_is_dropped_in_spite_of_clients_prepared_transactions_and_slots() {
    let server = PrivatePostgres::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = Database::create_on(&server.url()).await;
        database.query("select pg_create_logical_replication_slot('s', 'pgoutput')");
        database.query("begin; create table p (id int); prepare transaction 'it''s mine'");
        let (client, connection) =
            tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("create table t (id int); begin; insert into t values (1)").await.unwrap();
    });
    let left = "select count(*) from pg_database where datname like 'postrider%'";
    assert_eq!(one(&server.query(left)), "0");
}

#[test]
fn optional_servers_are_what_they_are_called() {
    if let Some(url) = postgres15() {
        let database = Database::create_blocking_on(&url);
        assert!(one(&database.query("show server_version")).starts_with("15."));
    }
    if let Some(url) = pgbouncer() {
        let database = Database::create_blocking();
        let rows = query(&database.url_at(&url), "select current_database()").unwrap();
        assert_eq!(one(&rows), database.name());
    }
}

#[test]
fn a_killed_server_starts_again_with_what_was_committed() {
    let mut server = PrivatePostgres::start();
    server.query("create table t (id int); insert into t values (1)");
    let url = server.url();
    for round in 2..5 {
        server.kill();
        assert!(query(&url, "select 1").is_err(), "a killed server answers");
        server.restart();
        assert!(server.log().contains("was not properly shut down"), "{}", server.log());
        server.query(&format!("insert into t values ({round})"));
    }
    server.stop_immediate();
    server.restart();
    server.stop();
    server.restart();
    assert!(!server.log().contains("was not properly shut down"), "{}", server.log());
    assert_eq!(server.url(), url);
    assert_eq!(one(&server.query("select string_agg(id::text, ',' order by id) from t")), "1,2,3,4");
}

#[test]
fn a_server_whose_port_is_taken_for_a_moment_comes_back_to_it() {
    let mut server = PrivatePostgres::start();
    let url = server.url();
    server.stop();
    let thief = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    let log = server.log_file();
    let back = std::thread::spawn(move || {
        server.restart();
        server
    });
    until("a start fails", || {
        std::fs::read_to_string(&log).is_ok_and(|said| said.contains("could not bind"))
    });
    drop(thief);
    let server = back.join().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(one(&server.query("select 1")), "1");
}

#[test]
fn a_standby_follows_and_takes_over() {
    let mut primary = PrivatePostgres::start();
    primary.query("create table t (id int); insert into t values (1)");
    let standby = primary.standby();
    assert_eq!(one(&standby.query("select pg_is_in_recovery()")), "t");
    primary.query("insert into t values (2)");
    until("the standby follows", || one(&standby.query("select count(*) from t")) == "2");
    primary.kill();
    standby.query("select pg_promote()");
    standby.query("insert into t values (3)");
    assert_eq!(one(&standby.query("select count(*) from t")), "3");
}

#[test]
fn a_server_has_what_it_was_given() {
    let options = Options {
        settings: vec!["application_name = 'given'".to_owned(), "work_mem = '7MB'".to_owned()],
        access: vec!["host all refused 127.0.0.1/32 reject".to_owned()],
        files: vec![("given.txt".to_owned(), b"7".to_vec())],
        ..Options::default()
    };
    let server = PrivatePostgres::start_with(&options);
    server.query("create role refused login");
    assert_eq!(one(&server.query("show work_mem")), "7MB");
    assert_eq!(one(&server.query("select pg_read_file('given.txt')")), "7");
    let refused = query(&server.url().replace("postgres@", "refused@"), "select 1").unwrap_err();
    assert!(refused.to_string().contains("pg_hba.conf rejects"), "{refused}");
}

/// Answers each byte with the same byte.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut from, mut to) = (client.try_clone().unwrap(), client);
                std::io::copy(&mut from, &mut to)
            });
        }
    });
    address
}

fn connect(door: &Door) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", door.port())).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    client
}

fn ask(client: &mut TcpStream, text: &[u8]) {
    client.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

#[test]
fn a_door_lets_through_large_and_small_and_the_end() {
    let door = Door::before(&echo());
    let mut client = connect(&door);
    ask(&mut client, b"a");
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sent = large.clone();
    let mut sender = client.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        sender.write_all(&sent).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    writer.join().unwrap();
    assert!(answer == large, "{} bytes of {} came back", answer.len(), large.len());
    assert_eq!(door.bytes(), (3_000_001, 3_000_001));
    until("the door forgets what has ended", || door.connections() == 0);
}

#[test]
fn a_cut_ends_connections_and_new_ones_go_through() {
    let door = Door::before(&echo());
    let mut client = connect(&door);
    ask(&mut client, b"a");
    door.cut();
    assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0);
    ask(&mut connect(&door), b"b");
    assert_eq!(door.accepted(), 2);
}

#[test]
fn a_closed_door_refuses_new_connections_and_keeps_the_old_ones() {
    let mut door = Door::before(&echo());
    let mut client = connect(&door);
    ask(&mut client, b"a");
    door.close();
    door.close();
    assert!(TcpStream::connect(("127.0.0.1", door.port())).is_err());
    ask(&mut client, b"b");
    door.open();
    ask(&mut connect(&door), b"c");
}

/// A process that is being started holds copies of all sockets for a moment.
#[test]
fn a_door_is_closed_at_once_also_while_processes_are_started() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        });
        let mut door = Door::before(&echo());
        let open: Vec<usize> = (0..200)
            .filter(|_| {
                door.close();
                let is_open = TcpStream::connect(("127.0.0.1", door.port())).is_ok();
                door.open();
                is_open
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(open.is_empty(), "it was open: {open:?}");
    });
}

#[test]
fn a_stalled_door_holds_everything_back_and_loses_nothing() {
    let door = Door::before(&echo());
    let mut client = connect(&door);
    ask(&mut client, b"a");
    door.stall();
    client.write_all(b"b").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(client.read(&mut [0; 8]).is_err(), "something came through");
    assert_eq!(door.bytes(), (1, 1));
    door.resume();
    client.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let mut answer = [0; 1];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"b");
    door.stall();
    door.cut();
    assert_eq!(client.read(&mut answer).unwrap_or(0), 0, "a stalled connection is cut too");
}

#[test]
fn answers_alone_are_held_back() {
    let database = Database::create_blocking();
    database.query("create table t (id int)");
    let door = Door::before(&database.url());
    let through = door.url(&database.url());
    door.delay(Duration::from_millis(1));
    assert_eq!(one(&query(&through, "select 7").unwrap()), "7");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&through, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    });
    door.stall_answers();
    let lost = runtime.spawn(async move { client.batch_execute("insert into t values (1)").await });
    until("the server has done it", || one(&database.query("select count(*) from t")) == "1");
    door.cut();
    assert!(runtime.block_on(lost).unwrap().is_err(), "the answer came through");
}

#[test]
fn a_delay_delays_each_way() {
    let door = Door::before(&echo());
    let mut client = connect(&door);
    ask(&mut client, b"a");
    door.delay(Duration::from_millis(100));
    let start = Instant::now();
    ask(&mut client, b"b");
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}
