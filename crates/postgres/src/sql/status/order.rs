//! The order in which the rows of a status table are claimed, and whether an index has them in it.

use postrider_core::Layout;
use postrider_core::layout::{Column, Identifier, Way};

use crate::table::{Index, Table};

/// By id where ids count, else by time; on a table whose rows are held, by when they are due first (D2). The id comes last.
pub(crate) fn order<'l>(layout: &'l Layout, table: &Table) -> Vec<&'l Identifier> {
    let columns = &layout.columns;
    let name = |column: &'l Option<Column>| column.as_ref().and_then(Column::name);
    let leads = match layout.way {
        Way::Hold => [name(&columns.not_before), name(&columns.time)],
        _ if table.id_counts(layout) => [None, None],
        _ => [name(&columns.time), None],
    };
    leads.into_iter().chain([name(&columns.id)]).flatten().collect()
}

/// What an index has behind what tells open rows from others (the status, or what shows that a row is published): its columns from
/// there on. None where it tells them by nothing.
pub(crate) fn behind<'i>(index: &'i Index, teller: &Identifier) -> Option<&'i [String]> {
    let mentions = index.condition.as_ref().is_some_and(|on| on.contains(teller.as_str()));
    match index.columns.split_first() {
        Some((first, rest)) if first == teller.as_str() => Some(rest),
        _ => mentions.then_some(&index.columns[..]),
    }
}

/// Whether an index has open rows in the whole order, so that a claim reads those that it takes and no other.
pub(crate) fn is_indexed(layout: &Layout, table: &Table) -> bool {
    let columns = &layout.columns;
    let teller = columns.status.as_ref().or(columns.published.as_ref()).and_then(Column::name);
    let order = order(layout, table);
    teller.is_some_and(|teller| {
        table.indexes.iter().any(|index| {
            index.ascends
                && behind(index, teller).is_some_and(|behind| {
                    order.len() <= behind.len()
                        && order.iter().zip(behind).all(|(by, has)| by.as_str() == has)
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Type;

    use super::super::{Parts, ScanSql};
    use super::*;
    use crate::Config;
    use crate::session::{Durable, Session};

    const ROWS: u64 = 20_000;

    /// As the team has it (D1): every row has the same due time until it fails.
    const LOGISTICS: &str = "
        create table outbox_events (
            id uuid primary key, aggregate_type varchar(50) not null, aggregate_id uuid not null, event_type varchar(100) not null,
            payload jsonb not null, occurred_at timestamptz default now(), status varchar(20) default 'PENDING', retry_count int default 0,
            next_attempt_at timestamptz default '1970-01-01 00:00:00Z', last_error text, processed_at timestamptz);
        create index idx_outbox_poll on outbox_events (status, next_attempt_at);";

    /// As the team has it (C1), written by one transaction at one time.
    const ORDER_SERVICE: &str = "
        create table outbox (
            id uuid primary key, aggregate_type varchar(255) not null, aggregate_id uuid not null, event_type varchar(255) not null,
            payload text not null, status varchar(50) not null default 'NEW', created_at timestamp not null default now(),
            sent_at timestamp, error_message text);
        create index idx_outbox_status_created on outbox (status, created_at);";

    /// Rows of the outbox that were read for a page, and whether they were sorted.
    async fn page(
        session: &Session,
        sql: &str,
        behind: &(Vec<Option<String>>, String),
        table: &str,
    ) -> (u64, bool) {
        let (leads, entry) = behind;
        let params = [
            (&table as _, Type::TEXT),
            (leads as _, Type::TEXT_ARRAY),
            (entry as _, Type::TEXT),
            (&50_i64 as _, Type::INT8),
        ];
        let explain = format!("explain (analyze, costs off, timing off, summary off) {sql}");
        let plan = session.query(&explain, &params).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let number = |text: &str| -> u64 {
            let digits: String = text.chars().take_while(|c| c.is_ascii_digit()).collect();
            digits.parse().unwrap_or(0)
        };
        let after = |line: &str, word: &str| line.split_once(word).map_or(0, |(_, rest)| number(rest));
        let mut read = 0;
        for (at, line) in plan.iter().enumerate().filter(|(_, line)| line.contains(&format!(" on {table} t")))
        {
            let below = plan[at + 1..].iter().take_while(|line| !line.contains("->"));
            let removed: u64 = below.map(|line| after(line, "Rows Removed by Filter: ")).sum();
            read += after(line, "actual rows=") + removed;
        }
        (read, plan.iter().any(|line| line.contains("Sort Key:")))
    }

    /// F2, D2, C2: rows of one equal due time are all read and sorted with each page, until the index that `check` advises is there:
    /// then a page reads what it shows, wherever it begins.
    #[tokio::test]
    async fn the_index_that_is_advised_spares_the_sort() {
        for (name, tables, columns) in [("logistics", LOGISTICS, 2), ("order-service", ORDER_SERVICE, 1)] {
            let database = postrider_servers::Database::create().await;
            let layout = Layout::built_in(name).unwrap();
            let config = Config::new(&database.url(), layout.clone(), "test").unwrap();
            let session = Session::open(&config, Durable::Now).await.unwrap();
            session.run(tables).await.unwrap();
            crate::migrate(&config).await.unwrap();
            let table = layout.table.as_str();
            session
                .run(&format!(
                    "insert into {table} (id, aggregate_type, aggregate_id, event_type, payload) select gen_random_uuid(), 'A', \
                     gen_random_uuid(), 't', '{{}}' from generate_series(1, {ROWS}); analyze {table}"
                ))
                .await
                .unwrap();
            let compiled = async || {
                let live = Table::read(&session, &layout).await.unwrap().unwrap();
                (ScanSql::new(&Parts::new(&layout, &live, 1_000_000)), is_indexed(&layout, &live))
            };
            let middle = format!(
                "select {}, id::text from {table} order by id offset {} limit 1",
                if columns == 2 { "next_attempt_at::text, occurred_at::text" } else { "created_at::text" },
                ROWS / 2
            );
            let row = session.first(&middle, &[]).await.unwrap().unwrap();
            let middle = ((0..columns).map(|at| row.get(at)).collect(), row.get(columns));
            let (sql, is_ordered) = compiled().await;
            assert!(!is_ordered);
            for sql in [&sql.first, &sql.on] {
                let (read, sorts) = page(&session, sql, &middle, table).await;
                assert!(
                    sorts && read >= ROWS / 2,
                    "{name}: {read} rows of {ROWS} were read, sorted: {sorts}"
                );
            }
            let found = crate::check(&config).await;
            let advice =
                found.iter().find(|finding| finding.fault.problem.contains("in the whole order")).unwrap();
            session.run(&advice.fault.remedy).await.unwrap();
            session.run(&format!("analyze {table}")).await.unwrap();
            let (sql, is_ordered) = compiled().await;
            assert!(is_ordered);
            for sql in [&sql.first, &sql.on] {
                let (read, _) = page(&session, sql, &middle, table).await;
                assert!(read <= 200, "{name}: {read} rows were read for a page of 50");
            }
        }
    }
}
