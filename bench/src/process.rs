//! What the kernel tells of a process.

use std::time::Duration;

/// The kernel counts CPU time in hundredths of a second here, whatever its own clock.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Places among the numbers behind a process's name and state (proc_pid_stat(5) counts them from one, those two included).
const FIRST: usize = 4;
pub(crate) const PARENT: usize = 0;
const USER: usize = 14 - FIRST;
const CHILDREN_USER: usize = 16 - FIRST;

/// CPU time of all threads of a process.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    ticks(&stat(pid)?, USER)
}

/// CPU time of the children of a process that have ended.
pub(crate) fn ended(pid: u32) -> Option<Duration> {
    ticks(&stat(pid)?, CHILDREN_USER)
}

/// That of the user and, right behind it, of the system.
fn ticks(stat: &[u64], user: usize) -> Option<Duration> {
    Some(TICK * u32::try_from(stat.get(user)? + stat.get(user + 1)?).ok()?)
}

pub(crate) fn stat(pid: u32) -> Option<Vec<u64>> {
    numbers(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A name may hold spaces and brackets. What is negative reads as zero: nothing that is asked for is.
fn numbers(stat: &str) -> Option<Vec<u64>> {
    let (_, behind) = stat.rsplit_once(')')?;
    Some(behind.split_whitespace().skip(1).map(|number| number.parse().unwrap_or(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_its_parent_and_what_it_and_its_children_took() {
        let stat = numbers("77 (a) b) S 42 77 77 0 -1 1 2 3 4 5 600 700 80 90 20 0 1 0 5\n").unwrap();
        assert_eq!(stat[PARENT], 42);
        assert_eq!(ticks(&stat, USER), Some(TICK * 1300));
        assert_eq!(ticks(&stat, CHILDREN_USER), Some(TICK * 170));
    }
}
