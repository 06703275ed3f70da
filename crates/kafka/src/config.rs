//! What can be set of a Kafka sink.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::layout::{Data, MessageForm, Order};
use postrider_core::{Fault, Layout, limits};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use crate::call::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX};
use crate::client::{Client, Context, Inbox};
use crate::properties;
use crate::reports::BATCH_BYTES;

const BATCH_SIZE: &str = "batch.size";

/// Where the cluster is, what messages look like, and librdkafka's properties.
///
/// ```
/// use postrider_kafka::KafkaConfig;
/// let config = KafkaConfig::from_url("kafka://broker-1:9092,broker-2:9092")?;
/// assert_eq!(config.brokers, "broker-1:9092,broker-2:9092");
/// # Ok::<(), postrider_core::Fault>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port`, with commas between: whichever answers names the others.
    pub brokers: String,
    /// librdkafka's properties, on top of our own. What would break receipts or order is refused.
    pub properties: BTreeMap<String, String>,
    /// What a message looks like.
    pub form: MessageForm,
    /// A longer payload is rejected.
    pub payload_bytes_max: usize,
    /// An event without data has no value at all, as Debezium's outbox router has it, instead of an empty one.
    pub tombstones: bool,
    /// Each key of a topic stays in order; without it the properties that order needs can be set.
    pub order_kept: bool,
    /// How long a publish call waits, at most: no time-out is longer.
    pub publish_deadline: Duration,
}

impl KafkaConfig {
    /// The defaults for these brokers.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            properties: BTreeMap::new(),
            form: MessageForm::default(),
            payload_bytes_max: limits::PAYLOAD_BYTES,
            tombstones: false,
            order_kept: true,
            publish_deadline: limits::PUBLISH_DEADLINE,
        }
    }

    /// The defaults for `kafka://host:9092,host2:9092`.
    ///
    /// # Errors
    /// When it is no such URL.
    pub fn from_url(url: &str) -> Result<Self, Fault> {
        let fault = |problem: &str, remedy: &str| Fault::new("sink url of Kafka", problem, remedy);
        const WRITE: &str = "Write kafka://host:9092, with commas between several brokers.";
        let brokers = url.strip_prefix("kafka://").map(|rest| rest.trim_end_matches('/'));
        let Some(brokers) = brokers else { return Err(fault("it does not begin with kafka://", WRITE)) };
        if brokers.contains('@') {
            return Err(fault(
                "it holds credentials",
                "Set sasl.username and sasl.password in [sink.properties].",
            ));
        }
        if brokers.contains(['/', '?', '#']) {
            return Err(fault("it has a path or a query", WRITE));
        }
        if brokers.split(',').any(|broker| broker.trim().is_empty()) {
            return Err(fault("it names no broker", WRITE));
        }
        // librdkafka would take the port by its last 16 bits.
        if let Some(broker) = brokers.split(',').find(|broker| !port_fits(broker.trim())) {
            return Err(fault(
                &format!("\"{broker}\" has a port that is none"),
                "Write host:9092, with a port from 1 to 65535.",
            ));
        }
        Ok(Self::new(brokers))
    }

    /// What a layout says of its messages, their order and its producer.
    #[must_use]
    pub fn with_layout(mut self, layout: &Layout) -> Self {
        self.properties.extend(layout.kafka.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.form = layout.message.clone();
        self.tombstones = layout.data == Data::Optional;
        self.order_kept = layout.order == Order::Key;
        self
    }

    /// Whether a Kafka sink can work like this.
    ///
    /// # Errors
    /// What cannot be, and what to write instead.
    pub fn check(&self) -> Result<(), Fault> {
        if self.payload_bytes_max == 0 || self.payload_bytes_max > limits::PAYLOAD_BYTES_MAX {
            let most = limits::PAYLOAD_BYTES_MAX;
            return Err(Fault::new(
                self.place(),
                format!("payload_bytes_max is {}", self.payload_bytes_max),
                format!("Set it to 1 to {most} bytes."),
            ));
        }
        self.properties.iter().try_for_each(|(name, value)| self.check_property(name, value))
    }

    /// Whether one of librdkafka's properties can be set like this (B11).
    ///
    /// # Errors
    /// Why not, and what to do instead.
    pub fn check_property(&self, name: &str, value: &str) -> Result<(), Fault> {
        properties::check(name, value, self.order_kept, self.publish_deadline)?;
        properties::check_value(name, value)
    }

    /// How people call it.
    pub(crate) fn place(&self) -> String {
        format!("kafka {}", self.brokers)
    }

    /// A producer: `alone` when each message travels in a request of its own.
    pub(crate) fn client(
        &self,
        inbox: Arc<Inbox>,
        alone: bool,
        batch_bytes: Option<usize>,
    ) -> Result<Client, Fault> {
        let mut settings = self.settings();
        if alone {
            settings.insert("batch.num.messages".to_owned(), "1".to_owned());
        }
        if let Some(bytes) = batch_bytes {
            settings.insert(BATCH_SIZE.to_owned(), bytes.min(self.batch_bytes()).to_string());
        }
        let mut config: ClientConfig = settings.into_iter().collect();
        config.set_log_level(RDKafkaLogLevel::Info);
        config.create_with_context(Context(inbox)).map_err(|error| self.refused(&error))
    }

    /// How large a batch becomes.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.property(BATCH_SIZE).and_then(|bytes| bytes.parse().ok()).unwrap_or(BATCH_BYTES)
    }

    /// Whether batches are compressed: a record's own size then says little of what it takes.
    pub(crate) fn compresses(&self) -> bool {
        self.property("compression.type").is_some_and(|codec| codec != "none")
    }

    fn property(&self, name: &str) -> Option<&str> {
        let mut set = self.properties.iter();
        set.find(|(given, _)| properties::canonical(given) == name).map(|(_, value)| &**value)
    }

    /// Everything that librdkafka is told.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        const KB: usize = 1024;
        // A payload grows when it is put into JSON, and there are headers.
        let message_bytes = self.payload_bytes_max / 3 * 4 + 128 * KB;
        // Our own limit comes first; a report that is being taken in still counts there.
        let queue_kb = 2 * (IN_FLIGHT_BYTES_MAX + message_bytes) / KB;
        let wait_ms = (self.publish_deadline / 3).as_millis().clamp(1_000, 10_000).to_string();
        let fixed = [
            ("bootstrap.servers", self.brokers.clone()),
            ("client.id", "postrider".to_owned()),
            ("acks", "all".to_owned()),
            ("partitioner", "murmur2_random".to_owned()),
            ("linger.ms", "0".to_owned()),
            ("queue.buffering.max.messages", (2 * IN_FLIGHT_MAX).to_string()),
            ("queue.buffering.max.kbytes", queue_kb.to_string()),
            ("message.max.bytes", message_bytes.to_string()),
            ("request.timeout.ms", wait_ms.clone()),
            ("socket.timeout.ms", wait_ms.clone()),
            ("socket.connection.setup.timeout.ms", wait_ms),
            ("socket.keepalive.enable", "true".to_owned()),
            ("reconnect.backoff.max.ms", "1000".to_owned()),
            ("topic.metadata.propagation.max.ms", "5000".to_owned()),
            ("enable.metrics.push", "false".to_owned()),
            // Nothing of ours is given up by librdkafka: the relay's deadline decides, and purges.
            ("message.timeout.ms", "0".to_owned()),
            ("enable.idempotence", "true".to_owned()),
            ("enable.gapless.guarantee", "true".to_owned()),
            ("max.in.flight.requests.per.connection", "5".to_owned()),
        ];
        let mut settings: BTreeMap<String, String> =
            fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in &self.properties {
            let name = properties::canonical(name);
            // Without idempotence there is no such guarantee.
            if name == "enable.idempotence" && value == "false" {
                settings.remove("enable.gapless.guarantee");
            }
            settings.insert(name.to_owned(), value.clone());
        }
        settings
    }

    pub(crate) fn refused(&self, error: &KafkaError) -> Fault {
        const REMEDY: &str = "Correct the sink's properties.";
        match error {
            KafkaError::ClientConfig(_, _, name, _) if properties::is_secret(name) => Fault::new(
                self.place(),
                format!("property \"{name}\" has a value that cannot be used"),
                REMEDY,
            ),
            KafkaError::ClientConfig(_, said, name, _) => {
                Fault::new(self.place(), format!("property \"{name}\": {said}"), REMEDY)
            }
            KafkaError::ClientCreation(said) => Fault::new(self.place(), said, REMEDY),
            error => Fault::new(self.place(), error.to_string(), REMEDY),
        }
    }
}

/// Whether `host:port` has a port that can be, or none.
fn port_fits(broker: &str) -> bool {
    let Some((host, port)) = broker.rsplit_once(':') else { return true };
    // An IPv6 address has colons of its own.
    let is_address = port.ends_with(']') || (host.contains(':') && !host.ends_with(']'));
    is_address || port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Values may be secrets, so only the names are shown.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("properties", &self.properties.keys())
            .field("form", &self.form)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .field("tombstones", &self.tombstones)
            .field("order_kept", &self.order_kept)
            .field("publish_deadline", &self.publish_deadline)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(properties: &[(&str, &str)]) -> KafkaConfig {
        let mut config = KafkaConfig::new("127.0.0.1:1");
        config.properties =
            properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        config
    }

    fn open(config: &KafkaConfig) -> Result<(), Fault> {
        config.check()?;
        config.client(Arc::new(Inbox::default()), false, None).map(drop)
    }

    #[test]
    fn a_url_names_one_broker_or_several() {
        let brokers = |url| KafkaConfig::from_url(url).map(|config| config.brokers);
        assert_eq!(brokers("kafka://a:9092").unwrap(), "a:9092");
        assert_eq!(brokers("kafka://a:9092,[::1]:9093/").unwrap(), "a:9092,[::1]:9093");
        for bad in ["kafka://", "kafka:/a", "a:9092", "kafka://a,,b", "kafka://a/topic", "kafka://a?acks=1"] {
            assert!(brokers(bad).unwrap_err().to_string().contains("kafka://host"), "{bad}");
        }
    }

    /// F5: a port is one; librdkafka would connect to another.
    #[test]
    fn a_port_that_is_none_is_refused() {
        for bad in
            ["kafka://a:99999", "kafka://a:0", "kafka://a:9092,b:x", "kafka://[::1]:70000", "kafka://a:"]
        {
            let fault = KafkaConfig::from_url(bad).expect_err(bad).to_string();
            assert!(fault.contains("port"), "{fault}");
        }
        for fine in ["kafka://a", "kafka://[::1]", "kafka://[::1]:9092", "kafka://a:65535, b:1"] {
            assert!(KafkaConfig::from_url(fine).is_ok(), "{fine}");
        }
    }

    /// F6: a password in a URL is refused and not shown.
    #[test]
    fn credentials_do_not_belong_into_the_url() {
        let fault = KafkaConfig::from_url("kafka://me:hunter2@a:9092").unwrap_err().to_string();
        assert!(fault.contains("sasl.password") && !fault.contains("hunter2"), "{fault}");
    }

    /// B11: what a sink is, without a setting of the user's.
    #[test]
    fn the_producer_waits_for_all_and_keeps_order() {
        let settings = KafkaConfig::new("a:9092").settings();
        for (name, value) in [
            ("acks", "all"),
            ("enable.idempotence", "true"),
            ("enable.gapless.guarantee", "true"),
            ("message.timeout.ms", "0"),
            ("max.in.flight.requests.per.connection", "5"),
            ("linger.ms", "0"),
            ("partitioner", "murmur2_random"),
        ] {
            assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(settings.get("retries"), None, "unlimited by librdkafka's own default");
        assert_eq!(settings["request.timeout.ms"], "10000");
    }

    /// B11: what librdkafka itself makes of the Commerce layout's sink, its own defaults included.
    #[test]
    fn b11_librdkafka_holds_what_commerce_asks_for() {
        let commerce = KafkaConfig::new("a:9092").with_layout(&Layout::built_in("commerce").unwrap());
        let config: ClientConfig = commerce.settings().into_iter().collect();
        let held = config.create_native_config().unwrap();
        for (name, value) in [
            ("request.required.acks", "-1"),
            ("enable.idempotence", "true"),
            ("enable.gapless.guarantee", "true"),
            ("retries", "2147483647"),
            ("retry.backoff.ms", "1000"),
            ("max.in.flight", "5"),
            ("linger.ms", "5"),
            ("message.timeout.ms", "0"),
            ("request.timeout.ms", "10000"),
            ("socket.timeout.ms", "10000"),
            ("queuing.strategy", "fifo"),
        ] {
            assert_eq!(held.get(name).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn librdkafka_takes_what_it_is_told() {
        open(&KafkaConfig::new("127.0.0.1:1")).unwrap();
        open(&KafkaConfig { payload_bytes_max: limits::PAYLOAD_BYTES_MAX, ..with(&[]) }).unwrap();
        open(&with(&[
            ("queue.buffering.max.ms", "5"),
            ("retry.backoff.ms", "1000"),
            ("compression.codec", "zstd"),
        ]))
        .unwrap();
        let free = KafkaConfig { order_kept: false, ..with(&[("enable.idempotence", "false")]) };
        open(&free).unwrap();
        let config = KafkaConfig::new("127.0.0.1:1");
        config.client(Arc::new(Inbox::default()), true, Some(4_096)).unwrap();
    }

    /// An alias takes the place of the default that it stands for.
    #[test]
    fn an_alias_is_its_property() {
        let settings = with(&[("queue.buffering.max.ms", "7")]).settings();
        assert_eq!(settings["linger.ms"], "7");
        assert!(!settings.contains_key("queue.buffering.max.ms"));
    }

    /// F6: neither a value that librdkafka refuses nor `Debug` shows a secret.
    #[test]
    fn no_secret_is_shown() {
        let config =
            with(&[("security.protocol", "ssl"), ("ssl.key.pem", "hunter2"), ("sasl.password", "hunter2")]);
        let fault = open(&config).unwrap_err().to_string();
        assert!(!fault.contains("hunter2"), "{fault}");
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    /// F5: a value that cannot be is refused when the sink is opened, by name.
    #[test]
    fn a_value_that_librdkafka_refuses_is_named() {
        let fault = open(&with(&[("compression.type", "brotli")])).unwrap_err().to_string();
        assert!(fault.contains("compression.type") && fault.contains("Correct"), "{fault}");
    }
}
