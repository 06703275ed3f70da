//! The engine between an outbox and its brokers: wake, claim, plan, publish, judge, settle.
//!
//! [`Relay::run`] is one future that spawns nothing: dropping it is a crash, and the simulation polls it on a clock of its own.

mod breakers;
mod builder;
mod claim;
mod claims;
mod end;
mod engine;
mod judge;
mod keys;
mod lanes;
mod observe;
mod pace;
mod publish;
mod received;
mod relay;
mod settings;
mod settle;
mod stop;
mod system;
mod tend;
mod wake;

pub use builder::Builder;
pub use observe::{Observer, Quiet, Step};
pub use relay::{Chance, Ended, Relay, Summary};
pub use settings::{Poll, Settings};
pub use stop::Stop;
pub use system::SystemClock;
pub use tend::{Chore, Tend};
