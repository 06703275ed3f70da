//! Event → sink, topic.

mod gate;

use std::collections::BTreeMap;

use crate::layout::Order;
use crate::nearest::nearest;
use crate::{Envelope, Text};

pub use gate::{Gate, Hold, Holds};

/// What a route is chosen by: both are columns of the row, so a table can be read by it under any configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The event's type.
    pub event_type: Text,
    /// Its aggregate's type.
    pub aggregate_type: Text,
}

impl Kind {
    /// The kind of an envelope.
    #[must_use]
    pub fn of(envelope: &Envelope) -> Self {
        Self { event_type: envelope.event_type.clone(), aggregate_type: envelope.aggregate_type.clone() }
    }
}

/// Where an event goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The sink's name in the configuration.
    pub sink: Text,
    /// The topic within it.
    pub topic: Text,
}

/// One `[[route]]`: what it matches, and where that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Event types, with `*` for any run of characters.
    pub event_type: String,
    /// The sink's name; none means the first.
    pub sink: Option<Text>,
    /// The topic, with `{type}`, `{type:kebab}` (`LEDGER_POSTED` as `ledger-posted`), `{domain}`, `{aggregate_type}` (`order-line`) and `{aggregate_type:raw}` (as the row has it)
    /// filled in; none means the layout's.
    pub topic: Option<String>,
    /// What stays in order; none means what the layout says. Entries are read by it: [`crate::Layout::with_routes`].
    pub order: Option<Order>,
}

/// What a topic's pattern may ask for.
const PLACEHOLDERS: [&str; 5] = ["type", "type:kebab", "domain", "aggregate_type", "aggregate_type:raw"];

/// What is wrong with a topic's pattern, and what to write instead: every `{…}` in it is one that is filled in.
///
/// # Errors
/// The first that is none, with the nearest that is.
///
/// ```
/// let (problem, remedy) = postrider_core::route::check_topic("{domian}-events").unwrap_err();
/// assert_eq!((&*problem, &*remedy), ("there is no {domian} to fill in", "Did you mean \"{domain}\"?"));
/// ```
pub fn check_topic(pattern: &str) -> Result<(), (String, String)> {
    let known = || PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        let inside = rest[at..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, behind)) = inside.filter(|(name, _)| !name.contains('{')) else {
            return Err((
                format!("the braces of \"{pattern}\" do not match"),
                format!("Filled in are {}.", known()),
            ));
        };
        if !PLACEHOLDERS.contains(&name) {
            let remedy = match nearest(name, PLACEHOLDERS) {
                Some(near) => format!("Did you mean \"{{{near}}}\"?"),
                None => format!("Filled in are {}.", known()),
            };
            return Err((format!("there is no {{{name}}} to fill in"), remedy));
        }
        rest = behind;
    }
    Ok(())
}

/// Chooses the destination of every kind of event. The first match wins.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Vec<Route>,
    sink: Text,
    topic: String,
    topics: BTreeMap<String, String>,
}

impl Router {
    /// `sink` and `topic` serve what no route matches. A topic `{domain}-events` is the convention of B3.
    pub fn new(routes: Vec<Route>, sink: impl Into<Text>, topic: impl Into<String>) -> Self {
        Self { routes, sink: sink.into(), topic: topic.into(), topics: BTreeMap::new() }
    }

    /// The topics of single event types, where no route names one: they go before the topic that serves the rest.
    #[must_use]
    pub fn with_topics(self, topics: BTreeMap<String, String>) -> Self {
        Self { topics, ..self }
    }

    /// Where a kind goes; an error says why it goes nowhere.
    ///
    /// ```
    /// use postrider_core::route::{Kind, Router};
    /// let router = Router::new(vec![], "kafka", "{domain}-events");
    /// let kind = Kind { event_type: "loopers.order.created.v1".into(), aggregate_type: "Order".into() };
    /// assert_eq!(router.route(&kind).unwrap().topic, "order-events");
    /// ```
    ///
    /// # Errors
    /// When the topic's pattern asks for a part that the event's type does not have.
    pub fn route(&self, kind: &Kind) -> Result<Destination, String> {
        let route = self.routes.iter().find(|route| matches(&route.event_type, &kind.event_type));
        let sink = route.and_then(|route| route.sink.clone()).unwrap_or_else(|| self.sink.clone());
        let own = || self.topics.get(&*kind.event_type).unwrap_or(&self.topic);
        let pattern = route.and_then(|route| route.topic.as_deref()).unwrap_or_else(|| own());
        Ok(Destination { sink, topic: fill(pattern, kind)? })
    }
}

fn fill(pattern: &str, kind: &Kind) -> Result<Text, String> {
    if !pattern.contains('{') {
        return Ok(Text::from(pattern));
    }
    let mut topic = pattern.replace("{type}", &kind.event_type);
    if topic.contains("{domain}") {
        let domain = crate::name::parts(&kind.event_type).map(|name| name.domain).ok_or_else(|| {
            format!(
                "no route: the topic \"{pattern}\" needs a type like company.domain.action.v1, and \"{}\" is none; \
                 add a [[route]] for it",
                kind.event_type
            )
        })?;
        topic = topic.replace("{domain}", domain);
    }
    if topic.contains("{type:kebab}") {
        topic = topic.replace("{type:kebab}", &kebab(&kind.event_type));
    }
    topic = topic.replace("{aggregate_type:raw}", &kind.aggregate_type);
    Ok(Text::from(topic.replace("{aggregate_type}", &kebab(&kind.aggregate_type))))
}

/// `OrderLine` and `ORDER_LINE` both become `order-line`.
fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    let mut previous_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && previous_lower {
            kebab.push('-');
        }
        previous_lower = c.is_lowercase() || c.is_ascii_digit();
        kebab.extend(if c == '_' || c == ' ' { '-' } else { c }.to_lowercase());
    }
    kebab
}

/// What the first that matches says of a type's order.
pub(crate) fn order_among(orders: &[(String, Order)], event_type: &str) -> Option<Order> {
    orders.iter().find(|(pattern, _)| matches(pattern, event_type)).map(|(_, order)| *order)
}

/// Whether a type matches a pattern in which `*` stands for any run of characters.
#[must_use]
pub fn matches(pattern: &str, value: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = value.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            match rest.find(previous) {
                Some(at) => rest = &rest[at + str::len(previous)..],
                None => return false,
            }
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(event_type: &'static str) -> Kind {
        Kind { event_type: event_type.into(), aggregate_type: "OrderLine".into() }
    }

    /// B3: type → topic by convention, with an override per type.
    #[test]
    fn topic_by_convention_with_overrides() {
        let viewed = Route {
            event_type: "loopers.product.viewed.v1".into(),
            sink: None,
            topic: Some("product-view-events".into()),
            order: None,
        };
        let router = Router::new(vec![viewed], "kafka", "{domain}-events");
        let topic = |name| router.route(&kind(name)).map(|to| to.topic.to_string());
        assert_eq!(topic("loopers.order.created.v1").unwrap(), "order-events");
        assert_eq!(topic("loopers.product.viewed.v1").unwrap(), "product-view-events");
        assert!(topic("LEDGER_POSTED").unwrap_err().contains("[[route]]"));
    }

    #[test]
    fn the_first_match_wins_and_names_its_sink() {
        let to = |pattern: &str, sink: &'static str| Route {
            event_type: pattern.into(),
            sink: Some(sink.into()),
            topic: Some("{aggregate_type}".into()),
            order: None,
        };
        let router = Router::new(vec![to("a.*", "first"), to("*", "second")], "none", "x");
        assert_eq!(router.route(&kind("a.b")).unwrap().sink, "first");
        let other = router.route(&kind("b.a")).unwrap();
        assert_eq!((&*other.sink, &*other.topic), ("second", "order-line"));
    }

    /// E5: one topic for all, or one per type.
    #[test]
    fn one_topic_for_all_or_one_per_type() {
        let topic =
            |pattern: &str, name| Router::new(vec![], "kafka", pattern).route(&kind(name)).unwrap().topic;
        assert_eq!(topic("ledger-events", "LEDGER_POSTED"), "ledger-events");
        assert_eq!(topic("ledger-events", "LEDGER_REVERSED"), "ledger-events");
        assert_eq!(topic("{type:kebab}-events", "LEDGER_POSTED"), "ledger-posted-events");
        assert_eq!(topic("{type:kebab}-events", "LEDGER_REVERSED"), "ledger-reversed-events");
    }

    /// F5: what is misspelt would be a topic of that very name.
    #[test]
    fn a_placeholder_that_is_none_is_refused_with_the_nearest() {
        for fine in [
            "order-events",
            "{domain}-events",
            "a.{type}.{aggregate_type:raw}.{aggregate_type}",
            "{type:kebab}",
        ] {
            assert_eq!(check_topic(fine), Ok(()), "{fine}");
        }
        for (bad, expected) in [
            ("{domian}-events", "{domain}"),
            ("{aggregate-type}", "{aggregate_type}"),
            ("{zzzzzzz}", "{type}, {type:kebab}, {domain}"),
            ("{domain", "Filled in are"),
            ("domain}", "Filled in are"),
            ("{domain{type}}", "Filled in are"),
            ("{}", "Filled in are"),
        ] {
            let (problem, remedy) = check_topic(bad).unwrap_err();
            assert!(remedy.contains(expected) && !problem.is_empty(), "{bad}: {problem}. {remedy}");
        }
    }

    #[test]
    fn stars_match_any_run() {
        for (pattern, value, expected) in [
            ("a.*", "a.b.c", true),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.c", false),
            ("*", "", true),
            ("*b*", "abc", true),
            ("*bc", "abcbc", true),
            ("a", "ab", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, value), expected, "{pattern} on {value}");
        }
    }
}
