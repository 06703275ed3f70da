//! End to end, through the real binary.

mod bad_input;
mod crash;
mod demo;
mod newcomer;
mod operator;
mod outage;
mod secrets;
mod shop;
mod stop;
mod two_relays;
mod world;
