//! Which of librdkafka's properties a user may set: all but those that would break receipts or order (B11).

use std::time::Duration;

use postrider_core::Fault;
use postrider_core::nearest::nearest;
use postrider_core::span::TimeSpan;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Every property that librdkafka's producer has, from its CONFIGURATION.md.
const NAMES: &str = include_str!("names.txt");

/// Other names of the same property.
const ALIASES: &[(&str, &str)] = &[
    ("metadata.broker.list", "bootstrap.servers"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("message.send.max.retries", "retries"),
    ("compression.codec", "compression.type"),
    ("request.required.acks", "acks"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("sasl.mechanisms", "sasl.mechanism"),
];

/// What a property is to us.
enum Guard {
    /// Receipts need it: never another value than these.
    Receipts(&'static [&'static str], &'static str),
    /// Order needs it: no other value where order is kept.
    Order(fn(&str) -> bool, &'static str),
    /// No longer than a publish call waits.
    Wait,
    /// Waited before anything is sent: it leaves time for the answer.
    Linger,
    /// Set elsewhere, or not at all.
    Ours(&'static str),
}

const TRUE: fn(&str) -> bool = |value| matches!(value, "true" | "t" | "1");

#[rustfmt::skip]
const GUARDS: &[(&str, Guard)] = &[
    ("acks", Guard::Receipts(&["all", "-1"], "a receipt is the word of all replicas in sync")),
    ("delivery.report.only.error", Guard::Receipts(&["false", "f", "0"], "a receipt is a delivery report")),
    ("enable.idempotence", Guard::Order(TRUE, "without it a message that is sent again lands behind its successors")),
    ("enable.gapless.guarantee", Guard::Order(TRUE, "without it a message that is refused lets its successors pass")),
    ("max.in.flight.requests.per.connection", Guard::Order(|value| value.parse().is_ok_and(|n: u32| (1..=5).contains(&n)),
        "with more than 5 requests in flight the broker cannot tell what is missing; set 1 to 5")),
    ("retries", Guard::Order(|value| value == "2147483647", "retries that are used up let successors overtake")),
    ("message.timeout.ms", Guard::Order(|value| value == "0", "a message that times out lets its successors overtake; the publish deadline ends the wait instead")),
    ("queuing.strategy", Guard::Order(|value| value == "fifo", "the last message would go first")),
    ("partitioner", Guard::Order(|value| value == "murmur2_random", "the sink picks the partition as Java's murmur2 does, so that keys keep their places")),
    ("linger.ms", Guard::Linger),
    ("request.timeout.ms", Guard::Wait),
    ("socket.timeout.ms", Guard::Wait),
    ("socket.connection.setup.timeout.ms", Guard::Wait),
    ("bootstrap.servers", Guard::Ours("the sink's url names the brokers")),
    ("transactional.id", Guard::Ours("the sink does not use transactions")),
    ("transaction.timeout.ms", Guard::Ours("the sink does not use transactions")),
    ("queue.buffering.max.messages", Guard::Ours("the sink bounds its memory itself, and a smaller queue would stall it")),
    ("queue.buffering.max.kbytes", Guard::Ours("the sink bounds its memory itself, and a smaller queue would stall it")),
    ("queue.buffering.backpressure.threshold", Guard::Ours("the sink bounds its memory itself")),
    ("batch.num.messages", Guard::Ours("the sink sets it to find the message that a broker refuses; use batch.size")),
    ("produce.offset.report", Guard::Ours("nobody reads the offsets")),
    ("log.queue", Guard::Ours("librdkafka's log goes into ours")),
    ("plugin.library.paths", Guard::Ours("plugins cannot be loaded")),
    ("internal.termination.signal", Guard::Ours("signals are the relay's")),
];

/// The property that a name stands for: its own, that of an alias, or the one behind a `topic.` prefix.
pub(crate) fn canonical(name: &str) -> &str {
    let name = match name.strip_prefix("topic.") {
        Some(rest) if !is_known(name) => rest,
        _ => name,
    };
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// Whether a value must not be shown.
pub(crate) fn is_secret(name: &str) -> bool {
    ["password", "secret", "passphrase", ".pem", "oauthbearer.config", "kinit.cmd"]
        .iter()
        .any(|part| canonical(name).contains(part))
}

/// Whether a user may set a property like this.
pub(crate) fn check(name: &str, value: &str, order_kept: bool, deadline: Duration) -> Result<(), Fault> {
    let known = canonical(name);
    let place = format!("Kafka property \"{name}\"");
    let refuse = |problem: String, remedy: String| Err(Fault::new(&place, problem, remedy));
    if known.starts_with("test.mock.") {
        return refuse("it is for librdkafka's own tests".to_owned(), "Remove it.".to_owned());
    }
    if known.ends_with("_cb")
        || ["opaque", "default_topic_conf", "enabled_events", "interceptors"].contains(&known)
    {
        return refuse("it is for programs, not for files".to_owned(), "Remove it.".to_owned());
    }
    if !is_known(known) {
        let remedy = match nearest(known, NAMES.lines()) {
            Some(near) => format!("Did you mean \"{near}\"?"),
            None => "librdkafka's CONFIGURATION.md lists what there is.".to_owned(),
        };
        return refuse("a producer has no such property".to_owned(), remedy);
    }
    let Some((_, guard)) = GUARDS.iter().find(|(guarded, _)| *guarded == known) else { return Ok(()) };
    match guard {
        Guard::Receipts(values, _) if values.contains(&value) => Ok(()),
        Guard::Receipts(values, why) => refuse(
            format!("\"{value}\" would break receipts: {why}"),
            format!("Remove it, or set \"{}\".", values[0]),
        ),
        Guard::Order(fits, _) if !order_kept || fits(value) => Ok(()),
        Guard::Order(_, why) => refuse(
            format!("\"{value}\" would break the order of keys: {why}"),
            "Remove it, or declare order = \"none\" where events may overtake each other.".to_owned(),
        ),
        Guard::Wait => match value.parse().map(Duration::from_millis) {
            Ok(wait) if wait <= deadline => Ok(()),
            _ => refuse(
                format!("\"{value}\" is no time-out within the publish deadline"),
                format!("Remove it, or set at most {} milliseconds.", deadline.as_millis()),
            ),
        },
        Guard::Linger => match value.parse::<f64>() {
            Ok(wait) if wait > (deadline / 2).as_millis() as f64 => refuse(
                format!(
                    "\"{value}\" milliseconds leave no time for an answer: what is unanswered after publish_deadline = \"{}\" is \
                     taken back and sent again, so nothing would ever arrive",
                    TimeSpan(deadline)
                ),
                format!("Set at most {}, or raise [relay] publish_deadline.", (deadline / 2).as_millis()),
            ),
            // What is no number librdkafka refuses.
            _ => Ok(()),
        },
        Guard::Ours(why) => refuse(format!("it cannot be set: {why}"), "Remove it.".to_owned()),
    }
}

/// Whether librdkafka can read a value, and a file that it names is there.
pub(crate) fn check_value(name: &str, value: &str) -> Result<(), Fault> {
    const FILES: [&str; 5] = [
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.crl.location",
    ];
    let place = format!("Kafka property \"{name}\"");
    if FILES.contains(&canonical(name)) && value != "probe" {
        std::fs::File::open(value).map_err(|error| {
            let remedy = "Correct the path, and let the relay's user read it.";
            Fault::new(&place, format!("\"{value}\" cannot be read: {error}"), remedy)
        })?;
    }
    let set: ClientConfig = [(name.to_owned(), value.to_owned())].into_iter().collect();
    set.create_native_config().map(drop).map_err(|error| {
        let problem = match error {
            KafkaError::ClientConfig(_, said, ..) if !is_secret(name) => said,
            _ => "its value cannot be used".to_owned(),
        };
        Fault::new(&place, problem, "Correct its value, or remove it.")
    })
}

fn is_known(name: &str) -> bool {
    NAMES.lines().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn refused(name: &str, value: &str) -> String {
        check(name, value, true, DEADLINE).expect_err(name).to_string()
    }

    fn taken(name: &str, value: &str, order_kept: bool) -> bool {
        check(name, value, order_kept, DEADLINE).is_ok()
    }

    /// The list is librdkafka's: it knows every name in it.
    #[test]
    fn librdkafka_knows_every_name() {
        let said = |name: &str| {
            let config = ClientConfig::new().set(name, "?").create_native_config();
            config.err().map(|error| error.to_string()).unwrap_or_default()
        };
        for name in NAMES.lines() {
            assert!(!said(name).contains("No such configuration property"), "{name}: {}", said(name));
        }
        assert!(said("linger").contains("No such configuration property"), "{}", said("linger"));
    }

    /// B11: `acks` other than all, always, by whatever name.
    #[test]
    fn acks_are_all_with_or_without_order() {
        for name in ["acks", "request.required.acks", "topic.acks", "topic.request.required.acks"] {
            for order_kept in [true, false] {
                assert!(!taken(name, "1", order_kept) && !taken(name, "0", order_kept), "{name}");
                assert!(taken(name, "all", order_kept) && taken(name, "-1", order_kept), "{name}");
            }
        }
        assert!(refused("acks", "1").contains("receipt"));
        assert!(!taken("delivery.report.only.error", "true", false));
    }

    /// B11: time-outs and retry counts are refused with the reason where order is kept, and can be set where it is not.
    #[test]
    fn what_order_needs_is_refused_with_its_reason() {
        for (name, value) in [
            ("message.timeout.ms", "120000"),
            ("delivery.timeout.ms", "120000"),
            ("topic.message.timeout.ms", "120000"),
            ("retries", "3"),
            ("message.send.max.retries", "3"),
            ("enable.idempotence", "false"),
            ("enable.gapless.guarantee", "false"),
            ("max.in.flight", "6"),
            ("max.in.flight.requests.per.connection", "1000"),
            ("queuing.strategy", "lifo"),
            ("partitioner", "random"),
        ] {
            let fault = refused(name, value);
            assert!(fault.contains(name) && fault.contains("order"), "{fault}");
            assert!(taken(name, value, false), "{name}");
        }
        for (name, value) in
            [("enable.idempotence", "true"), ("max.in.flight", "1"), ("message.timeout.ms", "0")]
        {
            assert!(taken(name, value, true), "{name}");
        }
    }

    /// B11: a request's time-out is no longer than the wait.
    #[test]
    fn no_time_out_is_longer_than_the_wait() {
        for name in ["request.timeout.ms", "socket.timeout.ms", "topic.request.timeout.ms"] {
            assert!(taken(name, "30000", true) && !taken(name, "30001", true) && !taken(name, "soon", true));
        }
    }

    /// A batch that waits longer than its answer is waited for never arrives: it is taken back before it is sent.
    #[test]
    fn a_linger_leaves_time_for_the_answer() {
        for name in ["linger.ms", "queue.buffering.max.ms"] {
            assert!(
                taken(name, "15000", true) && !taken(name, "15000.5", true) && !taken(name, "60000", false)
            );
            let fault = refused(name, "31000");
            assert!(
                fault.contains("publish_deadline = \"30s\"") && fault.contains("at most 15000"),
                "{fault}"
            );
        }
    }

    /// F5, F6: a value that librdkafka cannot read, and a file that is not there, by their names and without secrets.
    #[test]
    fn a_value_that_cannot_be_read_is_refused() {
        for (name, value) in
            [("linger.ms", "abc"), ("compression.type", "brotli"), ("ssl.ca.location", "/nowhere/ca.pem")]
        {
            let fault = check_value(name, value).expect_err(name).to_string();
            assert!(fault.contains(name) && fault.contains("Correct"), "{fault}");
        }
        for (name, value) in [("linger.ms", "0.5"), ("ssl.ca.location", "probe"), ("sasl.password", "x")] {
            check_value(name, value).unwrap();
        }
    }

    /// B11: every other property can be set.
    #[test]
    fn everything_else_can_be_set() {
        for (name, value) in [
            ("linger.ms", "5"),
            ("retry.backoff.ms", "1000"),
            ("compression.type", "zstd"),
            ("batch.size", "1000"),
            ("sasl.password", "s"),
            ("ssl.ca.location", "/ca.pem"),
            ("topic.metadata.refresh.interval.ms", "1000"),
            ("message.max.bytes", "2000000"),
        ] {
            check(name, value, true, DEADLINE).unwrap();
        }
    }

    #[test]
    fn what_is_ours_and_what_is_for_tests_is_refused() {
        for name in [
            "bootstrap.servers",
            "metadata.broker.list",
            "transactional.id",
            "queue.buffering.max.messages",
            "test.mock.num.brokers",
            "dr_msg_cb",
            "dr_cb",
            "opaque",
            "batch.num.messages",
        ] {
            assert!(refused(name, "1").contains("Remove it"), "{name}");
        }
    }

    /// F5: a property that does not exist, with the nearest.
    #[test]
    fn an_unknown_property_is_refused_with_the_nearest() {
        assert!(refused("linger.msec", "5").contains("\"linger.ms\""));
        assert!(refused("group.id", "g").contains("no such property"));
    }

    /// F6: which values are hidden.
    #[test]
    fn secrets_are_known_by_name() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
        ] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("ssl.ca.location") && !is_secret("sasl.username"));
    }
}
