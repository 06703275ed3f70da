//! A Kafka of the test's own, of one broker or several, to be killed, frozen, cut off and started again.

mod broker;
mod options;
mod torn;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use options::{KafkaListener, KafkaOptions};

use crate::kafka_node::{self, JARS, LOGGING, LOGGING_FILE, Node};
use crate::{Door, address, folder, keeper, user, wait};
use broker::Broker;
use options::PLAIN;

const DRAWS_MAX: usize = 5;

/// Brokers on free ports with data of their own, each with a door before each listener. They end, and their data go, with
/// this value or with the process. What takes a `node` takes the broker's number, from 1. All of it blocks the thread.
#[derive(Debug)]
pub struct PrivateKafka {
    folder: PathBuf,
    jars: PathBuf,
    options: KafkaOptions,
    brokers: Vec<Broker>,
}

impl PrivateKafka {
    /// Creates and starts one broker; takes some seconds.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&KafkaOptions::default())
    }

    /// The same, with something beyond the usual.
    #[must_use]
    pub fn start_with(options: &KafkaOptions) -> Self {
        let jars = address::needed(JARS).into();
        let mut kafka =
            Self { folder: folder::create(), jars, options: options.clone(), brokers: Vec::new() };
        kafka.put(LOGGING_FILE, LOGGING.as_bytes());
        for (name, text) in options.all_files() {
            kafka.put(&name, &text);
        }
        for _ in 0..DRAWS_MAX {
            kafka.draw();
            kafka.format();
            if kafka.try_start(&kafka.nodes()) {
                return kafka;
            }
        }
        panic!("Kafka does not start:\n{}", kafka.logs());
    }

    /// Where clients find it, through the doors.
    #[must_use]
    pub fn brokers(&self) -> String {
        self.brokers_at(PLAIN)
    }

    /// The same by another listener.
    #[must_use]
    pub fn brokers_at(&self, listener: &str) -> String {
        let at = self.listener(listener);
        joined(self.brokers.iter().map(|broker| broker.doors[at].port()))
    }

    /// Where the test itself finds it: past all doors, without TLS or login, with every right.
    #[must_use]
    pub fn inside(&self) -> String {
        joined(self.brokers.iter().map(|broker| broker.node.brokers))
    }

    /// All brokers' numbers.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        (1..=self.brokers.len()).collect()
    }

    /// The door before a broker.
    pub fn door(&mut self, node: usize) -> &mut Door {
        self.door_at(PLAIN, node)
    }

    /// The door before another listener of it.
    pub fn door_at(&mut self, listener: &str, node: usize) -> &mut Door {
        let at = self.listener(listener);
        &mut self.brokers[node - 1].doors[at]
    }

    /// All doors, to be cut, stalled or slowed together.
    pub fn doors(&self) -> impl Iterator<Item = &Door> {
        self.brokers.iter().flat_map(|broker| &broker.doors)
    }

    /// A broker's process; none while it does not run.
    #[must_use]
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.brokers[node - 1].pid()
    }

    /// What a broker has logged since it was started.
    #[must_use]
    pub fn log(&self, node: usize) -> String {
        self.brokers[node - 1].log()
    }

    /// Where a broker's log is, which begins anew with each start.
    #[must_use]
    pub fn log_file(&self, node: usize) -> PathBuf {
        self.brokers[node - 1].log_file().to_owned()
    }

    /// SIGKILL. Nothing is tidied up.
    pub fn kill(&mut self, node: usize) {
        self.brokers[node - 1].kill();
    }

    /// Stops a broker in order: its leaderships move to others first.
    pub fn stop(&mut self, node: usize) {
        self.brokers[node - 1].stop();
    }

    /// SIGSTOP: connections stand, and nothing is answered.
    pub fn freeze(&self, node: usize) {
        self.brokers[node - 1].freeze();
    }

    /// Lets a frozen broker go on.
    pub fn thaw(&self, node: usize) {
        self.brokers[node - 1].thaw();
    }

    /// Starts a broker again on the same ports, killed before if it still runs. A majority of the controllers has to
    /// live, counting this one: see [`Self::restart_all`].
    pub fn restart(&mut self, node: usize) {
        self.restart_these(&[node]);
    }

    /// Starts all of them again.
    pub fn restart_all(&mut self) {
        self.restart_these(&self.nodes());
    }

    /// Lines of the properties that count from the next start on, more than those before them.
    pub fn configure(&mut self, lines: &[&str]) {
        self.options.settings.extend(lines.iter().map(|line| (*line).to_owned()));
        self.write_properties();
    }

    /// Shows other certificates at a listener, from the next start on.
    pub fn certify(&mut self, listener: &str, certificates: &crate::Certificates) {
        let at = self.listener(listener) - 1;
        self.options.listeners[at].certificates = Some(certificates.clone());
        for (name, text) in self.options.all_files() {
            self.put(&name, &text);
        }
    }

    /// Cuts the last batch off a partition's log: the broker, which must not run, has lost it when it is started again.
    pub fn lose_last_batch(&self, node: usize, topic: &str, partition: usize) {
        torn::lose_last_batch(&self.data(node).join(format!("{topic}-{partition}")));
    }

    /// Runs one of Kafka's own tools from inside, such as `kafka.admin.ConfigCommand`; answers what it said.
    pub fn tool(&self, class: &str, args: &[&str]) -> String {
        let inside = self.inside();
        kafka_tool(class, &[&["--bootstrap-server", &inside], args].concat())
    }

    fn restart_these(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.kill(*node);
        }
        // Somebody may hold a port for a moment: the addresses must stay the same, so wait.
        let started = wait::within_deadline(|| self.try_start(nodes));
        assert!(started, "Kafka does not start again:\n{}", self.logs());
    }

    /// Whether all of these have come up.
    fn try_start(&mut self, nodes: &[usize]) -> bool {
        let Self { folder, jars, options, brokers } = self;
        let mut started: Vec<&mut Broker> =
            brokers.iter_mut().filter(|broker| nodes.contains(&broker.id)).collect();
        for broker in &mut started {
            broker.launch(folder, jars);
        }
        let mut ended = false;
        let settled = wait::within_deadline(|| {
            ended = started.iter_mut().any(|broker| broker.has_ended());
            ended || started.iter_mut().all(|broker| broker.is_up(broker.id <= options.controllers))
        });
        if settled && !ended {
            return true;
        }
        for broker in started {
            broker.kill();
        }
        false
    }

    /// Ports and doors anew, all of them.
    fn draw(&mut self) {
        let listeners = self.options.all_listeners();
        // The old ones go first: their ports are not drawn again.
        self.brokers.clear();
        self.brokers =
            (1..=self.options.brokers).map(|id| Broker::draw(id, &listeners, &self.folder)).collect();
        self.write_properties();
    }

    fn write_properties(&self) {
        let nodes: Vec<Node> = self.brokers.iter().map(|broker| broker.node.clone()).collect();
        for broker in &self.brokers {
            let usual =
                kafka_node::properties(broker.id, &nodes, self.options.controllers, &self.data(broker.id));
            let text = format!("{usual}{}\n", self.options.lines().join("\n"));
            self.put(&broker.config(), text.as_bytes());
        }
    }

    /// All of them at the same time: most of it is Java that starts.
    fn format(&self) {
        let format = |broker: &Broker| {
            let _ = std::fs::remove_dir_all(self.data(broker.id));
            let mut java = user::command("java", Some("KILL"));
            kafka_node::format(&mut java, &self.jars, &broker.config(), &self.options.storage());
            java.current_dir(&self.folder);
            begun(java)
        };
        let formats: Vec<Child> = self.brokers.iter().map(format).collect();
        formats.into_iter().for_each(|child| drop(output(child, "the storage is formatted")));
    }

    fn put(&self, name: &str, text: &[u8]) {
        let path = self.folder.join(name);
        std::fs::write(&path, text)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }

    fn data(&self, id: usize) -> PathBuf {
        self.folder.join(format!("data-{id}"))
    }

    fn logs(&self) -> String {
        self.brokers.iter().map(|broker| format!("node {}:\n{}", broker.id, broker.log())).collect()
    }

    fn listener(&self, name: &str) -> usize {
        let listeners = self.options.all_listeners();
        let found = listeners.iter().position(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("there is no listener {name} among {listeners:?}"))
    }
}

impl Drop for PrivateKafka {
    fn drop(&mut self) {
        self.brokers.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs one of Kafka's own tools, such as `org.apache.kafka.tools.consumer.ConsoleConsumer`, to its end; answers what it
/// said. Panics when it fails.
pub fn kafka_tool(class: &str, args: &[&str]) -> String {
    let jars = PathBuf::from(address::needed(JARS));
    let mut java = user::command("java", Some("KILL"));
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]).arg(jars.join("*"));
    java.arg(class).args(args).current_dir(Path::new("/"));
    output(begun(java), class)
}

fn begun(mut java: Command) -> Child {
    java.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    keeper::start(java).expect("Java can be started")
}

fn output(child: Child, what: &str) -> String {
    let done = child.wait_with_output().expect("a child of ours can be awaited");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{what}: {said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

fn joined(ports: impl Iterator<Item = u16>) -> String {
    ports.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
}
