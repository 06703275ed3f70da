//! The live table as far as appending differs by it: asked once, in one text that every driver can read.

use postrider_core::layout::Identifier;
use postrider_core::nearest::nearest;
use postrider_core::{Fault, Layout};

/// The columns of the live table.
#[derive(Debug)]
pub(crate) struct Shape {
    columns: Vec<LiveColumn>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct LiveColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The type's full name, quoted.
    pub(crate) declared: String,
    /// Whether a text is assigned to it as it is.
    pub(crate) is_text: bool,
    pub(crate) characters_max: Option<usize>,
    pub(crate) not_null: bool,
    /// Whether the table fills it in when it is left out.
    pub(crate) handed_out: bool,
    pub(crate) default: Option<String>,
}

/// What a column holds, as far as appending differs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    /// Another number.
    Number,
    Uuid,
    Bytes,
    Json,
    /// A date and time without a zone.
    Local,
    Boolean,
    Other,
}

#[derive(serde::Deserialize)]
struct Told {
    name: String,
    r#type: String,
    base: String,
    is_text: bool,
    characters_max: Option<i64>,
    not_null: bool,
    handed_out: bool,
    default: Option<String>,
}

impl Shape {
    /// Reads what [`crate::sql::COLUMNS`] answers.
    ///
    /// # Errors
    /// When there is no such table.
    pub(crate) fn read(layout: &Layout, told: Option<&str>) -> Result<Self, Fault> {
        let told: Option<Vec<Told>> = told.and_then(|told| serde_json::from_str(told).ok());
        let told = told.ok_or_else(|| {
            Fault::new(
                format!("table \"{}\"", layout.table),
                "there is no such table in this database, or not in a schema that this connection looks in",
                "Run `postrider migrate` for the native layout; for another, name the right table and schema in it",
            )
        })?;
        Ok(Self { columns: told.into_iter().map(LiveColumn::from).collect() })
    }

    pub(crate) fn find(&self, name: &Identifier) -> Option<&LiveColumn> {
        self.columns.iter().find(|column| column.name == name.as_str())
    }

    pub(crate) fn column(&self, layout: &Layout, name: &Identifier) -> Result<&LiveColumn, Fault> {
        self.find(name).ok_or_else(|| self.missing(layout, name.as_str()))
    }

    pub(crate) fn missing(&self, layout: &Layout, name: &str) -> Fault {
        let near = nearest(name, self.columns.iter().map(|column| column.name.as_str()));
        let near = near.map_or(String::new(), |near| format!(": is it \"{near}\"?"));
        Fault::new(
            format!("table \"{}\"", layout.table),
            format!("layout \"{}\" maps column \"{name}\", and the table has none", layout.name),
            format!("Correct the layout, or add the column{near}"),
        )
    }
}

impl From<Told> for LiveColumn {
    fn from(told: Told) -> Self {
        let kind = match told.base.as_str() {
            "int2" | "int4" | "int8" => Kind::Int,
            "numeric" | "float4" | "float8" => Kind::Number,
            "uuid" => Kind::Uuid,
            "bytea" => Kind::Bytes,
            "json" | "jsonb" => Kind::Json,
            "timestamp" => Kind::Local,
            "bool" => Kind::Boolean,
            _ => Kind::Other,
        };
        Self {
            name: told.name,
            kind,
            declared: told.r#type,
            is_text: told.is_text,
            characters_max: told.characters_max.and_then(|most| usize::try_from(most).ok()),
            not_null: told.not_null,
            handed_out: told.handed_out,
            default: told.default,
        }
    }
}
