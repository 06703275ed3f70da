//! What the relay is told: the configuration over the layout's own defaults.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::layout::Layout;
use postrider_core::route::Router;
use postrider_core::{breaker, retry};
use postrider_relay::{Poll, Settings};

use crate::config::Config;
use crate::config::file::{self, Keep};

/// How the relay runs.
pub(crate) fn settings(config: &Config, layout: &Layout) -> Settings {
    let (relay, default) = (&config.relay, Settings::of(layout));
    Settings {
        batch_entries: relay.batch_entries.map_or(default.batch_entries, |entries| entries as usize),
        in_flight_bytes: relay.in_flight_bytes.unwrap_or(default.in_flight_bytes),
        publish_deadline: relay.publish_deadline.unwrap_or(default.publish_deadline),
        poll: relay.poll.map_or(default.poll, poll),
        retry: retry::Policy {
            retries_max: config.retry.retries_max.unwrap_or(default.retry.retries_max),
            backoff: config.retry.backoff.clone().unwrap_or(default.retry.backoff),
        },
        breaker: breaker(&config.breaker),
        stop_timeout: relay.stop_timeout.unwrap_or(default.stop_timeout),
        ..default
    }
}

/// Which event goes where.
pub(crate) fn router(config: &Config, layout: &Layout) -> Arc<Router> {
    let first = config.sinks.first().map_or_else(Default::default, |sink| sink.name.clone());
    Arc::new(layout.router(config.routes.iter().map(|known| known.route.clone()).collect(), first))
}

/// How long published entries are kept; none means for ever.
pub(crate) fn retention(config: &Config, layout: &Layout) -> Option<Duration> {
    match config.retention.published {
        Some(Keep::Forever) => None,
        Some(Keep::For(span)) => Some(span),
        None => layout.retention,
    }
}

fn poll(given: file::Poll) -> Poll {
    match given {
        file::Poll::Every(span) => Poll::Every(span),
        file::Poll::Adaptive { busy, idle } => Poll::Adaptive { busy, idle },
    }
}

fn breaker(given: &file::Breaker) -> breaker::Settings {
    let default = breaker::Settings::default();
    let window_calls = given.window_calls.map_or(default.window_calls, |calls| calls as usize);
    breaker::Settings {
        window_calls,
        // A window that is shorter than the calls it needs would never open.
        calls_min: given.calls_min.map_or(default.calls_min, |calls| calls as usize).min(window_calls),
        failure_share: given.failure_share.unwrap_or(default.failure_share),
        open: given.open.unwrap_or(default.open),
        trials: given.trials.unwrap_or(default.trials),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::Surroundings;

    fn settings_of(text: &str) -> Settings {
        let config = Config::parse("x", text, &Surroundings).unwrap();
        settings(&config, &Layout::built_in(&config.outbox.layout).unwrap())
    }

    #[test]
    fn the_layouts_defaults_hold_until_the_config_says_otherwise() {
        let settings = settings_of("[outbox]\nlayout = \"order-service\"");
        assert_eq!(settings.poll, Poll::Every(Duration::from_secs(5)));
        assert_eq!((settings.batch_entries, settings.retry.retries_max), (10, 5));

        let settings = settings_of(
            "[outbox]\nlayout = \"order-service\"\n[relay]\npoll = \"50ms\"\nbatch_entries = 7\n\
             [retry]\nretries_max = 2\n[breaker]\nwindow_calls = 3",
        );
        assert_eq!(settings.poll, Poll::Every(Duration::from_millis(50)));
        assert_eq!((settings.batch_entries, settings.retry.retries_max), (7, 2));
        assert_eq!(
            settings.retry.backoff.wait(1, 0.0),
            Duration::from_millis(100),
            "the layout's waits stay"
        );
        assert_eq!(settings.breaker.calls_min, 3);
    }

    #[test]
    fn retention_is_the_layouts_unless_given() {
        let keep = |text: &str| {
            let config = Config::parse("x", text, &Surroundings).unwrap();
            retention(&config, &Layout::built_in("native").unwrap())
        };
        assert_eq!(keep(""), Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(keep("[retention]\npublished = \"1d\""), Some(Duration::from_secs(86_400)));
        assert_eq!(keep("[retention]\npublished = \"none\""), None);
    }
}
