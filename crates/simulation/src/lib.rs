//! A deterministic world for the relay.
//!
//! The real relay runs on a simulated clock, source and sink; a seed decides everything else: who goes next, what
//! fails, who dies. The checkers then look at what the broker and the outbox hold.

pub mod chance;
pub mod checkers;
pub mod clock;
pub mod evidence;
pub mod executor;
pub mod scenario;
pub mod sink;
pub mod source;
pub mod witness;
pub mod world;
pub mod writers;
