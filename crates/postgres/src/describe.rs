//! Looking at a live database for the tables that an outbox could be: what `postrider init --from` goes by.

use postrider_core::{Fault, Layout};
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::{Durable, Session};
use crate::sql::{base_type, quoted};
use crate::table::Kind;

/// A table as the database has it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Whether the connection finds it without its schema.
    pub visible: bool,
    /// Its columns, in their order.
    pub columns: Vec<DescribedColumn>,
    /// The columns of its primary key.
    pub primary_key: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedColumn {
    /// Its name.
    pub name: String,
    /// Its type as people write it.
    pub declared: String,
    /// What it holds.
    pub holds: Holds,
    /// Whether the table hands its values out, by an identity or a sequence.
    pub counts: bool,
    /// Whether it may be NULL, and is unless somebody gives it a value.
    pub empty_at_first: bool,
    /// The words that it may hold, or does: an enum's, a check's, or those of some rows.
    pub words: Vec<String>,
    /// The word of its default.
    pub default: Option<String>,
}

/// What a column holds, as far as it matters to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Whole numbers.
    Integer,
    /// Texts, and words of an enum.
    Text,
    /// Bytes.
    Bytes,
    /// UUIDs.
    Uuid,
    /// JSON of either kind.
    Json,
    /// Times with a zone.
    Moment,
    /// Times without one.
    Local,
    /// True or false.
    Boolean,
    /// Something else.
    Other,
}

/// Tables that are nobody's partition, and have a column that could be a payload, or one of the given names.
const TABLES: &str = "\
select c.oid, n.nspname::text, c.relname::text, pg_table_is_visible(c.oid), \
array(select a.attname::text from pg_index as i cross join unnest(i.indkey::int2[]) with ordinality as k(key, at) \
join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.key \
where i.indrelid = c.oid and i.indisprimary order by k.at) \
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace \
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't' \
and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_toast%' \
and (c.relname = any($1) or exists (select from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped \
and a.attname ~* '(payload|data|body|content|message|value)')) \
order by c.relname = any($1) desc, 2, 3 limit 500";

/// Checks are the column's own, and those of the domains that it is of.
const COLUMNS: &str = concat!(
    "select a.attname::text, t.oid, format_type(a.atttypid, a.atttypmod), \
     a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid) like 'nextval(%', false), \
     coalesce(pg_get_expr(d.adbin, d.adrelid), b.domain_default), t.typtype = 'e', \
     array(select e.enumlabel::text from pg_enum as e where e.enumtypid = t.oid order by e.enumsortorder), \
     array(select pg_get_constraintdef(k.oid) from pg_constraint as k where k.contype = 'c' \
     and (k.conrelid = a.attrelid and k.conkey = array[a.attnum] or k.contypid = any(b.domains))), \
     not (a.attnotnull or b.not_null or coalesce(coalesce(pg_get_expr(d.adbin, d.adrelid), b.domain_default) not ilike 'null%', false)) \
     from pg_attribute as a ",
    base_type!(),
    "left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum \
     where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum"
);

/// Rows that are looked at for the words of a status column.
const ROWS_SEEN_MAX: u32 = 10_000;
/// A column with more different words is no status.
const WORDS_MAX: usize = 20;

/// The tables that could be an outbox, and those of the given names, whatever they look like.
///
/// # Errors
/// When the URL is none, or the database cannot be reached or read.
pub async fn describe(url: &str, names: &[&str]) -> Result<Vec<Described>, Fault> {
    let config = Config::new(url, Layout::built_in("native")?, "init")?;
    let session = Session::open(&config, Durable::Now).await?;
    read(&session, names).await.map_err(|error| fault(&config.connect.shown(), error))
}

async fn read(session: &Session, names: &[&str]) -> Result<Vec<Described>, Error> {
    let mut tables = Vec::new();
    for row in session.query(TABLES, &[(&names, Type::TEXT_ARRAY)]).await? {
        let oid: u32 = row.get(0);
        let rows = session.query(COLUMNS, &[(&oid, Type::OID)]).await?;
        let mut found = Described {
            schema: row.get(1),
            name: row.get(2),
            visible: row.get(3),
            columns: rows.iter().map(column).collect(),
            primary_key: row.get(4),
        };
        read_words(session, &mut found).await?;
        tables.push(found);
    }
    Ok(tables)
}

fn column(row: &tokio_postgres::Row) -> DescribedColumn {
    let kind = Kind::of(row.get(1), row.get(5));
    let (labels, checks): (Vec<String>, Vec<String>) = (row.get(6), row.get(7));
    let default: Option<String> = row.get(4);
    let spelled = |text: &String| match kind {
        Kind::Integer | Kind::Boolean => numbers(text),
        _ => literals(text),
    };
    let words = if labels.is_empty() { checks.iter().flat_map(spelled).collect() } else { labels };
    DescribedColumn {
        name: row.get(0),
        declared: row.get(2),
        holds: holds(kind),
        counts: row.get(3),
        empty_at_first: row.get(8),
        words,
        default: default.and_then(|text| match kind {
            Kind::Integer | Kind::Boolean => plain(&text),
            _ => literals(&text).into_iter().next(),
        }),
    }
}

fn holds(kind: Kind) -> Holds {
    match kind {
        Kind::Integer => Holds::Integer,
        Kind::Text | Kind::Enum => Holds::Text,
        Kind::Bytes => Holds::Bytes,
        Kind::Uuid => Holds::Uuid,
        Kind::Json | Kind::Jsonb => Holds::Json,
        Kind::Moment => Holds::Moment,
        Kind::Local | Kind::Date => Holds::Local,
        Kind::Boolean => Holds::Boolean,
        Kind::Real | Kind::Other => Holds::Other,
    }
}

/// A column of texts or numbers that is called a status, and whose words nothing declares, is asked for them.
async fn read_words(session: &Session, table: &mut Described) -> Result<(), Error> {
    let place = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
    for column in &mut table.columns {
        let is_status = ["status", "state"].iter().any(|word| column.name.to_lowercase().ends_with(word));
        if !is_status || !matches!(column.holds, Holds::Text | Holds::Integer) || !column.words.is_empty() {
            continue;
        }
        let name = quoted(&column.name);
        let sql = format!(
            "select distinct s.word from (select {name}::text as word from {place} limit {ROWS_SEEN_MAX}) as s \
             where s.word is not null order by 1 limit {}",
            WORDS_MAX + 1
        );
        let words: Vec<String> = session.query(&sql, &[]).await?.iter().map(|row| row.get(0)).collect();
        if words.len() <= WORDS_MAX {
            column.words = words;
        }
    }
    Ok(())
}

/// The numbers of a list in an expression of the catalogue: those of a comparison would say nothing.
fn numbers(expression: &str) -> Vec<String> {
    let list = expression.split_once("ARRAY[").and_then(|(_, rest)| rest.split_once(']'));
    list.map_or_else(Vec::new, |(list, _)| list.split(',').filter_map(plain).collect())
}

/// A number or a truth value as the catalogue writes it: `0`, `'-1'::integer`, `false`.
fn plain(text: &str) -> Option<String> {
    let bare = text.split("::").next().unwrap_or(text).trim().trim_matches(['\'', '(', ')']);
    (bare.parse::<i64>().is_ok() || matches!(bare, "true" | "false")).then(|| bare.to_owned())
}

/// The quoted texts in an expression of the catalogue.
fn literals(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find('\'') {
        let mut word = String::new();
        let mut chars = rest[at + 1..].char_indices().peekable();
        let mut end = rest.len();
        while let Some((i, c)) = chars.next() {
            match (c, chars.peek()) {
                ('\'', Some((_, '\''))) => {
                    word.push('\'');
                    chars.next();
                }
                ('\'', _) => {
                    end = at + 1 + i + 1;
                    break;
                }
                _ => word.push(c),
            }
        }
        found.push(word);
        rest = &rest[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_what_the_catalogue_says() {
        let check =
            "CHECK (((status)::text = ANY ((ARRAY['NEW'::character varying, 'it''s é'::text])::text[])))";
        assert_eq!(literals(check), ["NEW", "it's é"]);
        assert_eq!(literals("'NEW'::status"), ["NEW"]);
        assert!(literals("now()").is_empty());
        assert_eq!(literals("'open"), ["open"]);
    }

    #[test]
    fn numbers_are_found_in_what_the_catalogue_says() {
        assert_eq!(numbers("CHECK ((status = ANY (ARRAY[0, 1, '-1'::integer])))"), ["0", "1", "-1"]);
        assert_eq!(numbers("CHECK ((VALUE = ANY (ARRAY[10, 20])))"), ["10", "20"]);
        assert!(numbers("CHECK (((status >= 0) AND (status <= 5)))").is_empty());
        assert_eq!(plain("'-1'::integer").as_deref(), Some("-1"));
        assert_eq!(plain("false").as_deref(), Some("false"));
        assert_eq!(plain("nextval('s'::regclass)"), None);
    }
}
