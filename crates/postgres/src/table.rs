//! The live table: what it is, whatever the layout says.

use postrider_core::layout::{Column, Columns, Identifier};
use postrider_core::{Fault, Layout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::absent::no_table;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::relation::no_table_at_all;
use crate::session::{Param, Session};
use crate::sql::base_type;

/// A table as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) oid: u32,
    /// Of a partition tree: its root and every part of it.
    pub(crate) tree: Vec<u32>,
    /// `r` a table, `p` a partitioned one, `v` a view, `f` a foreign table.
    pub(crate) relation: char,
    pub(crate) columns: Vec<LiveColumn>,
    pub(crate) indexes: Vec<Index>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The type as people write it; of a domain, the type that it is over in the end.
    pub(crate) declared: String,
    /// The domain that it is declared as.
    pub(crate) domain: Option<String>,
    pub(crate) not_null: bool,
    /// The default's expression.
    pub(crate) default: Option<String>,
    /// Characters that fit, where the type has such a limit.
    pub(crate) characters_max: Option<i32>,
    /// The words of an enum.
    pub(crate) words: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// The columns by name; an expression is an empty name.
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
    /// The condition of a partial one.
    pub(crate) condition: Option<String>,
    /// Whether all its columns ascend with NULL last, as rows are claimed.
    pub(crate) ascends: bool,
}

impl LiveColumn {
    /// Whether a word of a layout is a value of the column's type, spelled as the database spells it.
    pub(crate) fn takes(&self, word: &str) -> bool {
        let number = |min: i64, max: i64| {
            word.parse::<i64>().is_ok_and(|n| (min..=max).contains(&n) && n.to_string() == word)
        };
        match (self.kind, &*self.declared) {
            (Kind::Text | Kind::Other, _) => true,
            (Kind::Enum, _) => self.words.iter().any(|label| label == word),
            (Kind::Boolean, _) => matches!(word, "true" | "false"),
            (Kind::Integer, "smallint") => number(i16::MIN.into(), i16::MAX.into()),
            (Kind::Integer, "integer") => number(i32::MIN.into(), i32::MAX.into()),
            (Kind::Integer, _) => number(i64::MIN, i64::MAX),
            _ => false,
        }
    }

    /// The column as it is compared with a word: of a domain over an enum the server knows no equality, of the enum it does, and
    /// an index on the column serves that too.
    pub(crate) fn compared(&self, column: &str) -> String {
        match (self.kind, &self.domain) {
            (Kind::Enum, Some(_)) => format!("{column}::{}", self.declared),
            _ => column.to_owned(),
        }
    }

    /// The type as a person is told of it.
    pub(crate) fn shown(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{domain}, a domain over {}", self.declared),
            None => self.declared.clone(),
        }
    }
}

/// What a column holds, as far as reading it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Real,
    Text,
    Bytes,
    Uuid,
    Json,
    Jsonb,
    /// With a zone.
    Moment,
    /// Without one.
    Local,
    Date,
    Enum,
    Boolean,
    /// Read as its text.
    Other,
}

impl Kind {
    pub(crate) fn of(oid: u32, is_enum: bool) -> Self {
        let Some(known) = Type::from_oid(oid) else { return if is_enum { Self::Enum } else { Self::Other } };
        match known {
            Type::INT2 | Type::INT4 | Type::INT8 => Self::Integer,
            Type::FLOAT4 | Type::FLOAT8 => Self::Real,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR => Self::Text,
            Type::BYTEA => Self::Bytes,
            Type::UUID => Self::Uuid,
            Type::JSON => Self::Json,
            Type::JSONB => Self::Jsonb,
            Type::TIMESTAMPTZ => Self::Moment,
            Type::TIMESTAMP => Self::Local,
            Type::DATE => Self::Date,
            Type::BOOL => Self::Boolean,
            _ => Self::Other,
        }
    }

    /// The column as it is selected, so that [`crate::rows`] can read it.
    pub(crate) fn select(self, column: &str) -> String {
        match self {
            Self::Date => format!("{column}::timestamp"),
            Self::Enum | Self::Boolean | Self::Other => format!("{column}::text"),
            _ => column.to_owned(),
        }
    }
}

/// Answers one row where there is such a table.
const TABLE: &str = "\
select c.oid, c.relkind::text, array(select relid::oid from pg_partition_tree(c.oid)) \
from pg_class as c where c.oid = to_regclass($1)";

const COLUMNS: &str = concat!(
    "select a.attname::text, t.oid, format_type(t.oid, b.typmod), a.attnotnull or b.not_null, \
     coalesce(pg_get_expr(d.adbin, d.adrelid), b.domain_default), \
     case when b.typmod > 4 and t.oid in (1042, 1043) then b.typmod - 4 end, t.typtype = 'e', \
     array(select e.enumlabel::text from pg_enum as e where e.enumtypid = t.oid order by e.enumsortorder), b.domain \
     from pg_attribute as a ",
    base_type!(),
    "left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum \
     where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum"
);

const INDEXES: &str = "\
select array(select coalesce((select a.attname::text from pg_attribute as a where a.attrelid = i.indrelid and a.attnum = k.key), '') \
from unnest(i.indkey::int2[]) with ordinality as k(key, at) where k.at <= i.indnkeyatts order by k.at), \
i.indisunique, pg_get_expr(i.indpred, i.indrelid), 0 = all(i.indoption::int2[]) \
from pg_index as i where i.indrelid = $1 and i.indisvalid";

impl Table {
    /// Reads the layout's table; none where there is none.
    pub(crate) async fn read(session: &Session, layout: &Layout) -> Result<Option<Self>, Error> {
        let name = crate::sql::Names::new(layout).table;
        let Some(found) = session.first(TABLE, &[(&name, Type::TEXT)]).await? else { return Ok(None) };
        let oid: u32 = found.get(0);
        let by_oid: [Param<'_>; 1] = [(&oid, Type::OID)];
        let (columns, indexes) =
            tokio::try_join!(session.query(COLUMNS, &by_oid), session.query(INDEXES, &by_oid))?;
        let column = |row: &tokio_postgres::Row| LiveColumn {
            name: row.get(0),
            kind: Kind::of(row.get(1), row.get(6)),
            declared: row.get(2),
            domain: row.get(8),
            not_null: row.get(3),
            default: row.get(4),
            characters_max: row.get(5),
            words: row.get(7),
        };
        let index = |row: &tokio_postgres::Row| Index {
            columns: row.get(0),
            unique: row.get(1),
            condition: row.get(2),
            ascends: row.get(3),
        };
        let mut tree: Vec<u32> = found.get(2);
        if !tree.contains(&oid) {
            tree.push(oid);
        }
        Ok(Some(Self {
            oid,
            tree,
            relation: found.get::<_, String>(1).chars().next().unwrap_or('r'),
            columns: columns.iter().map(column).collect(),
            indexes: indexes.iter().map(index).collect(),
        }))
    }

    pub(crate) fn column(&self, name: &str) -> Option<&LiveColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// What a mapped column holds.
    pub(crate) fn kind(&self, name: &Identifier) -> Kind {
        self.column(name.as_str()).map_or(Kind::Other, |column| column.kind)
    }

    /// What the id holds.
    pub(crate) fn id_kind(&self, layout: &Layout) -> Kind {
        layout.columns.id.as_ref().and_then(Column::name).map_or(Kind::Other, |id| self.kind(id))
    }

    /// Whether ids are numbers, which the table hands out in order.
    pub(crate) fn id_counts(&self, layout: &Layout) -> bool {
        self.id_kind(layout) == Kind::Integer
    }

    /// The SQL type that a list of ids, given as texts, is cast to.
    pub(crate) fn id_type(&self, layout: &Layout) -> String {
        let id = layout.columns.id.as_ref().and_then(Column::name);
        id.and_then(|id| self.column(id.as_str())).map_or("text".into(), |column| column.declared.clone())
    }

    /// Columns that the layout maps and the table does not have: the layout's key and the column's name.
    pub(crate) fn missing<'l>(&self, layout: &'l Layout) -> Vec<(&'l str, &'l str)> {
        let named = layout.columns.given().filter_map(|(key, column)| Some((key, column.name()?.as_str())));
        named.filter(|(_, name)| self.column(name).is_none()).collect()
    }
}

/// Reads the table and refuses what cannot work in any way of claiming.
pub(crate) async fn inspect(session: &Session, config: &Config) -> Result<Table, Fault> {
    let place = config.place();
    let table = match Table::read(session, &config.layout).await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            return Err(crate::check::no_usage(session, config, error).await);
        }
        read => read.map_err(|error| fault(&place, error))?,
    };
    let Some(table) = table else { return Err(no_table(session, config).await) };
    let refusal = no_table_at_all(session, config, &table).await.map_err(|error| fault(&place, error))?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    match missing_columns(config, &table) {
        Some(missing) => Err(missing),
        None => Ok(table),
    }
}

pub(crate) fn missing_columns(config: &Config, table: &Table) -> Option<Fault> {
    let missing = table.missing(&config.layout);
    let (key, name) = missing.first()?;
    let names = missing.iter().map(|(_, name)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let near =
        postrider_core::nearest::nearest(name, table.columns.iter().map(|column| column.name.as_str()));
    let near = near.map_or(String::new(), |near| format!(" The table has \"{near}\": is it that?"));
    Some(Fault::new(
        config.place(),
        format!("layout \"{}\" maps columns that the table does not have: {names}", config.layout.name),
        format!("Correct {} in the layout, or add the column.{near}", Columns::spelled(key)),
    ))
}
