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

/// A command that runs as that user. `tied_by` is the signal that it gets when the thread that starts it is gone.
pub(crate) fn command(program: impl AsRef<OsStr>, tied_by: Option<&str>) -> Command {
    let other = other();
    if other.is_none() && tied_by.is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = other {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    if let Some(signal) = tied_by {
        command.args(["--pdeathsig", signal]);
    }
    command.arg("--").arg(program);
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
    fn the_folder_elsewhere_keeps_its_name() {
        assert_eq!(digest(Path::new("/a")), digest(Path::new("/a")));
        assert_ne!(digest(Path::new("/a")), digest(Path::new("/b")));
    }
}
