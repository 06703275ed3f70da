//! Writers at their worst, as `experiments/gap_cursor_mysql.py` has them, and more.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_conformance::log::{Chance, Log};

use crate::common::Harness;
use crate::scene::{insert, run, writer};
use crate::wait;

/// Aggregates that writers lock, a column that must be unique, and a trigger that is slow now and then: in a statement with many
/// rows, after their ids were drawn.
pub(crate) const SCENE: &str = "
    create table aggregates (k varchar(20) primary key, v int not null);
    insert into aggregates with recursive s(n) as (select 0 union all select n + 1 from s where n < 19) select concat('k', n), 0 from s;
    create table elsewhere (x int);
    insert into elsewhere values (1), (2), (3);
    alter table outbox add request varchar(40) unique;
    create trigger slow before insert on outbox for each row
    begin if rand() < 0.1 then do sleep(rand() * 0.02); end if; end";

/// What a server may say to a writer that stands in somebody's way: it has rolled back, and goes on with the next.
type Written<T> = mysql_async::Result<T>;

/// Locks a key, takes its next version, and appends it.
async fn append_locked(conn: &mut Conn, key: &str) -> Written<i64> {
    conn.query_drop(format!("update aggregates set v = v + 1 where k = '{key}'")).await?;
    let version: Option<i64> =
        conn.query_first(format!("select v from aggregates where k = '{key}'")).await?;
    conn.query_drop(insert(key, version.unwrap())).await?;
    Ok(i64::try_from(conn.last_insert_id().unwrap()).unwrap())
}

/// Rows of a key of one's own.
async fn own(conn: &mut Conn, key: &str) -> Written<Vec<i64>> {
    conn.query(format!("select id from outbox where aggregate_id = '{key}' order by id")).await
}

pub(crate) async fn write(outbox: &Harness, number: u64, rounds: u64, logs: &[&Log]) {
    let mut conn = writer(outbox).await;
    let mut chance = Chance::new(number);
    for round in 0..rounds {
        let key = format!("k{}", chance.below(20));
        let name = format!("own-{number}-{round}");
        let kind = (number + round) % 8;
        let ids = if kind == 6 {
            write_prepared(outbox, &mut conn, &name, &key, &mut chance).await
        } else {
            run(&mut conn, "begin").await;
            match write_one(&mut conn, kind, &name, &key, &mut chance).await {
                Ok(ids) => {
                    wait::nap(chance.below(40)).await;
                    let commits = chance.below(100) >= 15;
                    run(&mut conn, if commits { "commit" } else { "rollback" }).await;
                    if commits { ids } else { Vec::new() }
                }
                Err(_) => {
                    run(&mut conn, "rollback").await;
                    Vec::new()
                }
            }
        };
        logs.iter().for_each(|log| log.commit(&ids));
    }
}

async fn write_one(
    conn: &mut Conn,
    kind: u64,
    name: &str,
    key: &str,
    chance: &mut Chance,
) -> Written<Vec<i64>> {
    let row = |request: &str| format!("('scene.row.written.v1', 'Row', '{name}', '0', {request})");
    let into = "insert into outbox (type, aggregate_type, aggregate_id, payload, request)";
    let mut ids = Vec::new();
    match kind {
        0 => ids.push(append_locked(conn, key).await?),
        1 => {
            for _ in 0..2 {
                ids.push(append_locked(conn, key).await?);
                wait::nap(chance.below(10)).await;
            }
        }
        // Many rows in one statement: all ids are reserved before the first row is there.
        2 => {
            conn.query_drop(format!("{into} values {}", [row("null"), row("null"), row("null")].join(", ")))
                .await?;
            ids = own(conn, name).await?;
        }
        // One of them waits for somebody else's, or is refused for it.
        3 => {
            let shared = format!("'shared-{}'", chance.below(40));
            let rows = [row("null"), row(&shared), row("null"), row("null")].join(", ");
            conn.query_drop(format!("{into} values {rows}")).await?;
            ids = own(conn, name).await?;
        }
        4 => {
            ids.push(append_locked(conn, key).await?);
            conn.query_drop(format!("savepoint s; {}; rollback to savepoint s", insert("undone", 0))).await?;
            ids.push(append_locked(conn, key).await?);
        }
        // How many there will be is not known: more ids are reserved than are used.
        5 => {
            let from = "select 'scene.row.written.v1', 'Row', '{}', '0', null from elsewhere limit 5";
            conn.query_drop(format!("{into} {}", from.replace("{}", name))).await?;
            ids = own(conn, name).await?;
        }
        _ => {
            conn.query_drop("insert into elsewhere values (1)").await?;
            wait::nap(chance.below(20)).await;
            ids.push(append_locked(conn, key).await?);
        }
    }
    Ok(ids)
}

/// A transaction that is prepared, and ended by another session; now and then its own is gone by then.
async fn write_prepared(
    outbox: &Harness,
    conn: &mut Conn,
    name: &str,
    key: &str,
    chance: &mut Chance,
) -> Vec<i64> {
    // Names are known to the whole server.
    let xid = format!("'{}', '{name}'", outbox.database.name());
    run(conn, &format!("xa start {xid}")).await;
    let written = append_locked(conn, key).await;
    let Ok(id) = written else {
        // Whatever state it is in, its session's end ends it.
        let gone = std::mem::replace(conn, writer(outbox).await);
        gone.disconnect().await.unwrap();
        return Vec::new();
    };
    run(conn, &format!("xa end {xid}")).await;
    run(conn, &format!("xa prepare {xid}")).await;
    let mut ender = if chance.below(2) == 0 {
        let gone = std::mem::replace(conn, writer(outbox).await);
        gone.disconnect().await.unwrap();
        writer(outbox).await
    } else {
        std::mem::replace(conn, writer(outbox).await)
    };
    wait::nap(chance.below(300)).await;
    let end = if chance.below(100) < 15 { "rollback" } else { "commit" };
    // Its session may not have let go of it yet.
    wait::until_async("the prepared transaction can be ended", async || {
        ender.query_drop(format!("xa {end} {xid}")).await.is_ok()
    })
    .await;
    if end == "commit" { vec![id] } else { Vec::new() }
}
