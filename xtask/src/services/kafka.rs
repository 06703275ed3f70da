//! Apache Kafka without a keeper (KRaft), from its Maven artifacts: one broker, or a cluster.

use std::path::{Path, PathBuf};

use super::Started;
use super::env::Env;
use super::fetch;
use super::kafka_node::{self, JARS, LOGGING, LOGGING_FILE, Listener, Node, STARTED};
use super::launch::{Place, Start, launch};
use super::user;

pub(crate) const BROKERS: &str = "POSTRIDER_TEST_KAFKA";

const VERSION: &str = "4.3.1";
/// The tools are for tests: Kafka's own console consumer, and commands that no client library has.
const ARTIFACTS: &[&str] = &[
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
];
/// Each node has a port for clients, one for its fellow brokers and one for the controllers.
const PORTS: usize = 3;

pub(crate) fn start(place: &Place) -> Result<Started, String> {
    let jars = jars(&place.fetched)?;
    let brokers = place.brokers;
    let plan = |ports: &[u16]| {
        place.clear()?;
        place.write(LOGGING_FILE, LOGGING)?;
        let nodes: Vec<Node> = ports.chunks(PORTS).map(node).collect();
        (1..=brokers).map(|id| prepare(place, &jars, id, &nodes)).collect()
    };
    let launched = launch(STARTED, PORTS * brokers, plan, |_| true)?;
    let clients: Vec<String> =
        launched.ports.chunks(PORTS).map(|ports| format!("127.0.0.1:{}", ports[0])).collect();
    let mut env = Env::default();
    env.set(BROKERS, clients.join(","));
    env.set(JARS, jars.to_string_lossy());
    // Its data go with it; and the last of a cluster would look for the others for a long time.
    Ok(Started::new(launched, "KILL", env))
}

/// What private servers of tests are made of too.
pub(crate) fn jars(fetched: &Path) -> Result<PathBuf, String> {
    fetch::debian("java", &["openjdk-17-jre-headless"])?;
    // Named by what is in it: a folder of before, without the tools, is not taken for it.
    fetch::maven(&fetched.join(format!("kafka-and-tools-{VERSION}")), ARTIFACTS)
}

fn node(ports: &[u16]) -> Node {
    let (name, protocol) = ("CLIENTS".to_owned(), "PLAINTEXT".to_owned());
    let clients = Listener { name, protocol, port: ports[0], advertised: ports[0] };
    Node { clients: vec![clients], brokers: ports[1], controller: ports[2] }
}

fn prepare(place: &Place, jars: &Path, id: usize, nodes: &[Node]) -> Result<Start, String> {
    let config = format!("node-{id}.properties");
    let data = place.folder.join(format!("data-{id}"));
    place.write(&config, &kafka_node::properties(id, nodes, nodes.len(), &data))?;
    let mut format = user::command("java", None);
    fetch::run(kafka_node::format(&mut format, jars, &config, &[]).current_dir(&place.folder))?;
    let mut command = place.server("java", "KILL");
    kafka_node::run(&mut command, jars, &config);
    Ok(Start { command, log: place.folder.join(format!("log-{id}")) })
}
