//! How much memory the real binary takes while it drains a long outbox.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use super::outbox::Outbox;
use crate::Outcome;
use crate::measure::cost;
use crate::peak;
use crate::table::{Report, print};

/// Drains into the null sink and into a file.
pub(crate) fn memory(entries: usize, report: &mut Report) -> Outcome<()> {
    print(&format!("\nPeak memory of `postrider run --until-empty` on SQLite, {entries} pending entries\n"));
    let binary = peak::binary()?;
    let outbox = Outbox::native(entries)?;
    for (name, url) in [("to null:", "null:".to_owned()), ("to a file", file(&outbox))] {
        outbox.rewind()?;
        let mut peak_mb = 0.0;
        let took = cost(|| {
            peak_mb = drain(&binary, &outbox, &url)?;
            Ok::<_, Box<dyn Error>>(Duration::ZERO)
        })?;
        let rate = entries as f64 / took.wall.as_secs_f64();
        report.bounded(name, peak_mb, peak::UNDER_MB, "MB", &format!("{rate:.0} entries/s"));
    }
    Ok(())
}

fn file(outbox: &Outbox) -> String {
    format!("file://{}", outbox.folder().join("events.jsonl").display())
}

fn drain(binary: &Path, outbox: &Outbox, url: &str) -> Outcome<f64> {
    let config = outbox.folder().join("postrider.toml");
    let text = format!(
        "[outbox]\nurl = \"sqlite://{}\"\n[[sink]]\nname = \"events\"\nurl = \"{url}\"\n[retention]\npublished = \"none\"\n",
        outbox.path().display()
    );
    std::fs::write(&config, text)?;
    peak::drain(binary, &config)
}
