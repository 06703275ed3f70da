//! Starts a server on free ports and waits until it answers.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::port;
use super::process::{LOOK_EVERY, Process};
use super::user;

const DRAWS_MAX: usize = 5;
const READY_WITHIN: Duration = Duration::from_secs(90);
const LOG_LINES_SHOWN: usize = 15;

/// Where a server lives, and how long.
pub(crate) struct Place {
    /// Its own folder: data and logs.
    pub(crate) folder: PathBuf,
    /// What was fetched, for all servers.
    pub(crate) fetched: PathBuf,
    /// Whether it ends with us.
    pub(crate) tied: bool,
    /// How many brokers a cluster has.
    pub(crate) brokers: usize,
}

impl Place {
    /// The folder anew, empty, and owned by who runs the server.
    pub(crate) fn clear(&self) -> Result<(), String> {
        remove(&self.folder)?;
        user::create_folder(&self.folder)
    }

    /// A command by which a server is started here; `signal` ends it when we are gone.
    pub(crate) fn server(&self, program: impl AsRef<Path>, signal: &str) -> Command {
        let mut command = user::command(program.as_ref(), self.tied.then_some(signal));
        command.current_dir(&self.folder);
        command
    }

    /// A file for the server to read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.folder.join(name), text)
            .map_err(|error| format!("cannot write into {}: {error}", self.folder.display()))
    }

    /// A server of one process.
    pub(crate) fn launch_one(
        &self,
        word: &str,
        mut command: impl FnMut(u16) -> Result<Command, String>,
        answers: impl Fn(u16) -> bool,
    ) -> Result<Launched, String> {
        let plan =
            |ports: &[u16]| Ok(vec![Start { command: command(ports[0])?, log: self.folder.join("log") }]);
        launch(word, 1, plan, |ports| answers(ports[0]))
    }
}

/// A server that answers, of one process or several.
pub(crate) struct Launched {
    pub(crate) processes: Vec<Process>,
    /// Held, so that they are seen to end.
    pub(crate) children: Vec<Child>,
    pub(crate) ports: Vec<u16>,
}

/// A process to start, and where it logs.
pub(crate) struct Start {
    pub(crate) command: Command,
    pub(crate) log: PathBuf,
}

/// Starts what `plan` says for the drawn ports. It counts as started when each log says so by the word, every port
/// answers, `answers` holds, and each process is still there: somebody else may have taken a port and be answering.
pub(crate) fn launch(
    word: &str,
    ports: usize,
    mut plan: impl FnMut(&[u16]) -> Result<Vec<Start>, String>,
    answers: impl Fn(&[u16]) -> bool,
) -> Result<Launched, String> {
    let mut problem = String::new();
    for _ in 0..DRAWS_MAX {
        if !problem.is_empty() {
            println!("    {problem}\n    once more, on other ports");
        }
        let ports = port::draw(ports)?;
        let mut starts = plan(&ports)?;
        let mut children = Children(Vec::new());
        for start in &mut starts {
            children.0.push(spawn(&mut start.command, &start.log)?);
        }
        let says_so = |start: &Start| read(&start.log).contains(word);
        let ready =
            || starts.iter().all(says_so) && ports.iter().all(|port| port::answers(*port)) && answers(&ports);
        match wait(&mut children.0, ready) {
            Ok(processes) => {
                let children = std::mem::take(&mut children.0);
                return Ok(Launched { processes, children, ports });
            }
            Err(why) => {
                let logs: Vec<String> = starts.iter().map(|start| last_lines(&start.log)).collect();
                problem = format!("{why}\n{}", logs.join("\n"));
            }
        }
    }
    Err(problem)
}

/// Ended when dropped: half a server is none.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot_start = |error| format!("cannot start {program}, with its log in {}: {error}", log.display());
    // Anew: what an earlier start said must not count.
    File::create(log).map_err(cannot_start)?;
    let out = File::options().append(true).open(log).map_err(cannot_start)?;
    let err = out.try_clone().map_err(cannot_start)?;
    // In a group of its own: an interrupt at the terminal is for us, and we end our servers in order.
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn().map_err(cannot_start)
}

fn wait(children: &mut [Child], ready: impl Fn() -> bool) -> Result<Vec<Process>, String> {
    let start = Instant::now();
    loop {
        let is_ready = ready();
        for child in &mut *children {
            let status = child.try_wait().map_err(|error| format!("cannot watch the server: {error}"))?;
            if let Some(status) = status {
                return Err(format!("the server ended with {status}"));
            }
        }
        let processes: Vec<Process> = children.iter().filter_map(|child| Process::of(child.id())).collect();
        if is_ready && processes.len() == children.len() {
            return Ok(processes);
        }
        if start.elapsed() > READY_WITHIN {
            return Err(format!("the server did not answer within {} s", READY_WITHIN.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn read(log: &Path) -> String {
    std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn last_lines(log: &Path) -> String {
    let text = read(log);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n    ");
    format!("    {}:\n    {shown}", log.display())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("postrider-launch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn start(folder: &Path, script: &str) -> Start {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Start { command, log: folder.join("log") }
    }

    #[test]
    fn a_port_that_was_taken_meanwhile_is_drawn_again() {
        let folder = folder("taken");
        let (mut listeners, mut draws) = (Vec::new(), Vec::new());
        let plan = |ports: &[u16]| {
            // Somebody listens at the first port before the server can: it answers, and the server ends.
            listeners.push(TcpListener::bind(("127.0.0.1", ports[0])));
            draws.push(ports[0]);
            let ends = draws.len() == 1;
            Ok(vec![start(&folder, if ends { "sleep 0.1; exit 98" } else { "echo ready; exec sleep 300" })])
        };
        let mut launched = launch("ready", 1, plan, |_| true).unwrap();
        assert_eq!(draws.len(), 2);
        assert_eq!(launched.ports, [draws[1]]);
        launched.processes[0].end("KILL").unwrap();
        launched.children[0].wait().unwrap();
        remove(&folder).unwrap();
    }

    #[test]
    fn of_several_processes_none_stays_when_one_ends() {
        let folder = folder("half");
        let mut pids = Vec::new();
        let plan = |_: &[u16]| {
            let noted = folder.join("pid");
            pids.extend(std::fs::read_to_string(&noted).ok());
            let stays = start(&folder, &format!("echo $$ > {}; exec sleep 300", noted.display()));
            Ok(vec![stays, start(&folder, "sleep 0.2; exit 3")])
        };
        assert!(launch("ready", 0, plan, |_| true).is_err());
        assert_eq!(pids.len(), DRAWS_MAX - 1);
        assert!(pids.iter().all(|pid| Process::of(pid.trim().parse().unwrap()).is_none()), "{pids:?}");
        remove(&folder).unwrap();
    }

    #[test]
    fn a_server_that_always_ends_is_given_up_with_its_log() {
        let folder = folder("ends");
        let mut starts = 0;
        let plan = |_: &[u16]| {
            starts += 1;
            Ok(vec![start(&folder, "echo the disk is full; exit 3")])
        };
        let told = launch("disk", 1, plan, |_| true).err().unwrap();
        assert_eq!(starts, DRAWS_MAX);
        assert!(told.contains("exit status: 3") && told.contains("the disk is full"), "{told}");
        remove(&folder).unwrap();
    }
}
