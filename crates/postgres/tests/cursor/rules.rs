//! Tests of the tests: the rules that MEASUREMENTS.md shows to fail, on scenes in which they do. The cursor is shown the same.

use postrider_postgres::PostgresSource;
use postrider_servers::{Database, PrivatePostgres};
use tokio_postgres::Client;

use crate::harness::{Harness, block_on, native};
use crate::late::drain;
use crate::wait;
use crate::writers::{insert, numbers};

/// A scene is repeated until a bystander's transaction is not in its way.
const TRIES_MAX: usize = 20;

/// When a reader gives up an id that it has passed unseen.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// At once.
    None,
    /// When every transaction below the noting snapshot's upper end has ended.
    SnapshotEnd,
    /// When every transaction below a number that was drawn after noting has ended.
    NumberAfter,
}

/// A reader that keeps its gaps by one of these rules.
struct Reader {
    client: Client,
    rule: Rule,
    position: i64,
    /// The first and the last id of each, and what has to end before it is given up.
    gaps: Vec<(i64, i64, i64)>,
    seen: Vec<i64>,
}

impl Reader {
    async fn new(outbox: &Harness, rule: Rule) -> Self {
        let client = outbox.client().await;
        let position = numbers(&client, "select coalesce(max(id), 0) from outbox").await[0];
        Self { client, rule, position, gaps: Vec::new(), seen: Vec::new() }
    }

    /// Gives up what its rule says, then reads gaps and new rows in one statement, and notes what it passes.
    async fn read(&mut self) {
        let oldest = self.number("select pg_snapshot_xmin(pg_current_snapshot())::text").await;
        let open: Vec<_> = self.gaps.iter().filter(|(.., end)| oldest < *end).copied().collect();
        let given_up = std::mem::replace(&mut self.gaps, open);
        let wanted: Vec<String> = self
            .gaps
            .iter()
            .chain(&given_up)
            .map(|(first, last, _)| format!("id between {first} and {last}"))
            .collect();
        let gaps = if wanted.is_empty() { "false".to_owned() } else { wanted.join(" or ") };
        let rows = format!("select id from outbox where {gaps} or id > {} order by id", self.position);
        let came = numbers(&self.client, &rows).await;
        let end = match self.rule {
            Rule::None => 0,
            Rule::SnapshotEnd => self.number("select pg_snapshot_xmax(pg_current_snapshot())::text").await,
            Rule::NumberAfter => self.number("select pg_current_xact_id()::text").await,
        };
        for id in came {
            if id > self.position + 1 {
                self.gaps.push((self.position + 1, id - 1, end));
            }
            self.position = self.position.max(id);
            self.seen.push(id);
        }
    }

    async fn number(&self, sql: &str) -> i64 {
        numbers(&self.client, sql).await[0]
    }
}

/// What is written out of order in a scene: the first id is drawn, the second is committed, both readers look twice, and only
/// then the first is committed.
async fn is_lost(outbox: &Harness, rule: Rule, scene: Scene) -> bool {
    let source = outbox.source("relay").await;
    drain(&source).await;
    let mut reader = Reader::new(outbox, rule).await;
    let late = scene.draw(outbox).await;
    for _ in 0..2 {
        reader.read().await;
        drain(&source).await;
        wait_for_a_look(&source).await;
    }
    let id = late.commit().await;
    reader.read().await;
    assert!(drain(&source).await.contains(&id), "the cursor has lost {id} by {scene:?}");
    !reader.seen.contains(&id)
}

/// The cursor asks who is alive every 100 ms.
async fn wait_for_a_look(source: &PostgresSource) {
    wait::nap(110).await;
    drain(source).await;
}

/// How the first id comes to be drawn before the second and committed after it.
#[derive(Clone, Copy, Debug)]
enum Scene {
    /// By a transaction that is younger than the second's.
    Younger,
    /// By one that has no number yet: a trigger is slow.
    Unnumbered,
}

/// The transaction that commits late.
struct Late {
    client: Client,
    id: i64,
    /// Who keeps it from going on.
    guard: Option<(Client, tokio::task::JoinHandle<Client>)>,
}

impl Scene {
    async fn draw(self, outbox: &Harness) -> Late {
        let (first, second) = (outbox.client().await, outbox.client().await);
        match self {
            Self::Younger => {
                second.batch_execute("begin; insert into elsewhere values (1)").await.unwrap();
                first.batch_execute("begin; insert into elsewhere values (1)").await.unwrap();
                let id = numbers(&first, &insert("outbox", "late", 1)).await[0];
                numbers(&second, &insert("outbox", "early", 1)).await;
                second.batch_execute("commit").await.unwrap();
                Late { client: first, id, guard: None }
            }
            Self::Unnumbered => {
                let guard = outbox.client().await;
                guard.batch_execute("select pg_advisory_lock(7)").await.unwrap();
                let writing = tokio::spawn(async move {
                    numbers(&first, &insert("outbox", "slow", 1)).await;
                    first
                });
                wait::until_async("it has drawn its id, and waits in the trigger", async || {
                    !outbox
                        .query("select 1 from pg_locks where locktype = 'advisory' and not granted")
                        .is_empty()
                })
                .await;
                let next = numbers(&second, &insert("outbox", "early", 1)).await[0];
                Late { client: second, id: next - 1, guard: Some((guard, writing)) }
            }
        }
    }
}

impl Late {
    async fn commit(self) -> i64 {
        match self.guard {
            None => self.client.batch_execute("commit").await.unwrap(),
            Some((guard, writing)) => {
                guard.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
                writing.await.unwrap();
            }
        }
        self.id
    }
}

const SCENES: &str = "
    create table elsewhere (x int);
    create function slow() returns trigger language plpgsql as $$
    begin
        if new.aggregate_id = 'slow' then perform pg_advisory_xact_lock(7); end if;
        return new;
    end $$;
    create trigger slow before insert on outbox for each row execute function slow();
";

/// B10: no rule at all, the snapshot's end and a number drawn after noting each lose what this scene commits late; the cursor
/// does not. On a server of its own, where nobody else's transactions count.
#[test]
fn rules_that_go_by_transaction_numbers_lose_what_the_cursor_does_not() {
    let server = PrivatePostgres::start();
    let outbox = Harness::within(Database::create_blocking_on(&server.url()), native());
    outbox.query(SCENES);
    block_on(async {
        for (rule, scene) in [
            (Rule::None, Scene::Younger),
            (Rule::SnapshotEnd, Scene::Younger),
            (Rule::NumberAfter, Scene::Unnumbered),
        ] {
            let mut tries = 0;
            while !is_lost(&outbox, rule, scene).await {
                tries += 1;
                assert!(tries < TRIES_MAX, "{rule:?} loses nothing by {scene:?}");
            }
        }
        assert!(
            !is_lost(&outbox, Rule::NumberAfter, Scene::Younger).await,
            "each has a scene that it stands"
        );
    });
}

/// F2: gaps and new rows read one after the other show a key's second event before its first.
#[test]
fn gaps_and_new_rows_in_two_statements_turn_a_key_round() {
    let outbox = Harness::by_the_real_clock(native());
    block_on(async {
        let source = outbox.source("relay").await;
        let (reader, first, second) = (outbox.client().await, outbox.client().await, outbox.client().await);
        let one = numbers(&first, &format!("begin; {}", insert("outbox", "k", 1))).await[0];
        let passed = numbers(&second, &insert("outbox", "other", 1)).await[0];
        assert_eq!(drain(&source).await, [passed]);
        let in_gaps = numbers(&reader, &format!("select id from outbox where id = {one}")).await;
        first.batch_execute("commit").await.unwrap();
        let two = numbers(&second, &insert("outbox", "k", 2)).await[0];
        let new = numbers(&reader, &format!("select id from outbox where id > {passed}")).await;
        assert_eq!((in_gaps, new), (vec![], vec![two]), "the second before the first");
        assert_eq!(drain(&source).await, [one, two]);
    });
}
