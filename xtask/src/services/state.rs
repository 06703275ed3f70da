//! What `services up` notes of a server, so that `down` and the tests find it.

use std::path::PathBuf;

use super::env::Env;
use super::process::Process;
use super::{DATA, Home, Service, Started};

const PROCESSES: &str = "processes";
const SIGNAL: &str = "signal";

/// A server that stands until `down`.
pub(crate) struct Standing {
    pub(crate) processes: Vec<Process>,
    pub(crate) signal: String,
    pub(crate) env: Env,
}

impl Standing {
    pub(crate) fn find(home: &Home, service: Service) -> Option<Self> {
        Env::read(&file(home, service)).and_then(|noted| Self::parse(&noted))
    }

    pub(crate) fn lives(&self) -> bool {
        self.processes.iter().all(|process| process.lives())
    }

    pub(crate) fn end(&self) -> Result<(), String> {
        self.processes.iter().try_for_each(|process| process.end(&self.signal))
    }

    fn parse(noted: &Env) -> Option<Self> {
        let process = |word: &str| {
            let (pid, started) = word.split_once(':')?;
            Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
        };
        let processes = noted.get(PROCESSES)?.split_whitespace().map(process).collect::<Option<Vec<_>>>()?;
        let mut env = Env::default();
        let told = noted.iter().filter(|(key, _)| ![PROCESSES, SIGNAL].contains(key));
        told.for_each(|(key, value)| env.set(key, value));
        (!processes.is_empty()).then_some(Self { processes, signal: noted.get(SIGNAL)?.to_owned(), env })
    }
}

/// Notes that it stands.
pub(crate) fn note(home: &Home, service: Service, started: &Started) -> Result<(), String> {
    noted(started).write(&file(home, service))
}

/// Writes the addresses of all servers that stand to where tests look for them.
pub(crate) fn tell(home: &Home) -> Result<(), String> {
    let mut env = Env::default();
    env.set(DATA, home.data.to_string_lossy());
    let standing = Service::ALL.into_iter().filter_map(|service| Standing::find(home, service));
    standing.filter(Standing::lives).for_each(|standing| env.extend(&standing.env));
    env.write(&home.env_file())
}

fn noted(started: &Started) -> Env {
    let mut noted = Env::default();
    let processes = started.processes.iter().map(|process| format!("{}:{}", process.pid, process.started));
    noted.set(PROCESSES, processes.collect::<Vec<_>>().join(" "));
    noted.set(SIGNAL, started.signal);
    noted.extend(&started.env);
    noted
}

fn file(home: &Home, service: Service) -> PathBuf {
    home.place(service, None).folder.join("state")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_again() {
        let processes = vec![Process { pid: 7, started: 8 }, Process { pid: 9, started: 10 }];
        let mut env = Env::default();
        env.set("A", "1");
        let started = Started { processes: processes.clone(), children: Vec::new(), signal: "INT", env };
        let standing = Standing::parse(&noted(&started)).unwrap();
        assert_eq!(standing.processes, processes);
        assert_eq!(standing.signal, "INT");
        assert_eq!(standing.env, Env::parse("A=1"));
    }

    #[test]
    fn half_a_note_is_none() {
        for noted in ["", "processes=7:8", "signal=INT", "processes=\nsignal=INT", "processes=7\nsignal=INT"]
        {
            assert!(Standing::parse(&Env::parse(noted)).is_none(), "{noted}");
        }
    }
}
