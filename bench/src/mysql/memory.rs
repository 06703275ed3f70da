//! How much memory the real binary takes while it drains a long outbox.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use super::Scale;
use super::outbox::{Kind, Outbox};
use super::server::Server;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;
use crate::measure::cost;
use crate::peak;
use crate::table::{Report, print};

/// Drains into the null sink, in each way.
pub(crate) fn memory(server: &Server, scale: &Scale, report: &mut Report) -> Outcome<()> {
    let Scale { retained_entries: retained, backlog_entries: pending, .. } = *scale;
    print(&format!(
        "\nPeak memory of `postrider run --until-empty` on MariaDB, {pending} entries behind {retained} published ones\n"
    ));
    let binary = peak::binary()?;
    let folder = tempfile::tempdir()?;
    for kind in Kind::ALL {
        let outbox = Outbox::create(server, kind)?;
        outbox.fill(retained, pending, |_| Ok(()))?;
        let config = folder.path().join("postrider.toml");
        std::fs::write(folder.path().join("layout.toml"), kind.layout_text())?;
        std::fs::write(&config, text(&outbox))?;
        let (peak_mb, wall) = drain(&binary, &config)?;
        let rate = pending as f64 / wall.as_secs_f64();
        report.bounded(kind.name(), peak_mb, peak::UNDER_MB, "MB", &format!("{rate:.0} entries/s"));
    }
    Ok(())
}

fn drain(binary: &Path, config: &Path) -> Outcome<(f64, Duration)> {
    let mut peak_mb = 0.0;
    let took = cost(|| {
        peak_mb = peak::drain(binary, config)?;
        Ok::<_, Box<dyn Error>>(Duration::ZERO)
    })?;
    Ok((peak_mb, took.wall))
}

fn text(outbox: &Outbox<'_>) -> String {
    format!(
        "[outbox]\nurl = \"{}\"\nlayout = \"./layout.toml\"\n[[sink]]\nname = \"null\"\nurl = \"null:\"\n\
         [relay]\nbatch_entries = {BATCH_ENTRIES}\n[retention]\npublished = \"none\"\n",
        outbox.url()
    )
}
