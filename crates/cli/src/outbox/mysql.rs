//! `mysql://user@host/database?sslmode=verify-full`, or `mariadb://`: what stands in the URL is the adapter's matter.

use super::{holder, start};
use crate::config::Config;
use crate::exit::Failure;
use crate::layout;

/// The adapter's settings.
pub(super) fn config(config: &Config) -> Result<postrider_mysql::Config, Failure> {
    let layout = layout::load(config)?;
    let url = config.outbox.url.reveal();
    let refused = |problem: String, remedy: String| Failure::usage(&config.outbox.place, problem, remedy);
    let mut mysql = postrider_mysql::Config::new(url, layout, holder()).map_err(|fault| {
        refused(format!("[outbox] url \"{}\": {}", config.outbox.url, fault.problem), fault.remedy)
    })?;
    if let Some(start) = start(config) {
        start
            .fits(&mysql.layout, &config.outbox.place)
            .map_err(|fault| refused(fault.problem, fault.remedy))?;
    }
    mysql.lease_ttl = config.outbox.lease_ttl;
    mysql.payload_bytes_max = config.outbox.payload_bytes_max;
    mysql.start = start(config);
    Ok(mysql)
}
