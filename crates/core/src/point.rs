//! Named points between the steps, where tests stop a process to kill it. Gone from release builds.

use std::sync::OnceLock;

static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// Every point there is, in the order in which an entry passes them.
pub const POINTS: &[&str] = &[
    "claimed",           // the source handed a claim to the relay
    "planned",           // messages are made, nothing is sent
    "file.locked",       // the file sink holds the lock
    "file.half-written", // half of a batch's bytes are in the file
    "file.written",      // all bytes are written, none is synced
    "file.synced",       // durable, the relay does not know yet
    "kafka.queued",      // messages are in librdkafka's hands, nothing is answered
    "kafka.acked",       // verdicts are there, the relay does not know yet
    "judged",            // verdicts are in, nothing is settled
    "sqlite.settling",   // the settling transaction has written, not committed
    "sqlite.settled",    // committed, the relay does not know yet
    "postgres.settling", // the settling transaction has written, not committed
    "postgres.settled",  // committed, the relay does not know yet
    "mysql.settling",    // the settling transaction has written, not committed
    "mysql.settled",     // committed, the relay does not know yet
    "settled",           // the relay knows
    "released",          // the claim is over
];

/// Installs what happens at a point; only the first call counts.
pub fn install(hook: fn(&'static str)) {
    let _ = HOOK.set(hook);
}

/// Whether anything happens at points: a step may then be taken in two, so that a test can stop in its middle.
#[inline]
#[must_use]
pub fn armed() -> bool {
    cfg!(debug_assertions) && HOOK.get().is_some()
}

/// Passes a point. Costs nothing in a release build.
#[inline]
pub fn pass(name: &'static str) {
    if cfg!(debug_assertions) {
        debug_assert!(POINTS.contains(&name), "unknown point {name}");
        if let Some(hook) = HOOK.get() {
            hook(name);
        }
    }
}
