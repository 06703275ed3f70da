//! What servers are made of, by the ordinary clients of Maven and Debian.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::launch::remove;
use super::user;

const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);

/// Lets Maven copy artifacts (`group:name:version`) and what they need into `folder`, unless they are there.
pub(crate) fn maven(folder: &Path, artifacts: &[&str]) -> Result<PathBuf, String> {
    once(folder, |draft| {
        println!("    fetching {}, by Maven", artifacts.join(", "));
        if !is_there("mvn") {
            debian("mvn", &["maven"])?;
        }
        std::fs::write(draft.join("pom.xml"), pom(artifacts))
            .map_err(|error| format!("cannot write into {}: {error}", draft.display()))?;
        repeatedly(|| {
            let mut mvn = Command::new("mvn");
            mvn.current_dir(draft).args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=."]);
            run(&mut mvn)
        })
    })
}

/// Makes a folder exactly once: it has its name only when it is complete.
pub(crate) fn once(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    if folder.is_dir() {
        return Ok(folder.to_owned());
    }
    let draft = folder.with_extension("draft");
    remove(&draft)?;
    let cannot = |error| format!("cannot make {}: {error}", folder.display());
    std::fs::create_dir_all(&draft).map_err(cannot)?;
    fill(&draft)?;
    std::fs::rename(&draft, folder).map_err(cannot)?;
    Ok(folder.to_owned())
}

/// Installs Debian packages, unless the program that is wanted of them is there.
pub(crate) fn debian(program: &str, packages: &[&str]) -> Result<(), String> {
    if is_there(program) {
        return Ok(());
    }
    let packages = packages.join(" ");
    if user::other().is_none() {
        return Err(format!(
            "{program} is missing: `apt-get install {packages}` as root, or name a server of your own"
        ));
    }
    println!("    installing {packages}, by apt-get");
    let update = "apt-get -q -y update";
    let install = format!(
        "apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold install --no-install-recommends {packages}"
    );
    repeatedly(|| {
        let _quiet = Quiet::begin()?;
        // What is known of the packages may be too old, or nothing.
        apt(&install).or_else(|_| apt(update).and_then(|()| apt(&install)))
    })?;
    if is_there(program) { Ok(()) } else { Err(format!("the packages {packages} brought no {program}")) }
}

/// Whether a program is found, by path or by name.
pub(crate) fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_file()
        || std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Runs a command quietly; what it said is part of the problem if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{name} ended with {}:\n{}", output.status, String::from_utf8_lossy(&said).trim_end()))
}

fn apt(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    run(Command::new(words.next().unwrap_or("apt-get")).args(words).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn repeatedly(mut work: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    for _ in 1..TRIES_MAX {
        match work() {
            Ok(()) => return Ok(()),
            Err(problem) => println!("    {problem}\n    once more"),
        }
        std::thread::sleep(PAUSE);
    }
    work()
}

/// While it lives, packages start no servers when they are installed.
struct Quiet(Vec<PathBuf>);

impl Quiet {
    fn begin() -> Result<Self, String> {
        let mut quiet = Self(Vec::new());
        quiet.put("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")?;
        // Debian's package also creates a cluster of its own, which nobody here needs.
        quiet.put("/etc/postgresql-common/createcluster.conf", "create_main_cluster = false\n")?;
        Ok(quiet)
    }

    /// What an administrator has decided stays.
    fn put(&mut self, path: &str, text: &str) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let path = PathBuf::from(path);
        if path.exists() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.0.push(path);
        Ok(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn pom(artifacts: &[&str]) -> String {
    let dependency = |artifact: &&str| {
        let mut parts = artifact.split(':');
        let tags = ["groupId", "artifactId", "version", "type", "classifier"];
        let lines: String =
            tags.iter().zip(parts.by_ref()).map(|(tag, part)| format!("<{tag}>{part}</{tag}>")).collect();
        format!("  <dependency>{lines}</dependency>\n")
    };
    let dependencies: String = artifacts.iter().map(dependency).collect();
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>postrider</groupId>\n  \
         <artifactId>services</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_becomes_a_dependency() {
        let pom = pom(&["a.b:c:1.2", "d:e:3:zip:linux"]);
        assert!(pom.contains(
            "<dependency><groupId>a.b</groupId><artifactId>c</artifactId><version>1.2</version></dependency>"
        ));
        assert!(
            pom.contains("<version>3</version><type>zip</type><classifier>linux</classifier></dependency>")
        );
    }

    #[test]
    fn a_folder_has_its_name_only_when_it_is_complete() {
        let base = std::env::temp_dir().join(format!("postrider-once-{}", std::process::id()));
        let folder = base.join("made");
        assert!(once(&folder, |_| Err("no".to_owned())).is_err());
        assert!(!folder.exists());
        let fill = |draft: &Path| std::fs::write(draft.join("a"), "1").map_err(|error| error.to_string());
        once(&folder, fill).unwrap();
        assert!(folder.join("a").exists());
        once(&folder, |_| Err("it is made twice".to_owned())).unwrap();
        remove(&base).unwrap();
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(is_there("sh") && is_there("/bin/sh"));
        assert!(!is_there("no-such-program") && !is_there("/bin/no-such-program"));
    }
}
