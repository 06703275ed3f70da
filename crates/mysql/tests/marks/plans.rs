//! A5, E3: what a claim reads and locks, with the teams' own indexes, among a million rows.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, params};
use postrider_core::Layout;
use postrider_mysql::StatusStatements;

use crate::common::tables::{DONATION, LEDGER};
use crate::common::{Harness, block_on};
use crate::servers;

/// Doubled so often, one row is a million; half of them are open.
const DOUBLINGS: u32 = 20;
const PAGE: u64 = 200;

/// One line of a plan: the table's alias, how it is read, by which index, and what else.
#[derive(Debug)]
struct Line {
    table: String,
    access: String,
    key: String,
    extra: String,
}

/// A statement with its parameters in it.
fn filled(sql: &str, id: u64) -> String {
    let outbox = sql.replace(":outbox", "'x'").replace(":rows", &PAGE.to_string());
    outbox.replace(":id", &id.to_string()).replace(":sealed", &(id - 500).to_string())
}

fn plan(harness: &Harness, sql: &str) -> Vec<Line> {
    let rows = harness.database.query(&format!("explain {sql}"));
    let line = |row: &Vec<Option<String>>| {
        // MySQL says two things more than MariaDB.
        let [table, access, key, extra] = if row.len() > 10 { [2, 4, 6, 11] } else { [2, 3, 5, 9] };
        let text = |at: usize| row[at].clone().unwrap_or_default();
        Line { table: text(table), access: text(access), key: text(key), extra: text(extra) }
    };
    rows.iter().map(line).collect()
}

/// Index entries and rows that a statement reads.
fn reads(harness: &Harness, sql: &str) -> u64 {
    let mut sum = 0;
    block_on(async {
        let mut conn = Conn::from_url(harness.database.url()).await.unwrap();
        conn.query_drop("flush status").await.unwrap();
        let _: Vec<Row> = conn.query(sql).await.unwrap();
        let counts: Vec<(String, u64)> =
            conn.query("show session status like 'Handler_read_%'").await.unwrap();
        // What is read from a table that holds a result for a moment is no row of the outbox.
        sum = counts.iter().filter(|(name, _)| !name.contains("_rnd")).map(|(_, count)| count).sum();
    });
    sum
}

fn statements(harness: &Harness) -> StatusStatements {
    let mut read = None;
    block_on(async { read = Some(StatusStatements::read(&harness.config("plans")).await.unwrap()) });
    read.unwrap()
}

/// Half of the rows are done, the other half, which come later, are not.
fn fill(harness: &Harness, table: &str, first: &str, columns: &str, values: &str, done: &str) {
    harness.database.query(first);
    harness.database.query(&format!("update {table} set status = '{done}'"));
    let again = |status: &str| {
        format!("insert into {table} ({columns}, status) select {values}, {status} from {table}")
    };
    for _ in 1..DOUBLINGS {
        harness.database.query(&again("status"));
    }
    harness.database.query(&again("'PENDING'"));
    harness.database.query(&format!("analyze table {table}"));
}

fn of_outbox(plan: &[Line]) -> Vec<&Line> {
    plan.iter().filter(|line| line.table == "t").collect()
}

/// E3: above the mark a claim is a range of the primary key, without a sort, and reads what it takes; the question for late rows
/// is one too; without a mark the team's index is read and no row that is not wanted.
#[test]
fn e3_claims_of_the_ledger_are_ranges_of_an_index() {
    for server in servers() {
        let harness = Harness::on(&server, Layout::built_in("ledger").unwrap(), LEDGER);
        fill(
            &harness,
            "outbox_event",
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
             ('TRANSACTION', 't', 'LEDGER_POSTED', '{\"accountId\": \"a\"}', '2026-01-01')",
            "aggregate_type, aggregate_id, event_type, payload, created_at",
            "aggregate_type, aggregate_id, event_type, payload, created_at",
            "PROCESSED",
        );
        let statements = statements(&harness);
        let last: u64 = harness.value("select max(id) from outbox_event").unwrap().parse().unwrap();
        let id = last * 3 / 4;
        let on = filled(&statements.on, id);
        let lines = plan(&harness, &on);
        let [t] = of_outbox(&lines)[..] else { panic!("{lines:?}") };
        assert_eq!((t.access.as_str(), t.key.as_str()), ("range", "PRIMARY"), "{lines:?}");
        assert!(lines.iter().all(|line| !line.extra.contains("filesort")), "{lines:?}");
        let read = reads(&harness, &on);
        assert!(read < PAGE * 4, "{read} reads for {PAGE} rows: {on}");
        let late = filled(&statements.late, id);
        let lines = plan(&harness, &late);
        assert!(of_outbox(&lines).iter().all(|t| t.access == "range"), "{lines:?}");
        let read = reads(&harness, &late);
        assert!(read < 2_000, "{read} reads for 500 ids: {late}");
        let lines = plan(&harness, &filled(&statements.first, id));
        let [ids, rows] = of_outbox(&lines)[..] else { panic!("{lines:?}") };
        let [ids, rows] = if ids.key == "PRIMARY" { [rows, ids] } else { [ids, rows] };
        assert_eq!(
            (ids.access.as_str(), ids.key.as_str()),
            ("ref", "idx_outbox_status_created"),
            "{lines:?}"
        );
        assert!(ids.extra.contains("Using index"), "the index alone: {lines:?}");
        assert_eq!((rows.access.as_str(), rows.key.as_str()), ("eq_ref", "PRIMARY"), "{lines:?}");
    }
}

/// A5: what waits for nothing is a range of the team's index in which ids stand in order, what was tried is another, and they are
/// merged: a claim from the first row on reads what it takes, of half a million that are open.
#[test]
fn a5_claims_of_donations_are_ranges_of_the_teams_index() {
    for server in servers() {
        let harness = Harness::on(&server, Layout::built_in("donation").unwrap(), DONATION);
        fill(
            &harness,
            "donation_outbox",
            "insert into donation_outbox (request_id, event_type, payload, content_hash) values (uuid(), 'd', '{}', '')",
            "request_id, event_type, payload, content_hash",
            "uuid(), event_type, payload, content_hash",
            "COMPLETED",
        );
        harness.database.query(
            "update donation_outbox set status = 'FAILED', next_retry_at = '1970-01-01' where id % 10000 = 0 and status = 'PENDING'",
        );
        let statements = statements(&harness);
        let first = filled(&statements.first, 0x7fff_ffff);
        let lines = plan(&harness, &first);
        let (ids, rows): (Vec<&Line>, Vec<&Line>) =
            of_outbox(&lines).into_iter().partition(|t| t.key.starts_with("idx_donation_outbox"));
        assert_eq!(ids.len(), 6, "three words, with and without a time: {lines:?}");
        assert!(ids.iter().all(|t| ["ref", "range"].contains(&t.access.as_str())), "{lines:?}");
        assert!(ids.iter().all(|t| t.extra.contains("Using index")), "{lines:?}");
        let sorted = ids.iter().filter(|t| t.extra.contains("filesort")).count();
        assert!(sorted <= 3, "those without a time stand in order: {lines:?}");
        assert!(rows.iter().all(|t| t.access == "eq_ref" && t.key == "PRIMARY"), "{lines:?}");
        let read = reads(&harness, &first);
        assert!(read < PAGE * 8, "{read} reads for {PAGE} rows: {first}");
        let sql = "select id from donation_outbox where status in ('PENDING', 'FAILED') \
                   and (next_retry_at is null or next_retry_at <= utc_timestamp()) order by id limit 200";
        let same = harness.database.query(sql);
        let ours = harness.database.query(&first);
        let entry = StatusStatements::ENTRY;
        let ours: Vec<_> = ours.iter().map(|row| row[entry].clone()).collect();
        assert_eq!(
            ours,
            same.iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
            "the team's rows, in its order"
        );
    }
}

/// A5: whoever claims locks no row but those that it takes: a second claimer gets all the others at once.
#[test]
fn a5_rows_that_are_not_claimed_are_not_locked() {
    for server in servers() {
        let harness = Harness::on(&server, Layout::built_in("donation").unwrap(), DONATION);
        for (request, more) in [
            ("held", ", status = 'PROCESSING', locked_at = '1970-01-01'"),
            ("waits", ", status = 'FAILED', next_retry_at = '1970-01-02'"),
            ("one", ""),
            ("two", ""),
            ("three", ", status = 'FAILED'"),
            ("four", ""),
            ("done", ", status = 'COMPLETED'"),
        ] {
            harness.database.query(&format!(
                "insert into donation_outbox set request_id = '{request}', event_type = 'd', payload = '{{}}', \
                 content_hash = ''{more}"
            ));
        }
        let statements = statements(&harness);
        // All of them are offered, and there is room for two.
        let list: Vec<String> = (1..=7).map(|id| format!("{{\"e\": \"{id}\"}}")).collect();
        let list = format!("[{}]", list.join(", "));
        let take = |rows: u64| params! { "outbox" => "donation_outbox", "list" => &list, "rows" => rows };
        block_on(async {
            let mut claimer = Conn::from_url(harness.database.url()).await.unwrap();
            let mut other = Conn::from_url(harness.database.url()).await.unwrap();
            for conn in [&mut claimer, &mut other] {
                conn.query_drop("set session transaction isolation level read committed").await.unwrap();
                conn.query_drop("start transaction").await.unwrap();
            }
            let places = |rows: Vec<Row>| -> Vec<u64> {
                rows.iter().map(|row| row.get(row.len() - 1).unwrap()).collect()
            };
            let taken = places(claimer.exec(statements.lock.as_str(), take(2)).await.unwrap());
            assert_eq!(taken, [3, 4]);
            let others = places(other.exec(statements.lock.as_str(), take(9)).await.unwrap());
            assert_eq!(others, [5, 6], "whatever is left and open");
            other.query_drop("rollback").await.unwrap();
            other.query_drop("start transaction").await.unwrap();
            let free: Vec<u64> = other
                .query(
                    "select id from donation_outbox force index (primary) order by id for update skip locked",
                )
                .await
                .unwrap();
            assert_eq!(free, [1, 2, 5, 6, 7], "nothing that was passed by is locked");
        });
    }
}
