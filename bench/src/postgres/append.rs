//! The append inside a transaction, against the same transaction with a hand-written insert and with none.

use std::error::Error;

use postrider_core::Envelope;
use postrider_postgres::{Outbox as Append, Prepared};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement, ToStatement, Transaction};

use super::link::connect;
use super::outbox::{Kind, Outbox, runtime};
use super::server::Server;
use crate::Outcome;
use crate::load::{OrderPlaced, failed};
use crate::measure::{Cost, Way, interleave};
use crate::table::Report;

/// What the issue asks of the append.
const AT_LEAST: f64 = 0.95;
const BY_HAND: &str = "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, time, payload) \
     values ($1, $2, $3, $4, $5, $6, $7)";

/// How the event comes to be in the transaction.
enum Written {
    Not,
    /// As one writes it first: the driver prepares it each time.
    ByHand,
    /// In one round trip, as the append is that nobody prepared.
    ByHandTyped,
    ByHandPrepared(Statement),
    Appended(Append),
    AppendedPrepared(Prepared),
}

/// One business row and one event per transaction. Commits do not wait for the disk, which would hide everything else.
pub(crate) fn append(server: &Server, transactions: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.server_table(
        &format!(
            "A transaction of one business row and one event, {transactions} of them, synchronous_commit = off"
        ),
        "txn",
    );
    let outbox = Outbox::create(server, Kind::Native)?;
    outbox.query("create table orders (id bigint generated always as identity primary key, total int not null, customer text not null)");
    let envelope = OrderPlaced::of_measured_size().seal()?;
    let way = |name: &'static str| -> Way<'_, Box<dyn Error>> {
        let (outbox, envelope) = (&outbox, &envelope);
        Box::new(move || commit(outbox, name, envelope, transactions))
    };
    let names = ["prepared", "append prepared", "by hand", "append", "typed", "nothing"];
    let [prepared, append_prepared, by_hand, append, typed, nothing] = interleave(runs, names.map(way))?;
    report.line("hand-written insert, prepared", transactions, &prepared, &prepared, None);
    report.line("append, prepared", transactions, &append_prepared, &prepared, Some(AT_LEAST));
    report.line("hand-written insert, not prepared", transactions, &by_hand, &prepared, None);
    report.line("append, not prepared, against that", transactions, &append, &by_hand, Some(AT_LEAST));
    report.line("hand-written insert in one round trip", transactions, &typed, &prepared, None);
    report.line("append, not prepared, against that", transactions, &append, &typed, None);
    report.line("the transaction without any event", transactions, &nothing, &prepared, None);
    Ok(())
}

/// Every run starts from the same tables, so that none pays for the rows of another.
fn commit(outbox: &Outbox<'_>, name: &str, envelope: &Envelope, transactions: usize) -> Outcome<Cost> {
    outbox.query("truncate orders, outbox restart identity");
    outbox.query("checkpoint");
    let runtime = runtime()?;
    let (mut client, order, written) = runtime.block_on(async {
        let client = connect(&outbox.url()).await?;
        let order = client.prepare("insert into orders (total, customer) values ($1, $2)").await?;
        let append = Append::new(&outbox.layout).map_err(|fault| failed(&fault))?;
        let written = match name {
            "prepared" => Written::ByHandPrepared(client.prepare(BY_HAND).await?),
            "append prepared" => Written::AppendedPrepared(append.prepare(&client).await?),
            "by hand" => Written::ByHand,
            "typed" => Written::ByHandTyped,
            "append" => Written::Appended(append),
            _ => Written::Not,
        };
        Ok::<_, Box<dyn Error>>((client, order, written))
    })?;
    outbox.server.cost(|| {
        runtime.block_on(async {
            for _ in 0..transactions {
                transact(&mut client, &order, &written, envelope).await?;
            }
            Ok(())
        })
    })
}

async fn transact(
    client: &mut Client,
    order: &Statement,
    written: &Written,
    envelope: &Envelope,
) -> Outcome<()> {
    let transaction = client.transaction().await?;
    transaction.execute(order, &[&12i32, &"c-7"]).await?;
    match written {
        Written::Not => {}
        Written::ByHand => insert(&transaction, BY_HAND, envelope).await?,
        Written::ByHandTyped => insert_typed(&transaction, envelope).await?,
        Written::ByHandPrepared(statement) => insert(&transaction, statement, envelope).await?,
        Written::Appended(append) => append.append(&transaction, envelope).await.map(drop)?,
        Written::AppendedPrepared(prepared) => prepared.append(&transaction, envelope).await.map(drop)?,
    }
    Ok(transaction.commit().await?)
}

async fn insert<S>(to: &Transaction<'_>, statement: &S, envelope: &Envelope) -> Outcome<()>
where
    S: ?Sized + ToStatement + Sync,
{
    let (texts, time, payload) =
        (texts(envelope), envelope.time.as_microsecond(), str::from_utf8(&envelope.data)?);
    let [id, kind, source, aggregate_type, aggregate_id] = &texts;
    to.execute(statement, &[id, kind, source, aggregate_type, aggregate_id, &time, &payload]).await?;
    Ok(())
}

async fn insert_typed(to: &Transaction<'_>, envelope: &Envelope) -> Outcome<()> {
    let (texts, time, payload) =
        (texts(envelope), envelope.time.as_microsecond(), str::from_utf8(&envelope.data)?);
    let texts = texts.iter().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT));
    let others: [(&(dyn ToSql + Sync), Type); 2] = [(&time, Type::INT8), (&payload, Type::TEXT)];
    to.execute_typed(BY_HAND, &texts.chain(others).collect::<Vec<_>>()).await?;
    Ok(())
}

fn texts(envelope: &Envelope) -> [&str; 5] {
    let Envelope { id, event_type, source, aggregate_type, aggregate_id, .. } = envelope;
    [id, event_type, source, aggregate_type, aggregate_id]
}
