//! `postgres://user@host/database?sslmode=verify-full&sslrootcert=/ca.pem`: what stands in the URL is the adapter's matter.

use super::{holder, start};
use crate::config::Config;
use crate::exit::Failure;
use crate::layout;

/// The adapter's settings.
pub(super) fn config(config: &Config) -> Result<postrider_postgres::Config, Failure> {
    let layout = layout::load(config)?;
    let url = config.outbox.url.reveal();
    let mut postgres = postrider_postgres::Config::new(url, layout, holder()).map_err(|fault| {
        Failure::usage(
            &config.outbox.place,
            format!("[outbox] url \"{}\": {}", config.outbox.url, fault.problem),
            fault.remedy,
        )
    })?;
    postgres.lease_ttl = config.outbox.lease_ttl;
    postgres.payload_bytes_max = config.outbox.payload_bytes_max;
    postgres.start = start(config);
    Ok(postgres)
}
