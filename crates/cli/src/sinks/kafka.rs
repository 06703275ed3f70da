//! `kafka://host:9092,host2:9092`: its settings are the layout's, with the configuration's on top.

use postrider_core::Fault;
use postrider_core::finding::Finding;
use postrider_core::layout::{Layout, Order, property};
use postrider_kafka::KafkaConfig;
use postrider_kafka::check::{Used, check};
use postrider_kafka::topics::{Difference, Provisioned, Topic, Unprovisioned, name_fault, provision};

use super::at;
use crate::config::{Config, Sink, Topics};
use crate::exit::{Code, Failure};
use crate::settings;

/// Whether a sink is one.
pub(crate) fn is_kafka(sink: &Sink) -> bool {
    sink.url.reveal().starts_with("kafka:")
}

/// The adapter's settings.
pub(crate) fn config(sink: &Sink, config: &Config, layout: &Layout) -> Result<KafkaConfig, Fault> {
    let kafka = KafkaConfig::from_url(sink.url.reveal()).map_err(|fault| at(sink, fault))?;
    let mut kafka = kafka.with_layout(layout);
    kafka.payload_bytes_max = config.outbox.payload_bytes_max;
    kafka.publish_deadline = settings::settings(config, layout).publish_deadline;
    kafka.order_kept = keeps_order(sink, config, layout);
    kafka.check().map_err(|fault| at(sink, fault))?;
    for (name, given) in &sink.properties {
        let refused = |problem: &str, remedy: &str| {
            Fault::new(
                &given.place,
                format!("sink \"{}\": property \"{name}\": {problem}", sink.name),
                remedy,
            )
        };
        let value = property(&given.value).ok_or_else(|| {
            refused("it is neither a text, a number, true nor false", "Write it like \"linger.ms\" = 5")
        })?;
        kafka.check_property(name, &value).map_err(|fault| refused(&fault.problem, &fault.remedy))?;
        kafka.properties.insert(name.clone(), value);
    }
    for Used { topic, place } in patterns(sink, config, layout) {
        // What is filled in is one letter here: the shortest that it can be, and of those that Kafka takes.
        if let Some(problem) = name_fault(&filled(&topic)) {
            return Err(Fault::new(place, problem, "Give it another name"));
        }
    }
    Ok(kafka)
}

/// Whether anything that goes there is to stay in order.
fn keeps_order(sink: &Sink, config: &Config, layout: &Layout) -> bool {
    let is_first = config.sinks.first().is_some_and(|first| first.name == sink.name);
    let goes_there = |route: &postrider_core::route::Route| match &route.sink {
        Some(name) => *name == sink.name,
        None => is_first,
    };
    let routes = || config.routes.iter().map(|known| &known.route);
    let unmatched = is_first && !routes().any(|route| route.event_type == "*");
    let ordered = |route: &postrider_core::route::Route| route.order.unwrap_or(layout.order) == Order::Key;
    layout.order == Order::Key && (unmatched || routes().any(|route| goes_there(route) && ordered(route)))
}

/// The topics of a sink as they are written: by its routes, and by the layout where none names one.
fn patterns(sink: &Sink, config: &Config, layout: &Layout) -> Vec<Used> {
    let is_first = config.sinks.first().is_some_and(|first| first.name == sink.name);
    let mut patterns = Vec::new();
    let mut by_layout = is_first && !config.routes.iter().any(|known| known.route.event_type == "*");
    for known in &config.routes {
        let goes_there = known.route.sink.as_ref().map_or(is_first, |name| *name == sink.name);
        match &known.route.topic {
            Some(topic) if goes_there => {
                patterns.push(Used { topic: topic.clone(), place: known.place.clone() })
            }
            None => by_layout |= goes_there,
            Some(_) => {}
        }
    }
    if by_layout {
        let place = format!("layout \"{}\"", layout.name);
        let topics = layout.topics.values().chain([&layout.topic]);
        patterns.extend(topics.map(|topic| Used { topic: topic.clone(), place: place.clone() }));
    }
    patterns
}

fn filled(pattern: &str) -> String {
    let mut parts = pattern.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        filled.push('x');
        filled.push_str(part.split_once('}').map_or("", |(_, behind)| behind));
    }
    filled
}

/// What the cluster says of everything that is configured for it.
pub(crate) async fn examine(sink: &Sink, config: &Config, layout: &Layout) -> Result<Vec<Finding>, Fault> {
    let kafka = self::config(sink, config, layout)?;
    let mut used = patterns(sink, config, layout);
    used.retain(|used| !used.topic.contains('{'));
    used.dedup_by(|one, other| one.topic == other.topic);
    Ok(check(&kafka, &used, &topics(sink, config)).await)
}

fn topics(sink: &Sink, config: &Config) -> Vec<Topic> {
    let of_it = config.topics.iter().filter(|topics| topics.sink == sink.name);
    of_it.flat_map(|topics| topics.topics.clone()).collect()
}

/// Creates the topics that are missing: says what was done, and how others differ.
pub(crate) async fn migrate(
    config: &Config,
    layout: &Layout,
) -> Result<(Vec<String>, Vec<Difference>), Failure> {
    let (mut done, mut differences) = (Vec::new(), Vec::new());
    for sink in config.sinks.iter().filter(|sink| is_kafka(sink)) {
        let topics = topics(sink, config);
        if topics.is_empty() {
            continue;
        }
        let kafka = self::config(sink, config, layout).map_err(|fault| Failure::new(Code::Usage, fault))?;
        let provisioned = provision(&kafka, &topics).await.map_err(|why| unprovisioned(sink, config, why))?;
        for provisioned in provisioned {
            match provisioned {
                Provisioned::Created(topic) => done.push(format!("created {topic}")),
                Provisioned::Found(found) => differences.extend(found),
            }
        }
    }
    Ok((done, differences))
}

/// What the cluster refuses is named at its line.
fn unprovisioned(sink: &Sink, config: &Config, why: Unprovisioned) -> Failure {
    match why {
        Unprovisioned::Away(fault) => Failure::new(Code::Broker, fault),
        Unprovisioned::Refused { topic, setting, fault } => {
            let of_it = |topics: &&Topics| topics.sink == sink.name && topics.places.contains_key(&topic);
            let places = config.topics.iter().find(of_it).map(|topics| &topics.places);
            let place = places.and_then(|places| {
                setting.as_ref().and_then(|setting| places.get(setting)).or_else(|| places.get(&topic))
            });
            let code = if setting.is_some() { Code::Usage } else { Code::Failed };
            let place = place.unwrap_or(&fault.place);
            Failure::new(code, Fault::new(place, &fault.problem, &fault.remedy))
        }
    }
}

/// The topics as comments of a migration, each with the command that creates it.
pub(crate) fn migration_text(config: &Config) -> String {
    let mut text = String::new();
    for sink in config.sinks.iter().filter(|sink| is_kafka(sink)) {
        let brokers = sink.url.to_string();
        let brokers = brokers.trim_start_matches("kafka://").trim_end_matches('/');
        for topic in topics(sink, config) {
            text.push_str(&format!("-- {}\n", topic.command(brokers)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::Surroundings;

    fn built(text: &str) -> Result<KafkaConfig, String> {
        let config =
            Config::parse("postrider.toml", text, &Surroundings).map_err(|fault| fault.to_string())?;
        let layout = crate::layout::load(&config).map_err(|failure| failure.fault.unwrap().to_string())?;
        let sink = config.sinks.iter().find(|sink| is_kafka(sink)).unwrap();
        super::config(sink, &config, &layout).map_err(|fault| fault.to_string())
    }

    fn with(layout: &str, rest: &str) -> Result<KafkaConfig, String> {
        built(&format!(
            "[outbox]\nurl = \"sqlite://x.db\"\nlayout = \"{layout}\"\n[[sink]]\nname = \"k\"\nurl = \"kafka://a:1,b:2\"\n{rest}"
        ))
    }

    /// B11: the layout's producer, the configuration's on top, and the wait of B5 as the deadline.
    #[test]
    fn the_layouts_properties_hold_until_the_config_says_otherwise() {
        let kafka =
            with("commerce", "[sink.properties]\nlinger.ms = 20\n\"compression.type\" = \"zstd\"").unwrap();
        let set: Vec<_> = kafka.properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            set,
            [
                "compression.type=zstd",
                "linger.ms=20",
                "max.in.flight.requests.per.connection=5",
                "retry.backoff.ms=1000"
            ]
        );
        assert_eq!(
            (&*kafka.brokers, kafka.publish_deadline.as_secs(), kafka.order_kept),
            ("a:1,b:2", 30, true)
        );
        assert_eq!(
            with("commerce", "[relay]\npublish_deadline = \"5s\"").unwrap().publish_deadline.as_secs(),
            5
        );
    }

    /// B11, F5: a property that would break receipts or order is refused with the reason, at its own line.
    #[test]
    fn a_property_that_breaks_order_names_its_line() {
        let refused =
            with("commerce", "[sink.properties]\n\"linger.ms\" = 5\n\"delivery.timeout.ms\" = 120000")
                .unwrap_err();
        assert!(
            refused.starts_with("postrider.toml:9: sink \"k\": property \"delivery.timeout.ms\""),
            "{refused}"
        );
        assert!(refused.contains("overtake"), "{refused}");
        let refused = with("logistics", "[sink.properties]\nacks = 1").unwrap_err();
        assert!(refused.starts_with("postrider.toml:8:") && refused.contains("receipt"), "{refused}");
        let refused = with("logistics", "[sink.properties]\n\"linger.msec\" = 1").unwrap_err();
        assert!(refused.contains("Did you mean \"linger.ms\"?"), "{refused}");
        let refused = with("logistics", "[sink.properties]\n\"linger.ms\" = [1]").unwrap_err();
        assert!(refused.contains("neither a text"), "{refused}");
    }

    /// F5: a value that cannot be is refused at its own line, and a wait that would outlast the deadline.
    #[test]
    fn a_value_that_cannot_be_names_its_line() {
        for (line, expected) in [
            ("\"linger.ms\" = \"abc\"", "linger.ms"),
            ("\"compression.type\" = \"brotli\"", "brotli"),
            ("\"ssl.ca.location\" = \"/nowhere/ca.pem\"", "cannot be read"),
            ("\"queue.buffering.max.ms\" = 31000", "publish_deadline = \"30s\""),
        ] {
            let refused =
                with("native", &format!("[sink.properties]\n\"client.id\" = \"r\"\n{line}")).unwrap_err();
            assert!(refused.starts_with("postrider.toml:9: sink \"k\": property"), "{refused}");
            assert!(refused.contains(expected), "{refused}");
        }
    }

    /// F2: where every route there has no order, what order needs may be set.
    #[test]
    fn a_sink_without_order_may_be_set_otherwise() {
        let retries = "[sink.properties]\nretries = 3\n";
        assert!(with("native", retries).is_err());
        assert!(with("native", &format!("{retries}[[route]]\norder = \"none\"")).is_ok());
        assert!(with("native", &format!("{retries}[[route]]\ntype = \"a.*\"\norder = \"none\"")).is_err());
        assert!(with("logistics", retries).is_ok());
        let refused = with("logistics", "[[route]]\ntopic = \"x\"\norder = \"key\"").unwrap_err();
        assert!(refused.starts_with("postrider.toml:8: this [[route]] has order"), "{refused}");
    }

    /// F5: a topic is one that Kafka takes, and its placeholders are those that are filled in.
    #[test]
    fn a_topic_that_cannot_be_is_refused_with_its_line() {
        let refused = with("native", "[[route]]\ntopic = \"order events\"").unwrap_err();
        assert!(refused.starts_with("postrider.toml:8: topic \"order events\" has a ' '"), "{refused}");
        let refused = with("native", "[[route]]\ntopic = \"{domian}-events\"").unwrap_err();
        assert_eq!(
            refused,
            "postrider.toml:8: topic: there is no {domian} to fill in. Did you mean \"{domain}\"?"
        );
        assert!(with("native", "[[route]]\ntopic = \"a.{type}_{domain}\"").is_ok());
    }

    /// B16: the topics of a configuration, and what cannot be among them.
    #[test]
    fn topics_are_read_and_what_cannot_be_is_refused() {
        let topics = |text: &str| {
            let sink = "[[sink]]\nurl = \"kafka://a:1\"\n[[topic]]\n";
            Config::parse("x", &format!("{sink}{text}"), &Surroundings).map_err(|fault| fault.to_string())
        };
        let config = topics(
            "names = [\"a\", \"b\"]\npartitions = 3\nretention = \"7d\"\n[topic.config]\n\"segment.ms\" = 5",
        )
        .unwrap();
        let command = migration_text(&config);
        assert_eq!(command.lines().count(), 2);
        assert!(command.starts_with(
            "-- kafka-topics.sh --bootstrap-server a:1 --create --if-not-exists --topic a --partitions 3"
        ));
        assert!(command.contains("--config retention.ms=604800000 --config segment.ms=5"), "{command}");
        for (text, expected) in [
            (
                "names = [\"a\"]\nreplication = 1\nmin_insync_replicas = 2",
                "x:4: min_insync_replicas = 2 is above replication = 1",
            ),
            ("names = [\"a b\"]", "x:4: topic \"a b\" has a ' '"),
            ("names = [\"a\", \"a\"]", "there twice"),
            ("names = [\"a\"]\nsink = \"nats\"", "there is no sink named \"nats\""),
            (
                "names = [\"a\"]\n[topic.config]\n\"retention.ms\" = 5",
                "x:6: retention.ms has a key of its own",
            ),
            ("names = [\"a\"]\npartitions = 0", "out of bounds"),
            ("name = \"a\"", "Did you mean \"names\"?"),
        ] {
            let refused = topics(text).unwrap_err();
            assert!(refused.contains(expected), "{expected} in {refused}");
        }
        let none = Config::parse("x", "[[topic]]\nnames = [\"a\"]", &Surroundings).unwrap_err().to_string();
        assert!(none.contains("no Kafka sink"), "{none}");
    }
}
