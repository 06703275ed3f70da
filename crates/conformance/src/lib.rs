//! One suite per trait, run over every adapter.

pub mod clock;
pub mod lock;
pub mod log;
pub mod sink;
pub mod source;
pub mod store;
