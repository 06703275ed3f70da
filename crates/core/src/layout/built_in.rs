//! The layouts that come with Postrider.

use super::Layout;
use crate::Fault;
use crate::nearest::nearest;

/// Name and file of each.
const BUILT_IN: [(&str, &str); 7] = [
    ("native", include_str!("../../../../layouts/native.toml")),
    ("commerce", include_str!("../../../../layouts/commerce.toml")),
    ("debezium", include_str!("../../../../layouts/debezium.toml")),
    ("donation", include_str!("../../../../layouts/donation.toml")),
    ("ledger", include_str!("../../../../layouts/ledger.toml")),
    ("logistics", include_str!("../../../../layouts/logistics.toml")),
    ("order-service", include_str!("../../../../layouts/order-service.toml")),
];

impl Layout {
    /// The layout of that name that comes with Postrider.
    ///
    /// # Errors
    /// When there is none: names the nearest one.
    pub fn built_in(name: &str) -> Result<Self, Fault> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Self::parse(&format!("layouts/{known}.toml"), text.as_bytes()),
            None => Err(unknown(name)),
        }
    }

    /// The names of the layouts that come with Postrider.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }
}

fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let known = Layout::built_in_names().collect::<Vec<_>>().join(", ");
    let meant = nearest(name, Layout::built_in_names())
        .map_or(String::new(), |near| format!("Did you mean \"{near}\"? "));
    Fault::new(
        "layout",
        format!("there is no built-in layout \"{shown}\""),
        format!("{meant}Built in are {known}; a layout of your own is given by the path of its file."),
    )
}
