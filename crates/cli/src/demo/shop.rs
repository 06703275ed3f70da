//! A small shop: writes orders and their events in transactions of its own, as any application would.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_core::layout::Layout;
use postrider_core::{Draft, Fault};
use postrider_sqlite::{AppendError, Outbox};
use rusqlite::{Connection, TransactionBehavior, params};

use super::order::{customer, event, total_cents};
use super::proof::Books;

/// One transaction in so many is rolled back: a card is declined after everything was written.
const DECLINED_ONE_IN: usize = 12;
/// One order in so many is created, paid and shipped in one transaction.
const EXPRESS_ONE_IN: usize = 10;
/// Orders that are under way at once.
const OPEN_ORDERS_MAX: usize = 40;
/// An order's events: created, paid, shipped.
const STEPS: u32 = 3;
/// How long the shop naps between two looks at what is due.
const NAP: Duration = Duration::from_millis(2);

const TABLES: &str = "
    create table orders (id integer primary key, customer text not null, total_cents integer not null, status text not null);
    create table order_steps (order_id integer not null, step integer not null, event_id text not null);
";

/// The shop and its own connection to the database.
pub(crate) struct Shop {
    connection: Connection,
    outbox: Outbox,
    rng: fastrand::Rng,
    /// Orders under way, with the step that comes next.
    open: Vec<(i64, u32)>,
    orders: i64,
    rolled_back: HashSet<String>,
    counter: Counter,
}

/// What the shop has done so far, to be read while it is open.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<(Done, bool)>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) orders: u64,
    /// Events in transactions that were committed.
    pub(crate) committed: u64,
    /// Events in transactions that were rolled back.
    pub(crate) rolled_back: u64,
}

impl Counter {
    /// What is done, and whether the shop is closed.
    pub(crate) fn read(&self) -> (Done, bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Done, &mut bool)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, closed) = &mut *state;
        change(done, closed);
    }
}

impl Shop {
    /// Opens the shop on a database that has an outbox already.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let outbox = Outbox::new(&Layout::built_in("native")?)?;
        let connect = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.execute_batch("pragma synchronous = normal")?;
            connection.execute_batch(TABLES)?;
            Ok(connection)
        };
        Ok(Self {
            connection: connect().map_err(fault)?,
            outbox,
            rng: fastrand::Rng::new(),
            open: Vec::new(),
            orders: 0,
            rolled_back: HashSet::new(),
            counter: Counter::default(),
        })
    }

    pub(crate) fn counter(&self) -> Counter {
        self.counter.clone()
    }

    /// Serves until it is to close, at so many events per second; hands its books over.
    pub(crate) fn keep_open(
        mut self,
        rate: u32,
        clock: &dyn Clock,
        closing: &AtomicBool,
    ) -> Result<Books, Fault> {
        let (counter, start) = (self.counter.clone(), clock.instant());
        let served = self.serve(rate, closing, || clock.instant().since(start), clock);
        // Whoever waits for the shop must not wait for one that failed.
        counter.change(|_, closed| *closed = true);
        served.and_then(|()| self.books().map_err(fault))
    }

    fn serve(
        &mut self,
        rate: u32,
        closing: &AtomicBool,
        open_for: impl Fn() -> Duration,
        clock: &dyn Clock,
    ) -> Result<(), Fault> {
        while !closing.load(Ordering::Acquire) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of events")]
            let due = (open_for().as_secs_f64() * f64::from(rate)) as u64;
            let (done, _) = self.counter.read();
            if done.committed + done.rolled_back < due {
                self.transact(clock)?;
            } else {
                std::thread::park_timeout(NAP);
            }
        }
        Ok(())
    }

    /// One transaction: the order's own rows and its events, together or not at all.
    fn transact(&mut self, clock: &dyn Clock) -> Result<(), Fault> {
        let (order, steps, place) = self.choose();
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
        let mut ids = Vec::new();
        for step in steps.clone() {
            let event = event(order, step);
            let mut chance = [0; 10];
            self.rng.fill(&mut chance);
            let envelope = Draft::new(&event, "/demo/shop").seal(clock.now(), chance)?;
            write(&transaction, order, step, &envelope.id).map_err(fault)?;
            self.outbox.append(&transaction, &envelope).map_err(refused)?;
            ids.push(envelope.id.to_string());
        }
        let events = ids.len() as u64;
        if self.rng.usize(..DECLINED_ONE_IN) == 0 {
            transaction.rollback().map_err(fault)?;
            self.rolled_back.extend(ids);
            self.counter.change(|done, _| done.rolled_back += events);
            return Ok(());
        }
        transaction.commit().map_err(fault)?;
        match place {
            Some(place) if steps.end == STEPS => _ = self.open.swap_remove(place),
            Some(place) => self.open[place].1 = steps.end,
            None => {
                self.orders = order;
                if steps.end < STEPS {
                    self.open.push((order, steps.end));
                }
            }
        }
        let orders = self.orders.unsigned_abs();
        self.counter.change(|done, _| {
            done.orders = orders;
            done.committed += events;
        });
        Ok(())
    }

    /// Which order, which steps of it, and where it stands among the open ones.
    fn choose(&mut self) -> (i64, std::ops::Range<u32>, Option<usize>) {
        let full = self.open.len() >= OPEN_ORDERS_MAX;
        if self.open.is_empty() || (!full && self.rng.usize(..3) == 0) {
            let steps = if self.rng.usize(..EXPRESS_ONE_IN) == 0 { 0..STEPS } else { 0..1 };
            return (self.orders + 1, steps, None);
        }
        let place = self.rng.usize(..self.open.len());
        let (order, step) = self.open[place];
        (order, step..step + 1, Some(place))
    }

    fn books(&self) -> rusqlite::Result<Books> {
        let mut statement = self.connection.prepare("select event_id, order_id, step from order_steps")?;
        let steps = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        Ok(Books {
            committed: steps.collect::<rusqlite::Result<_>>()?,
            rolled_back: self.rolled_back.clone(),
        })
    }
}

/// The shop's own rows.
fn write(connection: &Connection, order: i64, step: u32, event_id: &str) -> rusqlite::Result<()> {
    if step == 0 {
        let sql = "insert into orders (id, customer, total_cents, status) values (?1, ?2, ?3, 'created')";
        connection.prepare_cached(sql)?.execute(params![order, customer(order), total_cents(order)])?;
    } else {
        let status = if step == 1 { "paid" } else { "shipped" };
        connection
            .prepare_cached("update orders set status = ?2 where id = ?1")?
            .execute(params![order, status])?;
    }
    let sql = "insert into order_steps (order_id, step, event_id) values (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![order, step, event_id])?;
    Ok(())
}

fn refused(error: AppendError<rusqlite::Error>) -> Fault {
    match error {
        AppendError::Refused(fault) => fault,
        AppendError::Database(error) => fault(error),
    }
}

fn fault(error: rusqlite::Error) -> Fault {
    Fault::new("the demo's database", "a statement failed", "Look at the disk that TMPDIR is on")
        .caused_by(error)
}
