//! How much memory the real binary takes while it drains a long outbox.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::measure::cost;
use crate::outbox::Outbox;
use crate::table::{Report, print};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the issue asks of a million pending entries.
const UNDER_MB: f64 = 64.0;
/// The peak never falls, so that a look now and then does.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Drains into the null sink and into a file.
pub(crate) fn memory(entries: usize, report: &mut Report) -> Outcome<()> {
    print(&format!("\nPeak memory of `postrider run --until-empty`, {entries} pending entries\n"));
    let binary = binary()?;
    let outbox = Outbox::native(entries)?;
    for (name, url) in [("to null:", "null:".to_owned()), ("to a file", file(&outbox))] {
        outbox.rewind()?;
        let mut peak_mb = 0.0;
        let took = cost(|| {
            peak_mb = drain(&binary, &outbox, &url)?;
            Ok::<_, Box<dyn Error>>(Duration::ZERO)
        })?;
        let rate = entries as f64 / took.wall.as_secs_f64();
        report.bounded(name, peak_mb, UNDER_MB, "MB", &format!("{rate:.0} entries/s"));
    }
    Ok(())
}

fn file(outbox: &Outbox) -> String {
    format!("file://{}", outbox.folder().join("events.jsonl").display())
}

/// Builds the binary beside this one, as a release.
fn binary() -> Outcome<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--release", "--quiet", "--package", "postrider-cli"]).status()?;
    if !built.success() {
        return Err("the binary does not build".into());
    }
    let binary = std::env::current_exe()?.with_file_name("postrider");
    if binary.exists() { Ok(binary) } else { Err(format!("there is no {}", binary.display()).into()) }
}

fn drain(binary: &PathBuf, outbox: &Outbox, url: &str) -> Outcome<f64> {
    let config = outbox.folder().join("postrider.toml");
    let text = format!(
        "[outbox]\nurl = \"sqlite://{}\"\n[[sink]]\nname = \"events\"\nurl = \"{url}\"\n[retention]\npublished = \"none\"\n",
        outbox.path().display()
    );
    std::fs::write(&config, text)?;
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
