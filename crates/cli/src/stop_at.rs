//! `POSTRIDER_STOP_AT="point:n"`: stands still at the n-th passing of a point, so that tests can kill the process there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::output::note;

static TARGET: OnceLock<(String, u64)> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Does nothing in a release build, where the points are gone.
pub(crate) fn install() {
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(target) = std::env::var("POSTRIDER_STOP_AT") else { return };
    let (point, count) = target.split_once(':').unwrap_or((&target, "1"));
    if let Ok(count) = count.parse() {
        let _ = TARGET.set((point.to_owned(), count));
        postrider_core::point::install(pass);
    }
}

fn pass(point: &'static str) {
    let Some((target, count)) = TARGET.get() else { return };
    if point == target && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count {
        note(&format!("postrider: stopped at {point}"));
        loop {
            std::thread::park();
        }
    }
}
