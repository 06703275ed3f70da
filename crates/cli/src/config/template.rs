//! The file that `postrider init` writes: every key, its default, and why one would change it.

use std::path::Path;

use super::secret::without_password;
use crate::adopt::{Adopted, Fits};

/// What is left commented out is the default.
pub(crate) const TEMPLATE: &str = include_str!("template.toml");

/// The template for a table that is there. `layout` is the path of a layout file of its own.
pub(crate) fn adopting(url: &str, adopted: &Adopted, layout: &Path) -> String {
    let mut text = with(TEMPLATE, "url", &without_password(url));
    text = match &adopted.layout {
        Fits::BuiltIn(name) => with(&text, "layout", name),
        Fits::Own(_) => with(&text, "layout", &layout.display().to_string()),
    };
    for (key, value) in [("table", &adopted.table), ("schema", &adopted.schema)] {
        if let Some(value) = value {
            text = with(&text, key, value);
        }
    }
    text
}

/// The template with another value for a key of `[outbox]`, whose first line it is.
fn with(text: &str, key: &str, value: &str) -> String {
    let (mut lines, mut done) = (Vec::new(), false);
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if !done && bare.starts_with(&format!("{key} = ")) {
            done = true;
            let comment = bare.find(" # ").map_or("", |at| &bare[at..]);
            let value = toml::Value::String(value.to_owned());
            lines.push(format!("{:36}{}", format!("{key} = {value}"), comment));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::secret::Lookup;

    struct Given;

    impl Lookup for Given {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "DB_PASSWORD").then(|| "from-elsewhere".to_owned())
        }

        fn file(&self, _: &Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    /// F6: the password of the URL is not written, and what is written is a configuration.
    #[test]
    fn what_is_written_for_a_table_is_a_configuration_without_its_password() {
        let adopted = Adopted {
            layout: Fits::Own(String::new()),
            table: Some("Out\"box".into()),
            schema: Some("shop".into()),
            needs_start: true,
            told: Vec::new(),
        };
        let url = "postgres://app:swordfish@db/shop?sslmode=require";
        let text = adopting(url, &adopted, Path::new("./x-layout.toml"));
        assert!(!text.contains("swordfish"), "{text}");
        let config = Config::parse("x", &text, &Given).unwrap();
        assert_eq!(config.outbox.url.reveal(), "postgres://app:from-elsewhere@db/shop?sslmode=require");
        assert_eq!(config.outbox.layout, "./x-layout.toml");
        assert_eq!(config.outbox.table.as_deref(), Some("Out\"box"));
        assert_eq!(config.outbox.schema.as_deref(), Some("shop"));
    }
}
