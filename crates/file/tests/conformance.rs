//! The Sink suite over the file sink, on a disk that fails when it is told to.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod place;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use place::{Disks, ROTATE_BYTES, lines};
use postrider_conformance::clock::ManualClock;
use postrider_conformance::sink::{SinkHarness, Stored, Trouble};
use postrider_core::clock::Clock;
use postrider_core::cloudevents::structured;
use postrider_file::{FileConfig, FileSink};

postrider_conformance::sink_suite!(block_on, Harness::new());

fn block_on<T>(future: impl Future<Output = T>) -> T {
    const PATIENCE: Duration = Duration::from_secs(60);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, future).await.expect("a case ends within a minute")
    })
}

struct Harness {
    dir: tempfile::TempDir,
    clock: ManualClock,
    disks: Disks,
}

impl Harness {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), clock: ManualClock::default(), disks: Disks::default() }
    }
}

impl SinkHarness for Harness {
    type Sink = FileSink;

    async fn open(&self) -> FileSink {
        let mut config = FileConfig::new(self.dir.path().join("events.jsonl"));
        config.rotate_bytes = ROTATE_BYTES;
        config.payload_bytes_max = self.payload_bytes_max();
        FileSink::open_on(config, Arc::new(self.clock.clone()), Box::new(self.disks.clone())).unwrap()
    }

    async fn stored(&self) -> Vec<Stored> {
        lines(self.dir.path()).into_iter().map(stored).collect()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn payload_bytes_max(&self) -> usize {
        10_000
    }

    fn trouble(&self, trouble: Trouble) -> bool {
        self.disks.set(Some(trouble));
        true
    }

    async fn struck(&self) {
        while !self.disks.is_stalled() {
            tokio::task::yield_now().await;
        }
    }

    fn mend(&self) {
        self.disks.set(None);
    }
}

fn stored(line: Vec<u8>) -> Stored {
    let event = structured::decode(&Bytes::from(line.clone())).expect("every line is a CloudEvent");
    Stored { id: event.id.to_string(), key: Some(event.aggregate_id.to_string()), bytes: line }
}
