//! Servers for one run of the tests: what stands is used and left, what is started here ends with it.

use std::process::Command;

use super::env::Env;
use super::launch::remove;
use super::process::Process;
use super::state::Standing;
use super::{DATA, Home, Service, Started};

const RUN: &str = "run-";

/// Ends what it has started when it is dropped. If we are killed, the kernel ends it: see `user::command`.
pub(crate) struct Session {
    home: Home,
    /// The name of this run's folder.
    run: String,
    started: Vec<(Service, Started)>,
    env: Env,
}

impl Session {
    pub(crate) fn open() -> Result<Self, String> {
        let home = Home::open()?;
        let _alone = home.lock()?;
        sweep(&home)?;
        let run = format!("{RUN}{}", std::process::id());
        let mut env = Env::default();
        // The private servers of tests lie there too: what a killed run leaves, the next one sweeps away.
        let folder = home.data.join(&run);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        env.set(DATA, folder.to_string_lossy());
        Ok(Self { home, run, started: Vec::new(), env })
    }

    /// The user's own server, one that stands, or a new one.
    pub(crate) fn bring(&mut self, service: Service) -> Result<(), String> {
        let name = service.name();
        let _alone = self.home.lock()?;
        if std::env::var_os(service.variable()).is_some() {
            println!("    {name}: yours, by {}", service.variable());
            self.env.extend(&service.beside(&self.home.place(service, None).fetched)?);
        } else if let Some(standing) = Standing::find(&self.home, service).filter(Standing::lives) {
            println!("    {name}: as `services up` started it");
            self.env.extend(&standing.env);
        } else {
            let place = self.home.place(service, Some(&self.run));
            let started = service.start(&place, &self.env)?;
            println!("    {name}: process {}, in {}", started.processes[0].pid, place.folder.display());
            self.env.extend(&started.env);
            self.started.push((service, started));
        }
        Ok(())
    }

    /// Only the programs, for whoever starts a server of their own.
    pub(crate) fn fetch(&mut self, service: Service) -> Result<(), String> {
        let _alone = self.home.lock()?;
        self.env.extend(&service.beside(&self.home.place(service, None).fetched)?);
        Ok(())
    }

    /// Tells a command where the servers are.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.env.iter())
    }

    /// Ends what was started here.
    pub(crate) fn close(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        let problem = |service: &Service, why: String| format!("{}: {why}", service.name());
        let started = std::mem::take(&mut self.started);
        let ended = started
            .into_iter()
            .rev()
            .map(|(service, mut started)| started.end().map_err(|why| problem(&service, why)));
        // All of them, before the first problem is told.
        let ended: Vec<Result<(), String>> = ended.collect();
        ended.into_iter().collect::<Result<(), String>>()?;
        remove(&self.home.data.join(&self.run))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(problem) = self.end() {
            eprintln!("error: {problem}");
        }
    }
}

/// Removes what killed runs have left.
fn sweep(home: &Home) -> Result<(), String> {
    let Ok(folders) = std::fs::read_dir(&home.data) else { return Ok(()) };
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(RUN).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid: u32| pid == std::process::id() || Process::of(pid).is_none()) {
            remove(&folder.path())?;
        }
    }
    Ok(())
}
