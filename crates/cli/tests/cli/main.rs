//! End to end, through the real binary.

#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion, in its helpers too")]

mod adoption;
mod bad_input;
mod crash;
mod crash_server;
mod demo;
mod newcomer;
mod operator;
mod outage;
mod postgres;
mod secrets;
mod shop;
mod status;
mod stop;
mod two_relays;
mod wait;
mod world;
