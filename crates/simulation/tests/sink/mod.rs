//! What the suite needs around the simulated sink, and the worst that can befall it.

mod storm;
pub(crate) mod time;
