//! How much memory the real binary takes while it drains into Kafka, librdkafka's queue included.

use super::Scale;
use super::broker::Broker;
use crate::Outcome;
use crate::load::BATCH_ENTRIES;
use crate::peak;
use crate::postgres::outbox::{Kind, Outbox};
use crate::postgres::server::Server;
use crate::table::{Report, print};

pub(crate) fn memory(server: &Server, broker: &Broker, scale: &Scale, report: &mut Report) -> Outcome<()> {
    print("\nPeak memory of `postrider run --until-empty`, PostgreSQL → Kafka\n");
    let (binary, folder) = (peak::binary()?, tempfile::tempdir()?);
    for kind in Kind::ALL {
        let rows = if kind == Kind::Native { scale.cursor_rows } else { scale.status_rows };
        let (outbox, topic) = (Outbox::create(server, kind)?, broker.topic());
        outbox.fill(0, rows, |_| Ok(()))?;
        let config = folder.path().join("postrider.toml");
        std::fs::write(&config, text(&outbox, broker, &topic))?;
        let peak_mb = peak::drain(&binary, &config)?;
        report.bounded(kind.name(), peak_mb, peak::UNDER_MB, "MB", &format!("{rows} entries"));
        broker.forget(&topic)?;
    }
    Ok(())
}

fn text(outbox: &Outbox<'_>, broker: &Broker, topic: &str) -> String {
    format!(
        "[outbox]\nurl = \"{}\"\nlayout = \"{}\"\n[[sink]]\nname = \"kafka\"\nurl = \"kafka://{}\"\n\
         [[route]]\ntopic = \"{topic}\"\n[relay]\nbatch_entries = {BATCH_ENTRIES}\n[retention]\npublished = \"none\"\n",
        outbox.url(),
        outbox.kind.layout(),
        broker.address()
    )
}
