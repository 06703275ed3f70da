//! The sinks that the configuration names. A new broker is one line here.

pub(crate) mod kafka;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use postrider_core::clock::Clock;
use postrider_core::layout::Layout;
use postrider_core::nearest::nearest;
use postrider_core::sink::Sink;
use postrider_core::{Fault, Text};
use postrider_file::{FileConfig, FileSink, NullSink};
use postrider_kafka::KafkaSink;

use crate::config::{self, Config, Property, size};
use crate::exit::{Code, Failure};
use crate::outbox;

/// Sinks by name, the first one first.
pub(crate) type Sinks = Vec<(Text, Arc<dyn Sink>)>;

/// Schemes that the design knows and this build does not have.
const LATER: &[&str] = &["nats", "amqp", "amqps", "redis", "rediss", "http", "https", "mqtt"];

/// Makes every sink; none is reached yet.
pub(crate) fn open(config: &Config, layout: &Layout, clock: &Arc<dyn Clock>) -> Result<Sinks, Failure> {
    let open = |sink: &config::Sink| Ok((sink.name.clone(), one(sink, config, layout, clock)?));
    config
        .sinks
        .iter()
        .map(open)
        .collect::<Result<_, Fault>>()
        .map_err(|fault| Failure::new(Code::Usage, fault))
}

fn one(
    sink: &config::Sink,
    config: &Config,
    layout: &Layout,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Sink>, Fault> {
    let url = sink.url.reveal();
    let payload_bytes_max = config.outbox.payload_bytes_max;
    match url.split(':').next().unwrap_or_default() {
        "kafka" => {
            let kafka = kafka::config(sink, config, layout)?;
            Ok(Arc::new(KafkaSink::open(kafka, clock.clone()).map_err(|fault| at(sink, fault))?))
        }
        "file" => {
            let mut file = FileConfig::from_url(url).map_err(|fault| at(sink, fault))?;
            file.payload_bytes_max = payload_bytes_max;
            for (name, given) in known(sink, &["rotate_bytes"])? {
                file.rotate_bytes = bytes(sink, name, given)?;
            }
            not_the_outbox(sink, &file.path, config)?;
            Ok(Arc::new(FileSink::open(file, clock.clone())?))
        }
        "stdout" => {
            known(sink, &[])?;
            Ok(Arc::new(FileSink::stdout(payload_bytes_max, clock.clone())?))
        }
        "null" => {
            known(sink, &[])?;
            Ok(Arc::new(NullSink::default()))
        }
        scheme if LATER.contains(&scheme) => Err(Fault::new(
            &sink.place,
            format!("sink \"{}\": {scheme}:// is not in this build yet", sink.name),
            "Use kafka://, file://, stdout: or null:",
        )),
        _ => Err(Fault::new(
            &sink.place,
            format!("sink \"{}\": its url {} names no kind of sink", sink.name, sink.url),
            "Write kafka://host:9092, file://relative.jsonl, file:///absolute.jsonl, stdout: or null:",
        )),
    }
}

/// Events appended to the database's own files would destroy it.
fn not_the_outbox(sink: &config::Sink, path: &Path, config: &Config) -> Result<(), Fault> {
    let Some(database) = outbox::sqlite::path(config) else { return Ok(()) };
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut owned = database.clone().into_os_string();
        owned.push(suffix);
        if is_same(path, Path::new(&owned)) {
            return Err(Fault::new(
                &sink.place,
                format!("sink \"{}\": {} is the outbox's own database", sink.name, path.display()),
                "Name another file: events written into the database would destroy it",
            ));
        }
    }
    Ok(())
}

/// By what is on the disk; by name where nothing is there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let named = |path: &Path| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    one == other || named(one).is_some_and(|one| Some(one) == named(other))
}

/// The properties, if each is one that the sink has.
fn known<'a>(sink: &'a config::Sink, names: &[&str]) -> Result<&'a BTreeMap<String, Property>, Fault> {
    match sink.properties.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        None => Ok(&sink.properties),
        Some((name, given)) => {
            let remedy = match nearest(name, names.iter().copied()) {
                Some(near) => format!("Did you mean \"{near}\"?"),
                None if names.is_empty() => "Remove it: this kind of sink has no properties".to_owned(),
                None => format!("Known here: {}", names.join(", ")),
            };
            Err(Fault::new(
                &given.place,
                format!("sink \"{}\" has no property \"{name}\"", sink.name),
                remedy,
            ))
        }
    }
}

fn bytes(sink: &config::Sink, name: &str, given: &Property) -> Result<u64, Fault> {
    let parsed = match &given.value {
        toml::Value::Integer(bytes) => {
            u64::try_from(*bytes).map_err(|_| "a size cannot be negative".to_owned())
        }
        toml::Value::String(text) => size::parse(text).map(|bytes| bytes as u64),
        _ => Err("this is not a size".to_owned()),
    };
    parsed.map_err(|problem| {
        Fault::new(
            &given.place,
            format!("sink \"{}\": {name}: {problem}", sink.name),
            "Write one like \"64MiB\"",
        )
    })
}

fn at(sink: &config::Sink, fault: Fault) -> Fault {
    Fault::new(&sink.place, format!("sink \"{}\": {}", sink.name, fault.problem), fault.remedy)
}
