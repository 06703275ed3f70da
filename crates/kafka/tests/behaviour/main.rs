//! The Kafka sink on real brokers that are frozen, killed, cut off and refuse.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../world/clock.rs"]
mod clock;
mod company;
mod compressed;
mod fatal;
mod faults;
mod frozen;
mod grow;
mod letters;
mod load;
mod naive;
mod order;
mod refused;
mod rights;
#[path = "../world/wait.rs"]
mod wait;
