//! The one thread that does a sink's blocking I/O, so that the relay's never waits for a disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use postrider_core::broken::BrokenKeys;
use postrider_core::clock::{Clock, Instant};
use postrider_core::{Fault, Refusal, Verdict};

use crate::batch::Batch;
use crate::call::{Stage, Work};

/// What the thread is asked to do.
pub(crate) enum Job {
    /// Append a batch.
    Publish { batch: Batch, deadline: Instant, work: Work<Vec<(usize, Verdict)>> },
    /// Say whether it could.
    Probe(Work<Result<(), Fault>>),
    /// Close the file.
    Drain(Work<()>),
}

/// Where lines go.
pub(crate) trait Place: Send + 'static {
    /// Appends whole lines and makes them durable. `go` is asked when nothing but the write is left to do; when it says
    /// no, nothing is written and the lines are withheld.
    fn append(&mut self, lines: &[u8], go: &mut dyn FnMut() -> bool) -> Result<(), Refusal>;

    /// Whether lines could be appended; leaves no trace.
    fn probe(&mut self) -> Result<(), Fault>;

    /// Lets go of what is open.
    fn close(&mut self);
}

/// Starts the thread. It ends when the sender is dropped.
pub(crate) fn start(place: impl Place, clock: Arc<dyn Clock>) -> std::io::Result<Sender<Job>> {
    let (jobs, queue) = channel();
    let mut writer = Writer { place, clock, broken: BrokenKeys::default() };
    std::thread::Builder::new().name("postrider-file".into()).spawn(move || writer.run(&queue))?;
    Ok(jobs)
}

struct Writer<P> {
    place: P,
    clock: Arc<dyn Clock>,
    broken: BrokenKeys,
}

impl<P: Place> Writer<P> {
    fn run(&mut self, queue: &Receiver<Job>) {
        for job in queue {
            match job {
                Job::Publish { batch, deadline, work } => self.publish(batch, deadline, work),
                Job::Probe(work) => drop(work.finish(self.place.probe())),
                Job::Drain(work) => {
                    self.place.close();
                    work.finish(());
                }
            }
        }
    }

    fn publish(&mut self, mut batch: Batch, deadline: Instant, work: Work<Vec<(usize, Verdict)>>) {
        if !work.enter(Stage::Waiting) {
            return batch.in_doubt(&mut self.broken);
        }
        batch.sift(&mut self.broken);
        let mut go = || self.clock.instant() < deadline && work.enter(Stage::Writing);
        let appended =
            if batch.buffer.is_empty() { Ok(()) } else { self.place.append(&batch.buffer, &mut go) };
        let verdicts = batch.verdicts(appended, &mut self.broken);
        if !work.finish(verdicts) {
            batch.in_doubt(&mut self.broken);
        }
    }
}
