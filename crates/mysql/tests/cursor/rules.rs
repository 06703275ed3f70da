//! Rules for giving gaps up that do not hold, each beside the cursor on the same rows (MEASUREMENTS.md).

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::common::{Harness, block_on};
use crate::scene::{append, drain, look, native, numbers, run, servers, source, writer};
use crate::wait;

/// When a reader gives up an id that it has passed.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// At once.
    None,
    /// When a locking read with NOWAIT finds no row.
    Nowait,
}

/// A reader that follows the table by such a rule.
struct Reader {
    conn: Conn,
    rule: Rule,
    position: i64,
    gaps: Vec<i64>,
    seen: Vec<i64>,
}

impl Reader {
    async fn new(outbox: &Harness, rule: Rule) -> Self {
        let mut conn = writer(outbox).await;
        run(&mut conn, "set session transaction isolation level read committed").await;
        let position = numbers(&mut conn, "select coalesce(max(id), 0) from outbox").await[0];
        Self { conn, rule, position, gaps: Vec::new(), seen: Vec::new() }
    }

    /// Gives up what the rule says, after one more read of gaps and new rows in one statement.
    async fn read(&mut self) {
        let mut given_up = Vec::new();
        for id in &self.gaps {
            let locking = format!("select id from outbox where id = {id} for update nowait");
            let is_nobodys = match self.rule {
                Rule::None => true,
                Rule::Nowait => self.conn.query::<i64, _>(locking).await.is_ok_and(|rows| rows.is_empty()),
            };
            given_up.extend(is_nobodys.then_some(*id));
        }
        let asked: Vec<String> = self.gaps.iter().chain(&[0]).map(ToString::to_string).collect();
        let rows = format!(
            "select id from outbox where id in ({}) or id > {} order by id",
            asked.join(", "),
            self.position
        );
        let came = numbers(&mut self.conn, &rows).await;
        self.gaps.retain(|id| !came.contains(id) && !given_up.contains(id));
        for id in came {
            self.gaps.extend(self.position + 1..id);
            self.position = self.position.max(id);
            self.seen.push(id);
        }
    }
}

/// How an id comes to be drawn before another and committed after it.
#[derive(Clone, Copy, Debug)]
enum Scene {
    /// By a transaction that stays open.
    Open,
    /// By a statement with several rows that waits for a unique key: the ids of its last rows are drawn, and nothing is there.
    Waiting,
    /// By one whose trigger is slow for its second row.
    Slow,
}

/// The transaction that commits late.
struct Late {
    writing: tokio::task::JoinHandle<Conn>,
    /// Who keeps it from going on, and how that ends.
    guard: (Conn, &'static str),
    /// The last id that it has drawn.
    id: i64,
}

const SCENES: &str = "
    alter table outbox add request varchar(40) unique;
    create trigger slow before insert on outbox for each row
    begin if new.aggregate_id = 'slow' then do get_lock(concat(database(), '.slow'), 60); end if; end";

impl Scene {
    async fn draw(self, outbox: &Harness) -> Late {
        let (mut guard, mut first) = (writer(outbox).await, writer(outbox).await);
        let mut second = writer(outbox).await;
        let rows = |last: &str| {
            format!(
                "begin; insert into outbox (type, aggregate_type, aggregate_id, payload, request) values \
                 ('scene.row.written.v1', 'Row', 'late', '1', null), ('scene.row.written.v1', 'Row', '{last}', '1', 'one'), \
                 ('scene.row.written.v1', 'Row', 'late', '2', null)"
            )
        };
        let (sql, end) = match self {
            Self::Open => {
                // Nothing keeps it but this test.
                run(&mut guard, "do get_lock(concat(database(), '.open'), 60)").await;
                (
                    format!("{}; do get_lock(concat(database(), '.open'), 60)", rows("late")),
                    "do release_all_locks()",
                )
            }
            Self::Waiting => {
                run(&mut guard, "begin; insert into outbox (type, aggregate_type, aggregate_id, request) values ('a', 'b', 'c', 'one')")
                    .await;
                (rows("late"), "rollback")
            }
            Self::Slow => {
                run(&mut guard, "do get_lock(concat(database(), '.slow'), 60)").await;
                (rows("slow"), "do release_all_locks()")
            }
        };
        let threads = numbers(&mut first, "select connection_id()").await[0];
        let writing = tokio::spawn(async move {
            run(&mut first, &sql).await;
            first
        });
        let waits = format!(
            "select 1 from information_schema.processlist where id = {threads} and (state = 'User lock' \
             or command = 'Query' and time >= 1)"
        );
        wait::until("its ids are drawn, and it waits", || !outbox.database.query(&waits).is_empty()).await;
        let next = append(&mut second, "early", 1).await;
        Late { writing, guard: (guard, end), id: next - 1 }
    }
}

impl Late {
    async fn commit(self) -> i64 {
        let (mut guard, end) = self.guard;
        run(&mut guard, end).await;
        let mut first = self.writing.await.unwrap();
        run(&mut first, "commit").await;
        self.id
    }
}

/// What is written out of order in a scene: ids are drawn, a later one is committed, both readers look again and again, and
/// only then the first is committed. Whether the naive reader has lost its last row.
async fn is_lost(outbox: &Harness, rule: Rule, scene: Scene) -> bool {
    let source = source(outbox, "relay").await;
    drain(&source).await;
    let mut reader = Reader::new(outbox, rule).await;
    let late = scene.draw(outbox).await;
    for _ in 0..2 {
        reader.read().await;
        look(&source).await;
    }
    let id = late.commit().await;
    reader.read().await;
    let came = drain(&source).await;
    assert_eq!(came, [id - 2, id - 1, id], "the cursor has lost some by {scene:?}");
    outbox.database.query("update outbox set request = null");
    !reader.seen.contains(&id)
}

/// B10: no rule at all, and a locking read that finds no row, lose what these scenes commit late; the cursor does not. In
/// `cargo xtask soak` alone: the scene that waits for a unique key runs into the server's time-out on a busy machine.
#[test]
fn naive_rules_lose_what_the_cursor_does_not() {
    let is_soak = std::env::var_os("POSTRIDER_SOAK").is_some();
    for server in servers().filter(|_| is_soak) {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        outbox.database.query(SCENES);
        block_on(async {
            for (rule, scene) in
                [(Rule::None, Scene::Open), (Rule::Nowait, Scene::Waiting), (Rule::Nowait, Scene::Slow)]
            {
                assert!(
                    is_lost(&outbox, rule, scene).await,
                    "{rule:?} loses nothing by {scene:?} on {server}"
                );
            }
            assert!(!is_lost(&outbox, Rule::Nowait, Scene::Open).await, "it has a scene that it stands");
        });
    }
}

/// F2: gaps and new rows read one after the other show a key's second event before its first.
#[test]
fn gaps_and_new_rows_in_two_statements_turn_a_key_round() {
    for server in servers() {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        block_on(async {
            let source = source(&outbox, "relay").await;
            let (mut reader, mut first) = (writer(&outbox).await, writer(&outbox).await);
            let mut second = writer(&outbox).await;
            run(&mut first, "begin").await;
            let one = append(&mut first, "k", 1).await;
            let passed = append(&mut second, "other", 1).await;
            assert_eq!(drain(&source).await, [passed]);
            let in_gaps = numbers(&mut reader, &format!("select id from outbox where id = {one}")).await;
            run(&mut first, "commit").await;
            let two = append(&mut second, "k", 2).await;
            let new = numbers(&mut reader, &format!("select id from outbox where id > {passed}")).await;
            assert_eq!((in_gaps, new), (vec![], vec![two]), "the second before the first");
            assert_eq!(drain(&source).await, [one, two]);
        });
    }
}
