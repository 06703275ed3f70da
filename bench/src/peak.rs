//! How much memory the real binary takes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Outcome;

/// What the issues ask of a million pending entries.
pub(crate) const UNDER_MB: f64 = 64.0;
/// The peak never falls, so that a look now and then does.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Builds the binary beside this one, as a release.
pub(crate) fn binary() -> Outcome<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--release", "--quiet", "--package", "postrider-cli"]).status()?;
    if !built.success() {
        return Err("the binary does not build".into());
    }
    let binary = std::env::current_exe()?.with_file_name("postrider");
    if binary.exists() { Ok(binary) } else { Err(format!("there is no {}", binary.display()).into()) }
}

/// Runs the relay until the outbox is empty; its peak in megabytes.
pub(crate) fn drain(binary: &Path, config: &Path) -> Outcome<f64> {
    let child = Command::new(binary)
        .args(["run", "--until-empty", "-c"])
        .arg(config)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    watch(child)
}

/// Waits for the end of a process; its peak in megabytes.
fn watch(mut child: Child) -> Outcome<f64> {
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_kb = 0.0;
    loop {
        if let Some(kb) = std::fs::read_to_string(&status).ok().as_deref().and_then(peak) {
            peak_kb = kb;
        }
        if let Some(ended) = child.try_wait()? {
            return if ended.success() {
                Ok(peak_kb / 1024.0)
            } else {
                Err(format!("the relay ended with {ended}").into())
            };
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn peak(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_what_the_kernel_says() {
        assert_eq!(peak("VmPeak:\t  9000 kB\nVmHWM:\t  4321 kB\nVmRSS:\t  12 kB\n"), Some(4321.0));
        assert_eq!(peak("State:\tZ (zombie)\n"), None);
    }
}
