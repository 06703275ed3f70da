//! The whole road in one process: a real transaction, the real relay, a real file.

mod latency;
mod order;
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
use postrider_core::sink::Sink;
use postrider_file::{FileConfig, FileSink};
use postrider_relay::{Relay, Settings, Stop};

use crate::commands::{SharedClock, run::chance};
use crate::exit::{Code, Failure};
use crate::output::{data, note};
use crate::{outbox, signals};
use shop::{Counter, Shop};
use tally::Tally;
use view::{Frame, View};

/// How often the demo looks at itself.
const TICK: Duration = Duration::from_millis(50);
/// How long the last events may take to arrive.
const LAST_ARRIVALS: Duration = Duration::from_secs(30);

/// What was asked for.
pub(crate) struct Wish {
    pub(crate) open: Duration,
    pub(crate) rate: u32,
    pub(crate) keep: Option<PathBuf>,
}

/// Runs the demo and proves it.
pub(crate) async fn run(wish: Wish, clock: &SharedClock) -> Result<(), Failure> {
    let place = Place::new(wish.keep.clone())?;
    let tally = Arc::new(Tally::new(clock.clone()));
    let relay = relay(place.path(), clock, &tally)?;
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
        watch(&wish, &**clock, &counter, &tally, &closing).await;
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
    let (mut view, mut rates) = (View::new(), Rates::default());
    let start = clock.instant();
    let mut shown = start;
    let mut interrupted = std::pin::pin!(signals::first());
    loop {
        tokio::select! {
            () = clock.sleep(TICK) => {}
            () = &mut interrupted, if !closing.load(Ordering::Acquire) => closing.store(true, Ordering::Release),
        }
        let now = clock.instant();
        let elapsed = now.since(start);
        if elapsed >= wish.open {
            closing.store(true, Ordering::Release);
        }
        let (done, closed) = counter.read();
        let seen = tally.seen();
        let over = closed && (seen.published >= done.committed || elapsed > wish.open + LAST_ARRIVALS);
        let rate = rates.add(now, seen.published);
        if over || now.since(shown) >= view.interval() {
            shown = now;
            view.show(&Frame { elapsed, whole: wish.open, done, seen, rate });
        }
        if over {
            return;
        }
    }
}

fn relay(
    directory: &Path,
    clock: &SharedClock,
    tally: &Arc<Tally>,
) -> Result<Relay<outbox::Source>, Failure> {
    let layout = Layout::built_in("native").map_err(failed)?;
    let sink: Arc<dyn Sink> = Arc::new(
        FileSink::open(FileConfig::new(directory.join("events.jsonl")), clock.clone()).map_err(failed)?,
    );
    Ok(Relay {
        router: Arc::new(layout.router(Vec::new(), "file")),
        source: outbox::fresh(&directory.join("shop.db"), layout, clock).map_err(failed)?,
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
