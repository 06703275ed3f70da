//! The append inside a transaction, against the same transaction with a hand-written insert and with none.

use std::error::Error;
use std::time::Duration;

use postrider_core::Envelope;
use postrider_sqlite::Outbox as Append;
use rusqlite::{Connection, Transaction};

use super::outbox::Outbox;
use crate::Outcome;
use crate::load::{OrderPlaced, failed};
use crate::measure::{Way, cost, interleave};
use crate::table::Report;

/// One business row and one event per transaction. Commits do not wait for the disk, which would hide everything else.
pub(crate) fn append(transactions: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.table(
        &format!(
            "A transaction of one business row and one event, {transactions} of them, synchronous = normal"
        ),
        "txn",
    );
    let outbox = Outbox::native(0)?;
    let append = Append::new(&outbox.layout).map_err(|fault| failed(&fault))?;
    let event = OrderPlaced::of_measured_size();
    let envelope = event.seal()?;
    let commit = |write: &dyn Fn(&Transaction<'_>) -> Outcome<()>| -> Outcome<_> {
        let mut connection = empty(&outbox)?;
        cost(|| {
            (0..transactions).try_for_each(|_| transact(&mut connection, write))?;
            Ok(Duration::ZERO)
        })
    };
    let without: Way<'_, Box<dyn Error>> = Box::new(|| commit(&|_| Ok(())));
    let by_hand: Way<'_, Box<dyn Error>> = Box::new(|| commit(&|to| insert(to, &envelope)));
    let appended: Way<'_, Box<dyn Error>> =
        Box::new(|| commit(&|to| Ok(append.append(to, &envelope).map(drop)?)));
    let sealed: Way<'_, Box<dyn Error>> =
        Box::new(|| commit(&|to| Ok(append.append(to, &event.seal()?).map(drop)?)));
    let [without, by_hand, appended, sealed] = interleave(runs, [without, by_hand, appended, sealed])?;
    report.line("hand-written insert of the same bytes", transactions, &by_hand, &by_hand, None);
    report.line("append", transactions, &appended, &by_hand, None);
    report.line("append of an event that is serialised for it", transactions, &sealed, &by_hand, None);
    report.line("the transaction without any event", transactions, &without, &by_hand, None);
    Ok(())
}

fn transact(connection: &mut Connection, write: &dyn Fn(&Transaction<'_>) -> Outcome<()>) -> Outcome<()> {
    let transaction = connection.transaction()?;
    transaction
        .prepare_cached("insert into orders (total, customer) values (?1, ?2)")?
        .execute((12, "c-7"))?;
    write(&transaction)?;
    Ok(transaction.commit()?)
}

fn insert(transaction: &Transaction<'_>, envelope: &Envelope) -> Outcome<()> {
    let payload = std::str::from_utf8(&envelope.data)?;
    transaction
        .prepare_cached(
            "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, time, payload) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            &*envelope.id,
            &*envelope.event_type,
            &*envelope.source,
            &*envelope.aggregate_type,
            &*envelope.aggregate_id,
            envelope.time.as_microsecond(),
            payload,
        ))?;
    Ok(())
}

/// Every run starts from the same tables, so that none pays for the rows of another.
fn empty(outbox: &Outbox) -> rusqlite::Result<Connection> {
    let connection = outbox.connect()?;
    connection.execute_batch(
        "create table if not exists orders (id integer primary key, total integer not null, customer text not null); \
         delete from orders; delete from outbox",
    )?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    Ok(connection)
}
