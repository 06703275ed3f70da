//! The Rust files of the checkout.

use std::path::Path;

use crate::cargo::root;
use crate::code::code_of;

/// One Rust file.
pub(crate) struct File {
    /// Where it lies, from the root, with `/` between the folders.
    pub(crate) path: String,
    /// What it says.
    pub(crate) text: String,
    /// The same without comments and literals.
    pub(crate) code: String,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { path: path.into(), code: code_of(&text), text }
    }

    /// The first line of test code; unit tests stand at the end of a file.
    pub(crate) fn tests_from(&self) -> usize {
        let all = ["/tests/", "crates/conformance/", "crates/simulation/"]
            .iter()
            .any(|part| self.path.contains(part))
            || self.path.ends_with("/tests.rs");
        if all {
            return 0;
        }
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let opens =
            |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].contains("mod ") && !pair[1].ends_with(';');
        lines.windows(2).position(opens).unwrap_or(usize::MAX)
    }
}

/// Every Rust file, in the order of the paths.
pub(crate) fn files() -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    collect(&root(), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let cannot_read = |error| format!("cannot read {}: {error}", folder.display());
    for found in std::fs::read_dir(folder).map_err(cannot_read)? {
        let found = found.map_err(cannot_read)?;
        let name = found.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = found.file_type().map_err(cannot_read)?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&found.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && name.ends_with(".rs") {
            let text = std::fs::read_to_string(found.path())
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            files.push(File::new(path, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_this_file_and_leaves_the_build_output_out() {
        let files = files().unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tree.rs"));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn test_code_starts_at_its_mark_or_with_the_file() {
        assert_eq!(
            File::new("crates/core/src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}\n").tests_from(),
            1
        );
        for none in
            ["// #[cfg(test)]\nmod tests {}\n", "#[cfg(test)]\nmod tests;\n", "#[cfg(test)]\nfn a() {}\n"]
        {
            assert_eq!(File::new("crates/core/src/a.rs", none).tests_from(), usize::MAX, "{none}");
        }
        assert_eq!(File::new("crates/cli/tests/a.rs", "fn a() {}\n").tests_from(), 0);
    }
}
