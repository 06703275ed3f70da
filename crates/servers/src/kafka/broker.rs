//! One node of a private Kafka: its process, and the doors before it.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::kafka_node::{self, Listener, Node, STARTED};
use crate::process::Process;
use crate::{Door, freeze, keeper, own_port, port, user};

/// A node by its number, from 1.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) id: usize,
    pub(crate) node: Node,
    /// One before each listener, in the listeners' order.
    pub(crate) doors: Vec<Door>,
    log: PathBuf,
    running: Option<Child>,
}

impl Broker {
    /// On ports drawn just now, with its doors before them.
    pub(crate) fn draw(id: usize, listeners: &[(String, &'static str)], folder: &Path) -> Self {
        let (mut clients, mut doors) = (Vec::new(), Vec::new());
        for (name, protocol) in listeners {
            let port = own_port::draw();
            let door = Door::before(&format!("127.0.0.1:{port}"));
            let (name, protocol) = (name.to_uppercase(), (*protocol).to_owned());
            clients.push(Listener { name, protocol, port, advertised: door.port() });
            doors.push(door);
        }
        let node = Node { clients, brokers: own_port::draw(), controller: own_port::draw() };
        Self { id, node, doors, log: folder.join(format!("log-{id}")), running: None }
    }

    pub(crate) fn config(&self) -> String {
        format!("node-{}.properties", self.id)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    pub(crate) fn log_file(&self) -> &Path {
        &self.log
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log)
            .map_or_else(|_| String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// Starts the process; it is up when [`Self::is_up`] says so.
    pub(crate) fn launch(&mut self, folder: &Path, jars: &Path) {
        let mut java = user::command("java", Some("KILL"));
        // It lives for seconds: the second compiler would only be in the way.
        kafka_node::run(java.arg("-XX:TieredStopAtLevel=1"), jars, &self.config());
        File::create(&self.log).expect("a log");
        let log = OpenOptions::new().append(true).open(&self.log).expect("a log");
        java.stdout(log.try_clone().expect("a log")).stderr(log).stdin(Stdio::null());
        java.current_dir(folder).process_group(0);
        self.running = Some(keeper::start(java).expect("Kafka can be started"));
    }

    /// Whether its log says so, every port answers, and then it still lives. One that finds a port taken answers at the
    /// others for a moment, and ends then.
    pub(crate) fn is_up(&mut self, votes: bool) -> bool {
        let clients = self.node.clients.iter().map(|listener| listener.port);
        let mut ports = clients.chain([self.node.brokers]).chain(votes.then_some(self.node.controller));
        self.log().contains(STARTED) && ports.all(port::answers) && !self.has_ended()
    }

    /// Whether there is no process, or none any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        let watched = |child: &mut Child| child.try_wait().expect("a child of ours can be watched").is_some();
        self.running.as_mut().is_none_or(watched)
    }

    /// SIGKILL, also where it is frozen.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        let _ = child.kill();
        child.wait().expect("a child of ours can be awaited");
    }

    /// Stops it in order: it hands its leaderships over first.
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        if let Some(process) = Process::of(child.id()) {
            process.end("TERM").expect("Kafka stops");
        }
        child.wait().expect("a child of ours can be awaited");
    }

    /// SIGSTOP: connections stand, and nothing is answered.
    pub(crate) fn freeze(&self) {
        freeze::freeze(self.running.as_ref().expect("a broker that runs").id());
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        freeze::thaw(self.running.as_ref().expect("a broker that runs").id());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
