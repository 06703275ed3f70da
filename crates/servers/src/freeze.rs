//! Processes that stand still.

use crate::{process, wait};

/// SIGSTOP, and waits until it stands.
pub(crate) fn freeze(pid: u32) {
    process::send(pid, "STOP");
    wait::until("the server stands still", || state(pid) == Some('T'));
}

/// SIGCONT, and waits until it goes on.
pub(crate) fn thaw(pid: u32) {
    process::send(pid, "CONT");
    wait::until("the server goes on", || state(pid) != Some('T'));
}

fn state(pid: u32) -> Option<char> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.chars().next()
}
