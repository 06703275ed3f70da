//! The sink itself: encodes, hands the batch to the writer's thread, and waits for its answer.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Clock, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::{Fault, Refusal, Verdict, limits};

use crate::call::{Stage, Work, call};
use crate::config::FileConfig;
use crate::disk::{Disk, RealDisk};
use crate::journal::Journal;
use crate::stdout::Stream;
use crate::writer::{self, Job, Place};
use crate::{encode, refusal};

/// One CloudEvent per line, to a file or to stdout.
pub struct FileSink {
    place: String,
    payload_bytes_max: usize,
    clock: Arc<dyn Clock>,
    jobs: Sender<Job>,
}

impl FileSink {
    /// A sink that appends to a file. The file is opened when the first batch comes.
    ///
    /// # Errors
    /// When the settings cannot work or the machine has no thread left.
    pub fn open(config: FileConfig, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        Self::open_on(config, clock, Box::new(RealDisk))
    }

    /// The same on a disk that fails when a test says so.
    #[doc(hidden)]
    pub fn open_on(config: FileConfig, clock: Arc<dyn Clock>, disk: Box<dyn Disk>) -> Result<Self, Fault> {
        config.check()?;
        let (place, payload_bytes_max) = (refusal::file(&config.path), config.payload_bytes_max);
        Self::start(place, payload_bytes_max, Journal::new(config, disk), clock)
    }

    /// A sink that writes to stdout.
    ///
    /// # Errors
    /// When the machine has no thread left.
    pub fn stdout(payload_bytes_max: usize, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        Self::start("stdout".to_owned(), payload_bytes_max, Stream::new(io::stdout()), clock)
    }

    pub(crate) fn start(
        place: String,
        payload_bytes_max: usize,
        lines: impl Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Fault> {
        let jobs = writer::start(lines, clock.clone()).map_err(|error| {
            Fault::new(&place, "no thread can be started for it", "Raise the limit on processes.")
                .caused_by(error)
        })?;
        Ok(Self { place, payload_bytes_max, clock, jobs })
    }

    /// Asks the thread; how far it came when there was no answer in time.
    async fn ask<T>(&self, within: Duration, job: impl FnOnce(Work<T>) -> Job) -> Result<T, Stage> {
        let (call, work) = call();
        // A thread that is gone drops the job, which answers it.
        let _ = self.jobs.send(job(work));
        call.answer(self.clock.sleep(within)).await
    }

    fn unanswered(&self, stage: Stage) -> Refusal {
        let place = &self.place;
        match stage {
            Stage::Queued => Refusal::Withheld,
            Stage::Waiting => refusal::away(format!(
                "{place}: it was not free before the deadline. Look for a stopped process that holds its lock"
            )),
            Stage::Gone => {
                refusal::away(format!("{place}: its thread has ended. Restart the relay and report this"))
            }
            Stage::Writing => refusal::silent(format!("{place}: the write was not done before the deadline")),
        }
    }
}

impl Sink for FileSink {
    fn features(&self) -> SinkFeatures {
        SinkFeatures {
            ordered_stream: true,
            batch_entries_max: limits::BATCH_ENTRIES_MAX,
            calls_max: limits::PUBLISHES_OPEN_MAX,
        }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if messages.is_empty() {
                return;
            }
            let now = self.clock.instant();
            let batch = if now < deadline {
                encode::encode(messages, permit, self.payload_bytes_max)
            } else {
                encode::withhold(messages)
            };
            let answer = self
                .ask(deadline.since(now), |work| Job::Publish { batch, deadline, work })
                .await
                .unwrap_or_else(|stage| {
                    let verdict = Verdict::Refusal(self.unanswered(stage));
                    (0..messages.len()).map(|index| (index, verdict.clone())).collect()
                });
            verdicts.hand(answer);
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.ask(limits::PUBLISH_DEADLINE, Job::Probe).await.unwrap_or_else(|_| {
                Err(Fault::new(
                    &self.place,
                    "it does not answer",
                    "Look for a stopped process that holds its lock, and at the disk.",
                ))
            })
        })
    }

    fn drain(&self, within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Whatever is still queued has a caller of its own that waits for it, so there is nobody to tell.
            let _ = self.ask(within, Job::Drain).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::future::join;
    use postrider_conformance::clock::ManualClock;
    use postrider_conformance::sink::envelope;

    use super::*;

    struct All;

    impl Permit for All {
        fn ask(&self, _index: usize) -> bool {
            true
        }
    }

    #[derive(Default)]
    struct Gathered(Mutex<Vec<(usize, Verdict)>>);

    impl Verdicts for Gathered {
        fn hand(&self, chunk: Vec<(usize, Verdict)>) {
            self.0.lock().unwrap().extend(chunk);
        }
    }

    /// Says when somebody waits for the lock.
    #[derive(Clone, Default)]
    struct Watched(Arc<AtomicBool>);

    impl Disk for Watched {
        fn lock(&self, file: &File) -> io::Result<()> {
            self.0.store(true, Ordering::SeqCst);
            file.lock()
        }
    }

    /// SNK-07: a stopped process that holds the lock is an outage of the file, and nothing is written behind the relay's
    /// back when it goes on.
    #[tokio::test]
    async fn a_lock_that_is_not_free_before_the_deadline_is_busy_and_nothing_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let (clock, watched) = (ManualClock::default(), Watched::default());
        let disk = Box::new(watched.clone());
        let sink = FileSink::open_on(FileConfig::new(&path), Arc::new(clock.clone()), disk).unwrap();
        let stopped = File::create(&path).unwrap();
        stopped.lock().unwrap();
        let (envelope, gathered) = (envelope("1", "a"), Gathered::default());
        let messages = [Message { envelope: &envelope, topic: "letters", key: None, leads: true }];
        let time = async {
            while !watched.0.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
            clock.advance(Duration::from_secs(1));
        };
        let deadline = clock.instant() + Duration::from_secs(1);
        let both = join(sink.publish(&messages, deadline, &All, &gathered), time);
        tokio::time::timeout(Duration::from_secs(60), both).await.expect("it asks for the lock");
        let verdicts = std::mem::take(&mut *gathered.0.lock().unwrap());
        assert!(matches!(&verdicts[..], [(0, Verdict::Refusal(Refusal::Busy { .. }))]), "{verdicts:?}");
        stopped.unlock().unwrap();
        sink.drain(Duration::from_secs(30)).await;
        assert_eq!(fs::read(&path).unwrap(), b"");
        let deadline = clock.instant() + Duration::from_secs(1);
        sink.publish(&messages, deadline, &All, &gathered).await;
        assert_eq!(*gathered.0.lock().unwrap(), [(0, Verdict::Receipt)]);
    }

    #[tokio::test]
    async fn a_probe_answers_for_the_thread_too() {
        let clock = Arc::new(ManualClock::default());
        let sink = FileSink::open(FileConfig::new("/nowhere/at/all"), clock).unwrap();
        let fault = sink.probe().await.unwrap_err();
        assert!(fault.to_string().contains("/nowhere/at"), "{fault}");
    }
}
