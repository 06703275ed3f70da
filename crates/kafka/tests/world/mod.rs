//! A Kafka of this test binary's own, with a way in for each test, and a clock that is quick.

mod clock;
mod place;
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod wait;

pub(crate) use clock::QuickClock;
pub(crate) use place::Place;
pub(crate) use wait::block_on;
