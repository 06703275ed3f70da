//! The file sink: one CloudEvents structured JSON object per line, to a file that rotates by size or to stdout.
//!
//! A batch is one append under a file lock, and a receipt means that it is synced. Several relays may share a file: whoever
//! next holds the lock cuts what another left torn, and notices when the file was rotated away.

mod batch;
mod call;
pub mod config;
#[doc(hidden)]
pub mod disk;
mod encode;
mod journal;
pub mod null;
mod probe;
mod refusal;
mod rotate;
pub mod sink;
mod stdout;
mod tail;
mod writer;

pub use config::FileConfig;
pub use null::NullSink;
pub use sink::FileSink;
