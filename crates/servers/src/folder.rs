//! Where private servers keep their data.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::{address, user};

const PRIVATE: &str = "private-";

/// A new folder for one server, owned by who runs it.
pub(crate) fn create() -> PathBuf {
    let base = address::find(address::DATA).map_or_else(std::env::temp_dir, PathBuf::from);
    sweep(&base);
    let chance = RandomState::new().build_hasher().finish();
    let folder = base.join(format!("{PRIVATE}{}-{chance:016x}", std::process::id()));
    user::create_folder(&folder).unwrap_or_else(|problem| panic!("{problem}"));
    folder
}

/// Removes what killed tests have left; their servers ended with them.
fn sweep(base: &Path) {
    let Ok(folders) = std::fs::read_dir(base) else { return };
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| Process::of(pid).is_none()) {
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PRIVATE)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_our_making_have_an_owner() {
        assert_eq!(owner("private-77-00ff"), Some(77));
        for name in ["private-77", "private-x-1", "postgres", "run-77"] {
            assert_eq!(owner(name), None);
        }
    }
}
