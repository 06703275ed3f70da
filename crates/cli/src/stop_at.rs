//! Standing still at a named point, so that tests can kill or outrun the process exactly there. Debug builds only.
//!
//! `POSTRIDER_STOP_AT="point:n"` parks the thread at the n-th passing, for ever; `POSTRIDER_PAUSE_AT="point:n"` stops the
//! whole process until SIGCONT.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::output::note;

static TARGET: OnceLock<Target> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

struct Target {
    point: String,
    passing: u64,
    for_ever: bool,
}

/// Does nothing in a release build, where the points are gone.
pub(crate) fn install() {
    if !cfg!(debug_assertions) {
        return;
    }
    let given = |name| std::env::var(name).ok();
    let stop = given("POSTRIDER_STOP_AT").map(|target| (target, true));
    let Some((target, for_ever)) = stop.or_else(|| given("POSTRIDER_PAUSE_AT").map(|target| (target, false)))
    else {
        return;
    };
    let (point, passing) = target.split_once(':').unwrap_or((&target, "1"));
    if let Ok(passing) = passing.parse() {
        let _ = TARGET.set(Target { point: point.to_owned(), passing, for_ever });
        postrider_core::point::install(pass);
    }
}

fn pass(point: &'static str) {
    let Some(target) = TARGET.get() else { return };
    if point != target.point || PASSED.fetch_add(1, Ordering::SeqCst) + 1 != target.passing {
        return;
    }
    note(&format!("postrider: stopped at {point}"));
    if target.for_ever {
        loop {
            std::thread::park();
        }
    }
    let _ = kill_process(getpid(), Signal::STOP);
}
