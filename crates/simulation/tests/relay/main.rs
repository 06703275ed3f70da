//! What a relay does, one behaviour at a time: the real relay on simulated time.

mod lost;
mod order;
mod outages;
mod stage;
mod stopping;
mod teams;
mod tending;
