//! `postrider.toml`, read, checked and with its secrets expanded. Every key has a default.

pub(crate) mod file;
pub(crate) mod secret;
pub(crate) mod template;

mod number;
pub(crate) mod size;
mod span;
mod topic;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

use postrider_core::nearest::{at, nearest, toml_fault};
use postrider_core::route::check_topic;
use postrider_core::{Fault, Text, limits};

use crate::exit::{Code, Failure};
use file::File;
use secret::{Lookup, Secret, Surroundings};
pub(crate) use topic::Topics;

/// No configuration is longer; what is, is some other file.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// What to relay, from where, to where.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) outbox: Outbox,
    /// At least one.
    pub(crate) sinks: Vec<Sink>,
    pub(crate) routes: Vec<Route>,
    pub(crate) topics: Vec<Topics>,
    pub(crate) retry: file::Retry,
    pub(crate) relay: file::Relay,
    pub(crate) retention: file::Retention,
    pub(crate) breaker: file::Breaker,
}

/// The table that events are taken from.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) url: Secret,
    pub(crate) layout: String,
    pub(crate) table: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) start: Option<file::Start>,
    pub(crate) lease_ttl: std::time::Duration,
    pub(crate) payload_bytes_max: usize,
    /// `file:line` of its url, for faults.
    pub(crate) place: String,
}

/// Somewhere that events go.
pub(crate) struct Sink {
    pub(crate) name: Text,
    pub(crate) url: Secret,
    pub(crate) properties: BTreeMap<String, Property>,
    /// `file:line`, for faults.
    pub(crate) place: String,
}

/// A setting of a sink.
pub(crate) struct Property {
    pub(crate) value: toml::Value,
    /// `file:line`, for faults.
    pub(crate) place: String,
}

/// Which events go where.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) route: postrider_core::route::Route,
    /// `file:line` of its topic, or of the file, for faults.
    pub(crate) place: String,
}

/// A property may be a password.
impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Config {
    /// Reads a configuration file.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let place = path.display().to_string();
        let usage = |fault| Failure::new(Code::Usage, fault);
        let text = read(path, &place).map_err(usage)?;
        Self::parse(&place, &text, &Surroundings).map_err(usage)
    }

    /// Reads a configuration's text.
    pub(crate) fn parse(place: &str, text: &str, from: &dyn Lookup) -> Result<Self, Fault> {
        let file: File = toml::from_str(text).map_err(|error| {
            let fault = toml_fault(place, text, &error);
            match error.span().and_then(|span| key_before(text, span.start)) {
                Some(key) if !fault.problem.contains(key) => {
                    Fault::new(fault.place, format!("{key}: {}", fault.problem), fault.remedy)
                }
                _ => fault,
            }
        })?;
        let page = Page { place, text, from };
        let sinks = page.sinks(file.sink)?;
        let routes = page.routes(file.route, &sinks)?;
        let topics = page.topics(file.topic, &sinks)?;
        let outbox = page.outbox(file.outbox)?;
        let File { retry, relay, retention, breaker, .. } = file;
        Ok(Self { outbox, sinks, routes, topics, retry, relay, retention, breaker })
    }
}

/// The file that is being read: knows its lines.
struct Page<'a> {
    place: &'a str,
    text: &'a str,
    from: &'a dyn Lookup,
}

impl Page<'_> {
    fn at(&self, span: Range<usize>) -> String {
        at(self.place, self.text, Some(span))
    }

    fn secret(&self, written: &toml::Spanned<String>) -> Result<Secret, Fault> {
        Secret::expand(written.get_ref(), self.from).map_err(|problem| {
            Fault::new(
                self.at(written.span()),
                problem,
                "Secrets are written ${NAME} (environment) or ${file:/path}",
            )
        })
    }

    fn outbox(&self, outbox: file::Outbox) -> Result<Outbox, Fault> {
        let url = match &outbox.url {
            Some(url) => self.secret(url)?,
            None => plain("sqlite://postrider.db"),
        };
        let place = outbox.url.as_ref().map_or_else(|| self.place.to_owned(), |url| self.at(url.span()));
        let layout = outbox.layout.unwrap_or_else(|| "native".to_owned());
        Ok(Outbox {
            url,
            layout,
            table: outbox.table,
            schema: outbox.schema,
            start: outbox.start,
            lease_ttl: outbox.lease_ttl.unwrap_or(limits::LEASE_TTL),
            payload_bytes_max: outbox.payload_bytes_max.unwrap_or(limits::PAYLOAD_BYTES),
            place,
        })
    }

    fn sinks(&self, sinks: Vec<file::Sink>) -> Result<Vec<Sink>, Fault> {
        let mut names = HashSet::new();
        let mut known = Vec::new();
        for sink in sinks {
            let url = self.secret(&sink.url)?;
            let place = self.at(sink.name.as_ref().map_or(sink.url.span(), toml::Spanned::span));
            let name = match sink.name {
                Some(name) => name.into_inner(),
                None => url.reveal().split(':').next().unwrap_or_default().to_owned(),
            };
            if name.is_empty() {
                return Err(Fault::new(place, "this [[sink]] has an empty name", "Give it one"));
            }
            if !names.insert(name.clone()) {
                let problem = format!("there are two sinks named \"{name}\"");
                return Err(Fault::new(place, problem, "Give one of them another name"));
            }
            let properties = self.properties(sink.properties)?;
            known.push(Sink { name: Text::from(name), url, properties, place });
        }
        if known.is_empty() {
            let place = self.place.to_owned();
            known.push(Sink {
                name: "stdout".into(),
                url: plain("stdout:"),
                properties: BTreeMap::new(),
                place,
            });
        }
        Ok(known)
    }

    fn properties(
        &self,
        properties: BTreeMap<String, toml::Spanned<toml::Value>>,
    ) -> Result<BTreeMap<String, Property>, Fault> {
        let mut known = BTreeMap::new();
        for (name, value) in properties {
            let place = self.at(value.span());
            self.property(name, value.into_inner(), &place, &mut known)?;
        }
        Ok(known)
    }

    /// `linger.ms = 5` without quotes is a table in TOML, and means the same.
    fn property(
        &self,
        name: String,
        value: toml::Value,
        place: &str,
        known: &mut BTreeMap<String, Property>,
    ) -> Result<(), Fault> {
        let value = match value {
            toml::Value::Table(inner) => {
                return inner.into_iter().try_for_each(|(rest, value)| {
                    self.property(format!("{name}.{rest}"), value, place, known)
                });
            }
            toml::Value::String(written) => match Secret::expand(&written, self.from) {
                Ok(secret) => toml::Value::String(secret.reveal().to_owned()),
                Err(problem) => {
                    return Err(Fault::new(
                        place,
                        format!("property \"{name}\": {problem}"),
                        "Secrets are written ${NAME} (environment) or ${file:/path}",
                    ));
                }
            },
            other => other,
        };
        known.insert(name, Property { value, place: place.to_owned() });
        Ok(())
    }

    fn sink_named(&self, sink: &toml::Spanned<String>, sinks: &[Sink]) -> Result<Text, Fault> {
        let name = sink.get_ref();
        if let Some(known) = sinks.iter().find(|sink| *sink.name == **name) {
            return Ok(known.name.clone());
        }
        let remedy = match nearest(name, sinks.iter().map(|sink| &*sink.name)) {
            Some(near) => format!("Did you mean \"{near}\"?"),
            None => "Add a [[sink]] of that name".to_owned(),
        };
        Err(Fault::new(self.at(sink.span()), format!("there is no sink named \"{name}\""), remedy))
    }

    fn routes(&self, routes: Vec<file::Route>, sinks: &[Sink]) -> Result<Vec<Route>, Fault> {
        let route = |route: file::Route| {
            let sink = route.sink.as_ref().map(|sink| self.sink_named(sink, sinks)).transpose()?;
            let place = route
                .topic
                .as_ref()
                .map(toml::Spanned::span)
                .or(route.sink.as_ref().map(toml::Spanned::span));
            let place = place.map_or_else(|| self.place.to_owned(), |span| self.at(span));
            let topic = route.topic.map(toml::Spanned::into_inner);
            if let Some(Err((problem, remedy))) = topic.as_deref().map(check_topic) {
                return Err(Fault::new(place, format!("topic: {problem}"), remedy));
            }
            let (event_type, order) = (route.event_type, route.order);
            Ok(Route { route: postrider_core::route::Route { event_type, sink, topic, order }, place })
        };
        routes.into_iter().map(route).collect()
    }
}

/// The key whose value begins here, if one does.
fn key_before(text: &str, value: usize) -> Option<&str> {
    let line = text.get(..value)?.rsplit('\n').next()?;
    let key = line.trim_end().strip_suffix('=')?.rsplit(['{', ',']).next()?.trim();
    (!key.is_empty()).then_some(key)
}

/// A default holds no secret.
fn plain(url: &str) -> Secret {
    Secret::expand(url, &Surroundings).expect("a default has nothing to expand")
}

fn read(path: &Path, place: &str) -> Result<String, Fault> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::new(
            place,
            "there is no such file",
            "Write one with `postrider init`, or name yours with -c FILE or POSTRIDER_CONFIG",
        ),
        _ => Fault::new(
            place,
            format!("cannot be read: {error}"),
            "Look at its permissions, or name another with -c",
        ),
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > CONFIG_BYTES_MAX {
        let problem = format!("has {bytes} bytes, more than any configuration ({CONFIG_BYTES_MAX})");
        return Err(Fault::new(place, problem, "Name the right file with -c"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Fault::new(
            format!("{place}:{line}"),
            "is not UTF-8 text",
            "Name the right file with -c, or save it as UTF-8",
        )
    })
}

#[cfg(test)]
mod tests;
