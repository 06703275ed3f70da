//! Writers at their worst, and a log of what they did.

use bytes::Bytes;
use futures_util::SinkExt;
use postrider_conformance::log::{Chance, Log};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::harness::Harness;
use crate::wait;

/// Aggregates that writers lock, and a trigger that is slow now and then, after the id was drawn.
pub(crate) const SCENE: &str = "
    create table aggregates (key text primary key, v int not null);
    insert into aggregates select 'k' || g, 0 from generate_series(0, 19) as g;
    create table elsewhere (x int);
    create function slow() returns trigger language plpgsql as $$
    begin
        if random() < 0.1 then perform pg_sleep(random() * 0.02); end if;
        return new;
    end $$;
    create trigger slow before insert on outbox for each row execute function slow();
";

/// The first column of every row, of one or more statements.
pub(crate) async fn numbers(client: &Client, sql: &str) -> Vec<i64> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{error:?}, of: {sql}"));
    let number = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    };
    messages.iter().filter_map(number).collect()
}

pub(crate) fn insert(table: &str, key: &str, version: i64) -> String {
    format!(
        "insert into {table} (type, aggregate_type, aggregate_id, payload) \
         values ('scene.row.written.v1', 'Row', '{key}', '{version}') returning id"
    )
}

/// Locks a key, takes its next version, and appends it.
async fn append_locked(client: &Client, table: &str, key: &str) -> Vec<i64> {
    let lock = format!("update aggregates set v = v + 1 where key = '{key}' returning v");
    let version = numbers(client, &lock).await[0];
    numbers(client, &insert(table, key, version)).await
}

pub(crate) async fn write(outbox: &Harness, number: u64, rounds: u64, logs: [&Log; 2]) {
    let client = outbox.client().await;
    let mut chance = Chance::new(number);
    for round in 0..rounds {
        let key = format!("k{}", chance.below(20));
        let own = format!("own-{number}-{round}");
        client.batch_execute("begin").await.unwrap();
        let mut ids = Vec::new();
        match (number + round) % 8 {
            0 => ids.extend(append_locked(&client, "outbox", &key).await),
            1 => {
                for _ in 0..2 {
                    ids.extend(append_locked(&client, "outbox", &key).await);
                    wait::nap(chance.below(10)).await;
                }
            }
            // Many rows in one statement, without any earlier write: its ids are drawn before it has a transaction's number.
            2 => {
                let many = format!(
                    "insert into outbox (type, aggregate_type, aggregate_id, payload) \
                     select 'scene.row.written.v1', 'Row', '{own}', '0' from generate_series(1, 3) returning id"
                );
                ids.extend(numbers(&client, &many).await);
            }
            3 => ids.extend(copy(&client, &own).await),
            4 => {
                ids.extend(append_locked(&client, "outbox", &key).await);
                numbers(&client, &format!("savepoint s; {}", insert("outbox", "undone", 0))).await;
                client.batch_execute("rollback to savepoint s").await.unwrap();
                ids.extend(append_locked(&client, "outbox", &key).await);
            }
            // A direct insert leaves no lock on the parent.
            5 => ids.extend(append_locked(&client, "outbox_p0", &key).await),
            6 => {
                ids.extend(append_locked(&client, "outbox", &key).await);
                client.batch_execute(&format!("prepare transaction '{own}'")).await.unwrap();
            }
            _ => {
                client.batch_execute("insert into elsewhere values (1)").await.unwrap();
                wait::nap(chance.below(20)).await;
                ids.extend(append_locked(&client, "outbox", &key).await);
            }
        }
        wait::nap(chance.below(40)).await;
        let end = if chance.below(100) < 15 { "rollback" } else { "commit" };
        let of = if (number + round) % 8 == 6 { format!(" prepared '{own}'") } else { String::new() };
        client.batch_execute(&format!("{end}{of}")).await.unwrap();
        if end == "commit" {
            logs.iter().for_each(|log| log.commit(&ids));
        }
    }
}

async fn copy(client: &Client, own: &str) -> Vec<i64> {
    let sink =
        client.copy_in("copy outbox (type, aggregate_type, aggregate_id, payload) from stdin").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    let lines = format!("scene.row.written.v1\tRow\t{own}\t0\n").repeat(2);
    sink.send(Bytes::from(lines)).await.unwrap();
    sink.as_mut().finish().await.unwrap();
    numbers(client, &format!("select id from outbox where aggregate_id = '{own}'")).await
}
