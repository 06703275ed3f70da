//! Status tables as teams have them, filled by plain SQL, in one and in several relays' hands.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/mod.rs"]
mod common;

mod flaws;
mod heads;
mod kinds;
mod large;
mod locks;
mod logistics;
mod marks;
mod order_service;
mod refusals;
mod restart;
mod several;
#[path = "../cursor/wait.rs"]
mod wait;
mod worst;
mod writers;
mod zones;

/// An id that counts.
fn uuid(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

fn retried(retries: u32, after_ms: u64) -> postrider_core::Settlement {
    postrider_core::Settlement::Retried {
        retries,
        after: std::time::Duration::from_millis(after_ms),
        reason: postrider_core::verdict::Reason::new("the broker said no"),
    }
}

fn dead(retries: u32) -> postrider_core::Settlement {
    postrider_core::Settlement::Dead {
        retries,
        reason: postrider_core::verdict::Reason::new("the broker said no for the last time"),
    }
}
