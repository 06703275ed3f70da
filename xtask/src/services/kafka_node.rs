//! What makes a Kafka node: the same for the shared server and for the private ones of tests.

use std::path::Path;
use std::process::Command;

/// Where the jars are.
pub(crate) const JARS: &str = "POSTRIDER_TEST_KAFKA_JARS";
/// A cluster's name: 16 bytes in the web's base64. Every one has the same, and none knows of another.
pub(crate) const CLUSTER: &str = "cG9zdHJpZGVyLXRlc3RzIQ";
/// What a node logs when every listener of it is open.
pub(crate) const STARTED: &str = "Kafka Server started";
pub(crate) const LOGGING_FILE: &str = "log4j2.properties";
pub(crate) const LOGGING: &str = "\
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

/// A listener for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// In capital letters.
    pub(crate) name: String,
    /// `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
    pub(crate) protocol: String,
    pub(crate) port: u16,
    /// The port that clients are told: the listener's own, or that of a door before it.
    pub(crate) advertised: u16,
}

/// A node's own ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) clients: Vec<Listener>,
    /// For the brokers among themselves, never behind a door.
    pub(crate) brokers: u16,
    /// For the controllers.
    pub(crate) controller: u16,
}

/// The properties of node `id` (from 1) of a cluster, of which the first `controllers` nodes vote.
pub(crate) fn properties(id: usize, nodes: &[Node], controllers: usize, data: &Path) -> String {
    let node = &nodes[id - 1];
    let votes = id <= controllers;
    let at = |name: &str, port: u16| format!("{name}://127.0.0.1:{port}");
    let inside = [("BROKERS", node.brokers), ("CONTROLLER", node.controller)];
    let inside: Vec<String> =
        inside[..1 + usize::from(votes)].iter().map(|(name, port)| at(name, *port)).collect();
    let listeners = |port: fn(&Listener) -> u16| {
        let clients = node.clients.iter().map(|listener| at(&listener.name, port(listener)));
        clients.chain(inside.iter().cloned()).collect::<Vec<_>>().join(",")
    };
    let protocols = node.clients.iter().map(|listener| format!("{}:{}", listener.name, listener.protocol));
    let protocols: Vec<String> = protocols.collect();
    let voters = nodes[..controllers].iter().enumerate();
    let voters: Vec<String> =
        voters.map(|(at, node)| format!("{}@127.0.0.1:{}", at + 1, node.controller)).collect();
    let (copies, in_sync_min) = if nodes.len() < 3 { (1, 1) } else { (3, 2) };
    format!(
        "process.roles=broker{}
node.id={id}
controller.quorum.voters={}
listeners={}
advertised.listeners={}
inter.broker.listener.name=BROKERS
controller.listener.names=CONTROLLER
listener.security.protocol.map=BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT,{}
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
        if votes { ",controller" } else { "" },
        voters.join(","),
        listeners(|listener| listener.port),
        listeners(|listener| listener.advertised),
        protocols.join(","),
        data.display()
    )
}

/// Prepares a node's data. `further` are words of the tool's own, such as users.
pub(crate) fn format<'a>(
    java: &'a mut Command,
    jars: &Path,
    config: &str,
    further: &[String],
) -> &'a mut Command {
    // A short life is not worth the second compiler.
    java.arg("-XX:TieredStopAtLevel=1").arg("-cp").arg(jars.join("*"));
    java.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", config]).args(further)
}

/// Runs a node.
pub(crate) fn run<'a>(java: &'a mut Command, jars: &Path, config: &str) -> &'a mut Command {
    java.args(["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC"]);
    java.arg(format!("-Dlog4j2.configurationFile={LOGGING_FILE}"));
    java.arg("-cp").arg(jars.join("*")).args(["kafka.Kafka", config])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(first: u16) -> Node {
        let plain = Listener {
            name: "PLAIN".to_owned(),
            protocol: "PLAINTEXT".to_owned(),
            port: first,
            advertised: first + 3,
        };
        Node { clients: vec![plain], brokers: first + 1, controller: first + 2 }
    }

    #[test]
    fn a_cluster_knows_its_voters_and_keeps_three_copies() {
        let nodes = [node(10), node(20), node(30)];
        let second = properties(2, &nodes, 2, Path::new("/d"));
        for line in [
            "process.roles=broker,controller",
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:12,2@127.0.0.1:22",
            "listeners=PLAIN://127.0.0.1:20,BROKERS://127.0.0.1:21,CONTROLLER://127.0.0.1:22",
            "advertised.listeners=PLAIN://127.0.0.1:23,BROKERS://127.0.0.1:21,CONTROLLER://127.0.0.1:22",
            "default.replication.factor=3",
            "min.insync.replicas=2",
        ] {
            assert!(second.lines().any(|found| found == line), "{line} is not in {second}");
        }
        let third = properties(3, &nodes, 2, Path::new("/d"));
        assert!(third.contains("process.roles=broker\n"), "{third}");
        assert!(third.contains("\nlisteners=PLAIN://127.0.0.1:30,BROKERS://127.0.0.1:31\n"), "{third}");
        let alone = properties(1, &nodes[..1], 1, Path::new("/d"));
        assert!(alone.contains("default.replication.factor=1\n"), "{alone}");
    }
}
