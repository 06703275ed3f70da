//! Values that may hold secrets: used as they were meant, shown as they were written.

use std::fmt;
use std::path::Path;
use std::sync::Mutex;

/// What was expanded so far, for [`scrub`]: the value, and what stands for it in the config.
static EXPANDED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Below this many bytes a value is no secret, and replacing it would only garble what is said.
const SCRUBBED_BYTES_MIN: usize = 4;

/// A value of the config in which `${NAME}` and `file:/path` have been expanded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    written: String,
    value: String,
}

impl Secret {
    /// Expands `${NAME}` from the environment, `${file:/path}` and a whole `file:/path` from a file.
    pub(crate) fn expand(written: &str, from: &dyn Lookup) -> Result<Self, String> {
        let value = match whole_file(written) {
            Some(path) => read(path, from)
                .map_err(|problem| format!("{problem} (a file to write to is file://{path})"))?,
            None => expand(written, from)?,
        };
        if value != written {
            remember(&value, written);
        }
        Ok(Self { written: written.to_owned(), value })
    }

    /// The value, to be used and not to be shown.
    pub(crate) fn reveal(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.written))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where secrets come from: the process's surroundings, or a test's.
pub(crate) trait Lookup {
    fn variable(&self, name: &str) -> Option<String>;
    fn file(&self, path: &Path) -> std::io::Result<String>;
}

/// The environment and the disk.
pub(crate) struct Surroundings;

impl Lookup for Surroundings {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> std::io::Result<String> {
        std::fs::read_to_string(path)
    }
}

/// A text for people with every expanded secret and every password of a URL taken out again.
pub(crate) fn scrub(text: &str) -> String {
    let mut text = text.to_owned();
    if let Ok(expanded) = EXPANDED.lock() {
        for (value, written) in expanded.iter() {
            text = text.replace(value.as_str(), written);
        }
    }
    mask(&text)
}

/// A URL to be kept in a file: a literal password becomes a variable's name.
pub(crate) fn without_password(url: &str) -> String {
    mask(url).replace("***", "${DB_PASSWORD}")
}

fn remember(value: &str, written: &str) {
    if value.len() >= SCRUBBED_BYTES_MIN
        && let Ok(mut expanded) = EXPANDED.lock()
    {
        expanded.push((value.to_owned(), written.to_owned()));
        // The longest first: a secret may be a part of another.
        expanded.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        expanded.dedup();
    }
}

/// `file:/path` with a single slash: the path of a secret; `file://` is a sink.
fn whole_file(written: &str) -> Option<&str> {
    let path = written.strip_prefix("file:")?;
    (path.starts_with('/') && !path.starts_with("//")).then_some(path)
}

fn expand(written: &str, from: &dyn Lookup) -> Result<String, String> {
    let mut value = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find("${") {
        value.push_str(&rest[..at]);
        let name = &rest[at + 2..];
        let end = name.find('}').ok_or("\"${\" has no \"}\" behind it; write ${NAME} or ${file:/path}")?;
        let part = lookup(&name[..end], from)?;
        remember(&part, &format!("${{{}}}", &name[..end]));
        value.push_str(&part);
        rest = &name[end + 1..];
    }
    value.push_str(rest);
    Ok(value)
}

fn lookup(name: &str, from: &dyn Lookup) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        return read(path, from);
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("\"${{{name}}}\" is not the name of an environment variable"));
    }
    from.variable(name).ok_or_else(|| format!("the environment variable {name} is not set"))
}

fn read(path: &str, from: &dyn Lookup) -> Result<String, String> {
    let text = from
        .file(Path::new(path))
        .map_err(|error| format!("the secret file {path} cannot be read: {error}"))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Takes literal passwords out of every URL in a text: `scheme://user:***@host`, `?password=***`.
fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let end = after.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(after.len());
        masked.push_str(before);
        masked.push_str(&mask_query(&mask_login(&after[..end])));
        rest = &after[end..];
    }
    masked.push_str(rest);
    masked
}

/// The last `@` ends the login: a password may hold any other sign, a slash included.
fn mask_login(url: &str) -> String {
    match url.rfind('@').map(|at| (&url[..at], &url[at..])) {
        Some((login, host)) => match login.split_once(':') {
            Some((user, password)) if !is_template(password) => format!("{user}:***{host}"),
            _ => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

fn mask_query(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["password", "passwd", "secret", "token", "key", "pwd"].iter().any(|word| name.contains(word))
    };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if secret(name) && !is_template(value) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

fn is_template(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given;

    impl Lookup for Given {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "DB_PASSWORD").then(|| "hunter2-hunter2".to_owned())
        }

        fn file(&self, path: &Path) -> std::io::Result<String> {
            if path == Path::new("/run/secrets/db") {
                return Ok("postgres://app:swordfish@db/shop\n".to_owned());
            }
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    /// F6: what is shown is what was written, and literal passwords are masked.
    #[test]
    fn secrets_are_used_and_not_shown() {
        let url = Secret::expand("postgres://app:${DB_PASSWORD}@db/shop", &Given).unwrap();
        assert_eq!(url.reveal(), "postgres://app:hunter2-hunter2@db/shop");
        assert_eq!(
            format!("{url} {url:?}"),
            "postgres://app:${DB_PASSWORD}@db/shop postgres://app:${DB_PASSWORD}@db/shop"
        );
        assert_eq!(scrub("login hunter2-hunter2 refused"), "login ${DB_PASSWORD} refused");

        let url = Secret::expand("file:/run/secrets/db", &Given).unwrap();
        assert_eq!(url.reveal(), "postgres://app:swordfish@db/shop");
        assert_eq!(url.to_string(), "file:/run/secrets/db");
        assert!(!scrub("cannot reach postgres://app:swordfish@db/shop today").contains("swordfish"));

        let url = Secret::expand("postgres://app:s3/cr@t@db/shop?sslpassword=abc&x=1", &Given).unwrap();
        assert_eq!(url.to_string(), "postgres://app:***@db/shop?sslpassword=***&x=1");
    }

    #[test]
    fn what_cannot_be_expanded_is_named() {
        for (written, said) in [
            ("sqlite://${NOT_SET}", "NOT_SET is not set"),
            ("sqlite://${", "has no \"}\""),
            ("sqlite://${a b}", "not the name"),
            ("file:/none", "file:///none"),
            ("x://${file:/none}", "/none cannot be read"),
        ] {
            let problem = Secret::expand(written, &Given).unwrap_err();
            assert!(problem.contains(said), "{written}: {problem}");
        }
    }

    #[test]
    fn a_sinks_file_is_no_secret() {
        let url = Secret::expand("file:///var/events.jsonl", &Given).unwrap();
        assert_eq!(
            (url.reveal(), url.to_string().as_str()),
            ("file:///var/events.jsonl", "file:///var/events.jsonl")
        );
    }
}
