//! Processes by pid: whether they live, and how they are ended.

use std::process::Command;
use std::time::{Duration, Instant};

/// How often one looks, while waiting.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in ticks since the system did.
    pub(crate) started: u64,
}

impl Process {
    /// The living process with this pid.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        started(&line).map(|started| Self { pid, started })
    }

    pub(crate) fn lives(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Asks it to end, and makes it end when it does not.
    pub(crate) fn end(self, signal: &str) -> Result<(), String> {
        for signal in [signal, "KILL"] {
            if self.lives() {
                send(self.pid, signal);
            }
            let start = Instant::now();
            while self.lives() && start.elapsed() < PATIENCE {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        if self.lives() { Err(format!("process {} does not end", self.pid)) } else { Ok(()) }
    }
}

/// The living children of a process.
pub(crate) fn children(parent: u32) -> Vec<Process> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).filter_map(Process::of).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The standard library sends signals to children only, and only one of them.
pub(crate) fn send(pid: u32, signal: &str) {
    // It may have ended by itself since we looked: that is what is wanted.
    let _ = Command::new("sh").args(["-c", &format!("kill -s {signal} {pid} 2>/dev/null")]).status();
}

/// None for a process that has ended and that its parent has not noticed yet.
fn started(line: &str) -> Option<u64> {
    // The name, in brackets, may hold anything.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_read_whatever_the_name() {
        let line = |state| {
            format!("7 (a) b ) {state} 1 2 3 4 -1 5 6 7 8 9 10 11 12 13 20 0 1 0 57045 0 0 184467 0 0 0")
        };
        assert_eq!(started(&line("S")), Some(57_045));
        assert_eq!(started(&line("Z")), None);
    }

    #[test]
    fn a_process_lives_until_it_is_ended() {
        let mut child = Command::new("sleep").arg("300").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.lives());
        assert!(children(std::process::id()).contains(&process));
        assert!(!Process { started: process.started + 1, ..process }.lives());
        process.end("TERM").unwrap();
        assert!(!process.lives());
        child.wait().unwrap();
    }
}
