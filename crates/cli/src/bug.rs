//! A panic is a bug of ours, and is said so; nobody is shown a backtrace.

use std::panic;

use crate::output::note;

/// From here on a panic in any thread ends the process with code 1: a half-dead relay would hold its lease.
pub(crate) fn install() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        // The panic's own text may quote what it choked on: the place is enough to find it.
        note(&format!(
            "error: postrider {} at {place}: this is a bug in postrider, and nothing that you did wrong. No committed \
             event is lost: start it again. Please report this line with the command that led to it.",
            env!("CARGO_PKG_VERSION")
        ));
        std::process::exit(1);
    }));
}
