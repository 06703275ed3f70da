use std::time::Duration;

use postrider_core::retry::Backoff;
use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("postrider.toml", text, &Surroundings).map_err(|fault| fault.to_string())
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err()
}

#[test]
fn every_key_has_a_default() {
    let config = parse("").unwrap();
    assert_eq!(config.outbox.url.reveal(), "sqlite://postrider.db");
    assert_eq!(config.outbox.layout, "native");
    assert_eq!(config.sinks.len(), 1);
    assert_eq!(config.sinks[0].url.reveal(), "stdout:");
}

/// What `init` writes is read back, also when every key in it is made active.
#[test]
fn the_template_is_a_config() {
    assert_eq!(parse(template::TEMPLATE).unwrap().sinks[0].name, "events");
    let active: String = template::TEMPLATE
        .lines()
        .skip(3)
        .map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let config = parse(&active).unwrap();
    assert_eq!(config.outbox.start, Some(file::Start::Beginning));
    assert_eq!(config.relay.in_flight_bytes, Some(limits::IN_FLIGHT_BYTES));
    assert_eq!(config.retry.retries_max, Some(10));
    assert_eq!(config.routes[0].route.topic.as_deref(), Some("order-events"));
    assert_eq!(config.retention.published, Some(file::Keep::For(Duration::from_secs(7 * 86_400))));
    assert_eq!(config.breaker.trials, Some(3));
    assert_eq!((&*config.topics[0].sink, config.topics[0].topics[0].partitions), ("kafka", Some(3)));
    assert_eq!(config.sinks[0].properties["rotate_bytes"].value.as_str(), Some("1GiB"));
}

/// DESIGN.md's own example, as far as this build has its sinks.
#[test]
fn the_designs_example_is_read() {
    let config = parse(
        r#"
        [outbox]
        url    = "postgres://app@localhost/shop"
        layout = "logistics"
        table  = "outbox_events"
        [[sink]]
        name = "kafka"
        url  = "kafka://localhost:9092"
        [sink.properties]
        "linger.ms" = 5
        [[route]]
        type  = "loopers.order.*"
        topic = "order-events"
        [retry]
        retries_max = 5
        backoff      = { first = "1s", factor = 2.0, max = "5m", jitter = true }
        "#,
    )
    .unwrap();
    assert_eq!(config.outbox.table.as_deref(), Some("outbox_events"));
    assert_eq!(config.sinks[0].properties["linger.ms"].value.as_integer(), Some(5));
    assert!(matches!(config.retry.backoff, Some(Backoff::Exponential { jitter: true, .. })));
}

/// F5: an unknown key names the line and the nearest key.
#[test]
fn an_unknown_key_names_its_line_and_the_nearest() {
    assert_eq!(
        refused("[outbox]\nurl = \"sqlite://x.db\"\nlayuot = \"native\"\n"),
        "postrider.toml:3: unknown key \"layuot\". Did you mean \"layout\"?"
    );
    assert!(refused("[[sinks]]\nurl = \"stdout:\"").contains("Did you mean \"sink\"?"));
    assert!(refused("[retry]\nbackoff = { frist = \"1s\" }").contains("Did you mean \"first\"?"));
    assert!(refused("[relay]\npoll = { bussy = \"1s\" }").contains("Did you mean \"busy\"?"));
}

/// F5: what is out of bounds names the line and the bounds.
#[test]
fn values_out_of_bounds_name_their_line() {
    for (text, said) in [
        (
            "[relay]\nbatch_entries = 0",
            "postrider.toml:2: batch_entries: 0 is out of bounds; give 1 to 10000",
        ),
        ("[relay]\nbatch_entries = -1", "-1 is out of bounds"),
        (
            "[relay]\nin_flight_bytes = \"16 mib\"",
            "postrider.toml:2: in_flight_bytes: \"16 mib\" is not a size",
        ),
        (
            "[relay]\npublish_deadline = \"1 year\"",
            "postrider.toml:2: publish_deadline: \"1 year\" is no span of time",
        ),
        ("[relay]\npublish_deadline = \"2h\"", "2h is out of bounds; give 100ms to 1h"),
        ("[relay]\npoll = \"0s\"", "out of bounds"),
        ("[retry]\nbackoff = { factor = 0.5 }", "factor is from 1.0 to 1000.0"),
        ("[retry]\nbackoff = [\"soon\"]", "\"soon\" is no span of time"),
        ("[breaker]\nfailure_share = nan", "out of bounds"),
        ("[outbox]\nstart = \"yesterday\"", "start is \"beginning\", \"now\" or the id"),
        ("[outbox]\nlease_ttl = \"1ms\"", "out of bounds"),
    ] {
        let message = refused(text);
        assert!(message.contains(said) && message.contains("postrider.toml:2"), "{text}: {message}");
    }
}

#[test]
fn sinks_and_routes_fit_together() {
    let two = "[[sink]]\nname = \"a\"\nurl = \"stdout:\"\n[[sink]]\nname = \"a\"\nurl = \"null:\"\n";
    assert_eq!(
        refused(two),
        "postrider.toml:5: there are two sinks named \"a\". Give one of them another name"
    );
    let route = "[[sink]]\nname = \"events\"\nurl = \"stdout:\"\n[[route]]\nsink = \"event\"\n";
    assert_eq!(
        refused(route),
        "postrider.toml:5: there is no sink named \"event\". Did you mean \"events\"?"
    );
    let unnamed = parse("[[sink]]\nurl = \"stdout:\"\n[[route]]\nsink = \"stdout\"").unwrap();
    assert_eq!(unnamed.routes[0].route.event_type, "*");
}

/// F6: not even a file that cannot be read makes its secrets known.
#[test]
fn a_broken_file_does_not_show_its_secrets() {
    for text in [
        "outbox = \"postgres://app:swordfish@db/shop\"",
        "[outbox]\nurl = \"postgres://app:swordfish@db/shop\nlayout = 3",
        "[outbox]\nlayout = \"${NOT_SET_AT_ALL}\"\nurl = \"postgres://app:swordfish@${NOT_SET_AT_ALL}/shop\"",
    ] {
        let message = secret::scrub(&refused(text));
        assert!(!message.contains("swordfish"), "{message}");
    }
    let config = parse("[outbox]\nurl = \"postgres://app:swordfish@db/shop\"").unwrap();
    assert!(!format!("{config:?}").contains("swordfish"));
}

proptest! {
    /// F5: any bytes as a config never panic.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Config::parse("x", &String::from_utf8_lossy(&bytes), &Surroundings);
    }

    /// F5: nor does a config that was mangled.
    #[test]
    fn no_mangled_config_panics(at in 0usize..2000, cut in 0usize..40, put in "[a-z\\[\\]{}=\"'#\n.$ 0-9]{0,12}") {
        let mut text: Vec<char> = template::TEMPLATE.replace("\n# ", "\n").chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, put.chars());
        let _ = Config::parse("x", &text.into_iter().collect::<String>(), &Surroundings);
    }
}
