//! What is wrong with a broker's certificate: of another name and of an unknown authority librdkafka says the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};

use crate::config::KafkaConfig;

/// How often and for how long a handshake is waited for: on a network that works it takes milliseconds.
const LOOKS_MAX: usize = 20;
const LOOK: Duration = Duration::from_millis(100);
/// How long is listened for what was said meanwhile.
const HEARING: Duration = Duration::from_millis(5);

/// What cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It is vouched for, under another name than the one that was asked for.
    Name,
    /// Nobody who is trusted vouches for it as it is now.
    Authority {
        /// Whether the sink says whom to trust.
        is_set: bool,
    },
}

/// Whether this is said of a certificate that cannot be verified.
pub(crate) fn is_doubted(text: &str) -> bool {
    text.contains("certificate verify failed")
}

impl KafkaConfig {
    /// Shakes hands once more, whatever the name; blocks. None where that says nothing. Nobody logs in: whoever answers need
    /// not be who it should be.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let settings = self.handshake();
        let is_set = settings.keys().any(|name| name.starts_with("ssl.ca."));
        let seen = Arc::new(Seen::default());
        let mut config: ClientConfig = settings.into_iter().collect();
        config.set_log_level(RDKafkaLogLevel::Debug);
        let client: BaseProducer<Onlooker> = config.create_with_context(Onlooker(Arc::clone(&seen))).ok()?;
        for _ in 0..LOOKS_MAX {
            let answered = client.client().fetch_metadata(None, LOOK).is_ok();
            client.poll(HEARING);
            if answered || seen.verified.load(Ordering::SeqCst) {
                return Some(Doubt::Name);
            }
            if seen.doubted.load(Ordering::SeqCst) {
                return Some(Doubt::Authority { is_set });
            }
        }
        None
    }

    /// The settings of a client that only shakes hands.
    fn handshake(&self) -> BTreeMap<String, String> {
        let kept = |name: &str| name.starts_with("ssl.") || name.starts_with("bootstrap.");
        let mut settings = self.settings();
        settings.retain(|name, _| kept(name));
        let others = [
            ("security.protocol", "ssl"),
            ("ssl.endpoint.identification.algorithm", "none"),
            ("debug", "security"),
        ];
        settings.extend(others.map(|(name, value)| (name.to_owned(), value.to_owned())));
        settings
    }
}

#[derive(Default)]
struct Seen {
    verified: AtomicBool,
    doubted: AtomicBool,
}

/// Hears what becomes of the handshake, which librdkafka tells to its log alone.
struct Onlooker(Arc<Seen>);

impl ClientContext for Onlooker {
    fn log(&self, _level: RDKafkaLogLevel, fac: &str, text: &str) {
        if fac == "SSLVERIFY" {
            self.0.verified.store(true, Ordering::SeqCst);
        } else if is_doubted(text) {
            self.0.doubted.store(true, Ordering::SeqCst);
        }
    }

    fn error(&self, _error: KafkaError, reason: &str) {
        if is_doubted(reason) {
            self.0.doubted.store(true, Ordering::SeqCst);
        }
    }
}

impl ProducerContext for Onlooker {
    type DeliveryOpaque = ();

    fn delivery(&self, _result: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F6: whoever is at the other end is not known, and hears no password.
    #[test]
    fn a_handshake_brings_no_login() {
        let mut config = KafkaConfig::new("a:9093");
        for (name, value) in [
            ("security.protocol", "sasl_ssl"),
            ("sasl.username", "relay"),
            ("sasl.password", "hunter2"),
            ("sasl.mechanism", "PLAIN"),
            ("ssl.ca.location", "ca.pem"),
        ] {
            config.properties.insert(name.to_owned(), value.to_owned());
        }
        let settings = config.handshake();
        let names: Vec<&str> = settings.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "bootstrap.servers",
                "debug",
                "security.protocol",
                "ssl.ca.location",
                "ssl.endpoint.identification.algorithm"
            ]
        );
        assert_eq!(settings["security.protocol"], "ssl");
    }
}
