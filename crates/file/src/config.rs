//! What can be set of a file sink.

use std::path::PathBuf;

use postrider_core::{Fault, limits};

/// Where the file is, and when it rotates.
///
/// ```
/// use postrider_file::FileConfig;
/// let config = FileConfig::from_url("file:///var/lib/shop/events.jsonl").unwrap();
/// assert_eq!(config.path.to_str(), Some("/var/lib/shop/events.jsonl"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// The file; its directory must exist.
    pub path: PathBuf,
    /// A batch that would make the file longer than this goes to a new one; the old one gets the next number behind its
    /// name and is never touched again.
    pub rotate_bytes: u64,
    /// A longer payload is rejected.
    pub payload_bytes_max: usize,
}

impl FileConfig {
    /// How long a file grows, by default.
    pub const ROTATE_BYTES: u64 = 1024 * 1024 * 1024;

    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), rotate_bytes: Self::ROTATE_BYTES, payload_bytes_max: limits::PAYLOAD_BYTES }
    }

    /// The defaults for `file:///absolute/path` or `file://relative/path`. The path is taken as it is written.
    ///
    /// # Errors
    /// When it is no such URL.
    pub fn from_url(url: &str) -> Result<Self, Fault> {
        match url.strip_prefix("file://") {
            Some(path) if !path.is_empty() => Ok(Self::new(path)),
            _ => Err(Fault::new(
                format!("sink url \"{url}\""),
                "it names no file",
                "Write file:///absolute/path.jsonl or file://relative/path.jsonl.",
            )),
        }
    }

    /// Whether a file sink can work like this.
    ///
    /// # Errors
    /// What cannot be, and what to write instead.
    pub fn check(&self) -> Result<(), Fault> {
        let place = || format!("file sink {}", self.path.display());
        if self.path.file_name().is_none() {
            return Err(Fault::new(place(), "the path names no file", "Add the file's name to it."));
        }
        if self.path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Fault::new(place(), "the path has a NUL byte in it", "Write a path without it."));
        }
        if self.rotate_bytes == 0 {
            return Err(Fault::new(place(), "rotate_bytes is 0", "Set it to 1 or more bytes."));
        }
        if self.payload_bytes_max == 0 || self.payload_bytes_max > limits::PAYLOAD_BYTES_MAX {
            let most = limits::PAYLOAD_BYTES_MAX;
            return Err(Fault::new(
                place(),
                format!("payload_bytes_max is {}", self.payload_bytes_max),
                format!("Set it to 1 to {most} bytes."),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F5: a setting that cannot work is refused with its place and remedy.
    #[test]
    fn settings_that_cannot_work_are_refused() {
        let fine = FileConfig::new("events.jsonl");
        assert!(fine.check().is_ok());
        for bad in [
            FileConfig { rotate_bytes: 0, ..fine.clone() },
            FileConfig { payload_bytes_max: 0, ..fine.clone() },
            FileConfig { payload_bytes_max: usize::MAX, ..fine.clone() },
            FileConfig::new("/"),
            FileConfig::new("events\0.jsonl"),
        ] {
            let fault = bad.check().unwrap_err();
            assert!(fault.place.starts_with("file sink") && !fault.remedy.is_empty(), "{fault}");
        }
    }

    #[test]
    fn a_url_names_an_absolute_or_a_relative_file() {
        let path = |url| FileConfig::from_url(url).map(|config| config.path.display().to_string());
        assert_eq!(path("file:///a/b.jsonl").unwrap(), "/a/b.jsonl");
        assert_eq!(path("file://b.jsonl").unwrap(), "b.jsonl");
        for bad in ["file://", "file:/a", "/a", ""] {
            assert!(path(bad).unwrap_err().to_string().contains("file:///"), "{bad}");
        }
    }
}
