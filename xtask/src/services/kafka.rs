//! Apache Kafka without a keeper (KRaft), from its Maven artifacts: one broker, or a cluster.

use std::path::Path;
use std::process::Command;

use super::Started;
use super::env::Env;
use super::fetch;
use super::launch::{Place, Start, launch};
use super::user;

pub(crate) const BROKERS: &str = "POSTRIDER_TEST_KAFKA";

const VERSION: &str = "4.3.1";
const ARTIFACTS: &[&str] =
    &["org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"];
/// A cluster's name: 16 bytes in the web's base64. Every one has the same, and none knows of another.
const CLUSTER: &str = "cG9zdHJpZGVyLXRlc3RzIQ";
const LOGGING: &str = "\
rootLogger.level = WARN
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
logger.server.name = kafka.server
logger.server.level = INFO
";

pub(crate) fn start(place: &Place) -> Result<Started, String> {
    fetch::debian("java", &["openjdk-17-jre-headless"])?;
    let jars = fetch::maven(&place.fetched.join(format!("kafka-{VERSION}")), ARTIFACTS)?;
    let brokers = place.brokers;
    let plan = |ports: &[u16]| {
        place.clear()?;
        place.write("log4j2.properties", LOGGING)?;
        (1..=brokers).map(|node| prepare(place, &jars, node, ports)).collect()
    };
    // Each node has a port for clients and one for its peers.
    let launched = launch("Kafka Server started", 2 * brokers, plan, |_| true)?;
    let clients: Vec<String> =
        launched.ports[..brokers].iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut env = Env::default();
    env.set(BROKERS, clients.join(","));
    // Its data go with it; and the last of a cluster would look for the others for a long time.
    Ok(Started::new(launched, "KILL", env))
}

fn prepare(place: &Place, jars: &Path, node: usize, ports: &[u16]) -> Result<Start, String> {
    let config = format!("node-{node}.properties");
    let data = place.folder.join(format!("data-{node}"));
    place.write(&config, &properties(node, ports, &data))?;
    let jars = jars.join("*");
    let mut format = user::command("java", None);
    format.arg("-cp").arg(&jars).args(["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", &config]);
    fetch::run(format.current_dir(&place.folder))?;
    let mut command: Command = place.server("java", "KILL");
    command.args([
        "-Xmx384m",
        "-Xms128m",
        "-XX:+UseSerialGC",
        "-Dlog4j2.configurationFile=log4j2.properties",
    ]);
    command.arg("-cp").arg(&jars).args(["kafka.Kafka", &config]);
    Ok(Start { command, log: place.folder.join(format!("log-{node}")) })
}

/// The first half of the ports is for clients, the second for the nodes among themselves.
fn properties(node: usize, ports: &[u16], data: &Path) -> String {
    let (clients, peers) = ports.split_at(ports.len() / 2);
    let voters: Vec<String> =
        peers.iter().enumerate().map(|(at, port)| format!("{}@127.0.0.1:{port}", at + 1)).collect();
    let listeners =
        format!("PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}", clients[node - 1], peers[node - 1]);
    let (copies, in_sync_min) = if clients.len() < 3 { (1, 1) } else { (3, 2) };
    format!(
        "process.roles=broker,controller
node.id={node}
controller.quorum.voters={}
listeners={listeners}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={}
default.replication.factor={copies}
min.insync.replicas={in_sync_min}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync_min}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync_min}
group.initial.rebalance.delay.ms=0
",
        voters.join(","),
        data.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_knows_all_its_voters_and_keeps_three_copies() {
        let second = properties(2, &[1, 2, 3, 4, 5, 6], Path::new("/d"));
        assert!(second.contains("node.id=2\n"));
        assert!(second.contains("controller.quorum.voters=1@127.0.0.1:4,2@127.0.0.1:5,3@127.0.0.1:6\n"));
        assert!(second.contains("\nlisteners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:5\n"));
        assert!(second.contains("default.replication.factor=3\nmin.insync.replicas=2\n"));
        assert!(properties(1, &[1, 2], Path::new("/d")).contains("default.replication.factor=1\n"));
    }
}
