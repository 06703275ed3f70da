//! Ids of rows as one parameter.

use postrider_core::EntryId;
use tokio_postgres::types::Type;

use crate::session::Param;
use crate::table::Kind;

/// Ids as the table's own type takes them.
#[derive(Debug)]
pub(crate) enum Ids {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Ids {
    /// What is no id of this kind is no row's, and is left out: the database would refuse the whole statement for it.
    pub(crate) fn new<'a>(kind: Kind, ids: impl IntoIterator<Item = &'a EntryId>) -> Self {
        let ids = ids.into_iter();
        match kind {
            Kind::Integer => {
                Self::Numbers(ids.filter_map(|id| id.int().or_else(|| id.to_string().parse().ok())).collect())
            }
            Kind::Uuid => Self::Texts(ids.map(EntryId::to_string).filter(|id| is_uuid(id)).collect()),
            // A text with a zero byte is none of this database's.
            _ => Self::Texts(ids.map(EntryId::to_string).filter(|id| !id.contains('\0')).collect()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Numbers(ids) => ids.is_empty(),
            Self::Texts(ids) => ids.is_empty(),
        }
    }

    pub(crate) fn param(&self) -> Param<'_> {
        match self {
            Self::Numbers(ids) => (ids, Type::INT8_ARRAY),
            Self::Texts(ids) => (ids, Type::TEXT_ARRAY),
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F5: an id that an operator mistyped finds nothing, and breaks nothing.
    #[test]
    fn what_is_no_id_of_the_table_is_left_out() {
        let ids = [EntryId::Int(7), EntryId::Text("8".into()), EntryId::Text("x'".into())];
        assert!(matches!(Ids::new(Kind::Integer, &ids), Ids::Numbers(ids) if ids == [7, 8]));
        assert!(Ids::new(Kind::Uuid, &ids).is_empty());
        let uuid = EntryId::Text("0193e2f4-5b7c-7000-8000-00000000000A".into());
        assert!(!Ids::new(Kind::Uuid, [&uuid]).is_empty());
        assert!(matches!(Ids::new(Kind::Text, &ids), Ids::Texts(ids) if ids == ["7", "8", "x'"]));
    }
}
