//! The whole road in one process: a real transaction, the real relay, a real file.

mod latency;
mod paint;
mod proof;
mod shop;
mod summary;
mod tally;
mod view;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_core::Fault;
use postrider_core::clock::{Clock, Instant};
use postrider_core::layout::Layout;
use postrider_core::route::Router;
use postrider_core::sink::Sink;
use postrider_file::{FileConfig, FileSink};
use postrider_relay::{Relay, Settings, Stop, SystemClock};

use crate::commands::run::chance;
use crate::exit::{Code, Failure};
use crate::output::{data, note};
use crate::{outbox, signals};
use shop::{Counter, Shop};
use tally::Tally;
use view::{Frame, View};

/// How long the last events may take to arrive.
const LAST_ARRIVALS: Duration = Duration::from_secs(30);

/// What was asked for.
pub(crate) struct Wish {
    pub(crate) open: Duration,
    pub(crate) rate: u32,
    pub(crate) keep: Option<PathBuf>,
}

/// Runs the demo and proves it.
pub(crate) async fn run(wish: Wish) -> Result<(), Failure> {
    let place = Place::new(wish.keep.clone())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let tally = Arc::new(Tally::new(clock.clone()));
    let relay = relay(place.path(), &clock, &tally).await?;
    let shop = Shop::open(&place.path().join("shop.db")).map_err(failed)?;

    data(&summary::welcome(&wish))?;
    let counter = shop.counter();
    let closing = Arc::new(AtomicBool::new(false));
    let opened = std::thread::spawn({
        let (clock, closing, rate) = (clock.clone(), closing.clone(), wish.rate);
        move || shop.keep_open(rate, &*clock, &closing)
    });
    let stop = Stop::new();
    let watch = async {
        watch(&wish, &*clock, &counter, &tally, &closing).await;
        stop.stop();
    };
    let (relayed, ()) = tokio::join!(relay.run(&stop), watch);
    closing.store(true, Ordering::Release);
    let books = opened.join().map_err(|_| Failure::told(Code::Failed))?.map_err(failed)?;
    relayed.map_err(failed)?;

    let proof = proof::prove(&books, &place.path().join("events.jsonl")).map_err(failed)?;
    data(&summary::summary(&proof, &tally.seen().latencies))?;
    place.farewell();
    if proof.holds() { Ok(()) } else { Err(Failure::told(Code::Failed)) }
}

/// Shows what happens until the shop is closed and everything has arrived, or a signal comes.
async fn watch(wish: &Wish, clock: &dyn Clock, counter: &Counter, tally: &Tally, closing: &AtomicBool) {
    let mut view = View::new();
    let mut rates = Rates::default();
    let start = clock.instant();
    let mut interrupted = std::pin::pin!(signals::first());
    loop {
        tokio::select! {
            () = clock.sleep(view.interval()) => {}
            () = &mut interrupted => closing.store(true, Ordering::Release),
        }
        let elapsed = clock.instant().since(start);
        if elapsed >= wish.open {
            closing.store(true, Ordering::Release);
        }
        let (done, closed) = counter.read();
        let seen = tally.seen();
        let rate = rates.add(clock.instant(), seen.published);
        let arrived = seen.published >= done.committed;
        view.show(&Frame {
            elapsed,
            whole: wish.open,
            orders: done.orders,
            committed: done.committed,
            rolled_back: done.rolled_back,
            seen,
            rate,
        });
        if closed && (arrived || elapsed > wish.open + LAST_ARRIVALS) {
            return;
        }
    }
}

async fn relay(
    directory: &Path,
    clock: &Arc<dyn Clock>,
    tally: &Arc<Tally>,
) -> Result<Relay<outbox::Source>, Failure> {
    let layout = Layout::built_in("native").map_err(failed)?;
    let sink: Arc<dyn Sink> = Arc::new(
        FileSink::open(FileConfig::new(directory.join("events.jsonl")), clock.clone()).map_err(failed)?,
    );
    Ok(Relay {
        router: Arc::new(Router::new(Vec::new(), "file", layout.topic.clone())),
        source: outbox::fresh(&directory.join("shop.db"), layout).await?,
        sinks: vec![("file".into(), sink)],
        settings: Settings::default(),
        clock: clock.clone(),
        chance: chance(),
        observer: tally.clone(),
    })
}

/// Events in the last second.
#[derive(Default)]
struct Rates(VecDeque<(Instant, u64)>);

impl Rates {
    fn add(&mut self, now: Instant, published: u64) -> u64 {
        while self.0.len() > 1 && now.since(self.0[0].0) > Duration::from_millis(1_050) {
            self.0.pop_front();
        }
        self.0.push_back((now, published));
        let (then, before) = self.0[0];
        let seconds = now.since(then).as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rate"
        )]
        let rate =
            if seconds > 0.0 { ((published - before) as f64 / seconds).round() as u64 } else { published };
        rate
    }
}

/// Where the demo's files are: a temporary directory, or one that is kept.
enum Place {
    Passing(tempfile::TempDir),
    Kept(PathBuf),
}

impl Place {
    fn new(keep: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(path) = keep else {
            return tempfile::tempdir().map(Self::Passing).map_err(|error| {
                Failure::failed(
                    "temporary directory",
                    format!("cannot be made: {error}"),
                    "Set TMPDIR, or use --keep DIR",
                )
            });
        };
        std::fs::create_dir(&path).map_err(|error| {
            Failure::usage(
                path.display().to_string(),
                format!("cannot be made: {error}"),
                "Name a directory that is not there yet",
            )
        })?;
        Ok(Self::Kept(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    fn farewell(&self) {
        if let Self::Kept(path) = self {
            note(&format!("Kept in {}: shop.db and events.jsonl.", path.display()));
        }
    }
}

fn failed(fault: Fault) -> Failure {
    Failure::new(Code::Failed, fault)
}
