//! The words of Postrider and every decision it takes.
//!
//! Nothing here does I/O, knows a runtime or reads a clock: time and chance are arguments. The engine
//! (`postrider-relay`) and every adapter build on these types; see ARCHITECTURE.md for the map.

pub mod append;
pub mod breaker;
pub mod broken;
pub mod clock;
pub mod cloudevents;
mod convention;
pub mod cursor;
pub mod entry;
pub mod envelope;
pub mod event;
pub mod fault;
pub mod finding;
pub mod gaps;
pub mod judge;
pub mod key;
pub mod layout;
pub mod limits;
pub mod lock;
pub mod name;
pub mod nearest;
pub mod plan;
pub mod point;
pub mod report;
pub mod retry;
pub mod route;
pub mod rows;
pub mod settlement;
pub mod sink;
pub mod source;
pub mod span;
pub mod start;
pub mod status;
pub mod store;
pub mod text;
pub mod validate;
pub mod verdict;

pub use entry::{Entry, EntryId, State};
pub use envelope::Envelope;
pub use event::{Draft, Event};
pub use fault::Fault;
pub use key::Key;
pub use layout::Layout;
pub use name::Names;
pub use settlement::Settlement;
pub use start::Start;
pub use text::Text;
pub use verdict::{Refusal, Verdict};
