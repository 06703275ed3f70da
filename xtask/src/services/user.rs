//! Who runs the servers: several refuse to run as root, so root runs them as `nobody`.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user and group of `nobody`, when we are root.
pub(crate) fn other() -> Option<(u32, u32)> {
    (ours()? == 0).then(|| {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        nobody(&users).unwrap_or((65_534, 65_534))
    })
}

/// Ends at once when the parent is gone already: the kernel's signal would never come.
const UNLESS_ORPHANED: &str = "test \"$PPID\" = \"$0\" || exit 1; exec \"$@\"";

/// A command that runs as that user. `tied_by` is the signal that it gets when the thread that starts it is gone.
pub(crate) fn command(program: impl AsRef<OsStr>, tied_by: Option<&str>) -> Command {
    let other = other();
    if other.is_none() && tied_by.is_none() {
        return Command::new(program);
    }
    // Whoever was started in the background ignores some signals, and hands that on.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,QUIT", "setpriv"]);
    if let Some((user, group)) = other {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    if let Some(signal) = tied_by {
        command.args(["--pdeathsig", signal, "--", "sh", "-c", UNLESS_ORPHANED]);
        command.arg(std::process::id().to_string());
    } else {
        command.arg("--");
    }
    command.arg(program);
    command
}

/// Creates a folder that this user may write to.
pub(crate) fn create_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path)
        .and_then(|()| other().map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group))))
        .map_err(|error| format!("cannot create {}: {error}", path.display()))
}

/// The folder itself if that user can get there, else one of ours under the system's folder for such things.
pub(crate) fn reachable(folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    if other().is_none() || folder.ancestors().all(open_to_all) {
        return Ok(folder.to_owned());
    }
    let elsewhere = std::env::temp_dir().join(format!("postrider-services-{:016x}", digest(folder)));
    let refused = |why: &str| format!("cannot use {}: {why}", elsewhere.display());
    std::fs::create_dir_all(&elsewhere).map_err(|error| refused(&error.to_string()))?;
    let found = std::fs::symlink_metadata(&elsewhere).map_err(|error| refused(&error.to_string()))?;
    if !found.is_dir() || Some(found.uid()) != ours() {
        return Err(refused("somebody else made it; remove it"));
    }
    Ok(elsewhere)
}

fn open_to_all(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
}

fn ours() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|found| found.uid())
}

fn nobody(users: &str) -> Option<(u32, u32)> {
    let fields: Vec<&str> = users.lines().find(|line| line.starts_with("nobody:"))?.split(':').collect();
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

/// The same for the same path in every run (FNV-1a).
fn digest(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_among_the_users() {
        let users = "root:x:0:0:root:/root:/bin/bash\nnobody:x:99:98:nobody:/:/bin/false\n";
        assert_eq!(nobody(users), Some((99, 98)));
        assert_eq!(nobody("root:x:0:0:root:/root:/bin/bash\n"), None);
    }

    #[test]
    fn what_is_tied_runs_for_its_parent_and_for_nobody_else() {
        let mut ours = command("echo", Some("KILL"));
        assert_eq!(ours.arg("a b").output().unwrap().stdout, b"a b\n");
        let mut orphan = Command::new("sh");
        orphan.args(["-c", UNLESS_ORPHANED, "1", "echo", "a"]);
        let output = orphan.output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
    }

    #[test]
    fn the_folder_elsewhere_keeps_its_name() {
        assert_eq!(digest(Path::new("/a")), digest(Path::new("/a")));
        assert_ne!(digest(Path::new("/a")), digest(Path::new("/b")));
    }
}
