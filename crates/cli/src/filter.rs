//! Which entries a command is about: the same flags on every command that chooses.

use std::time::Duration;

use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, State, Text};

use crate::exit::Failure;

/// Everything given must match.
#[derive(clap::Args)]
pub(crate) struct FilterArgs {
    /// Only these entries.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Only this type of event; * stands for any run of characters.
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<String>,

    /// Only this key: by its id (by default the aggregate's), or as `list` shows it, Order/7.
    #[arg(long)]
    key: Option<String>,

    /// Only entries in this state.
    #[arg(long, value_enum)]
    state: Option<StateArg>,

    /// Only what was written longer ago than this: 30s, 5m, 12h, 7d.
    #[arg(long, value_name = "AGE", value_parser = postrider_core::span::parse)]
    older_than: Option<Duration>,

    /// Only what was written more recently than this.
    #[arg(long, value_name = "AGE", value_parser = postrider_core::span::parse)]
    newer_than: Option<Duration>,

    /// At most so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// For the verbs that change something: they do not act on everything by accident.
#[derive(clap::Args)]
pub(crate) struct VerbArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// Acts on all of them: needed when nothing narrows the choice.
    #[arg(long)]
    all: bool,

    /// Says what would be done, and does nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StateArg {
    Pending,
    Leased,
    Published,
    Dead,
    /// With a status that is none of the layout's words.
    Unknown,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            ids: self.ids.iter().map(|id| entry_id(id)).collect(),
            event_type: self.event_type.clone(),
            key: self.key.clone().map(Text::from),
            state: self.state.map(StateArg::state),
            older_than: self.older_than,
            newer_than: self.newer_than,
            limit: self.limit,
        }
    }
}

impl VerbArgs {
    /// The filter, unless it would choose everything unasked.
    pub(crate) fn filter(&self, verb: &str) -> Result<Filter, Failure> {
        let filter = self.filter.filter();
        if self.all || filter != Filter::default() {
            return Ok(filter);
        }
        Err(Failure::usage(
            format!("postrider {verb}"),
            "nothing says which entries",
            format!(
                "Give ids or a filter (`postrider {verb} --help` lists them), or --all if you mean all of them"
            ),
        ))
    }
}

/// The rows that the ids stand for, each the row's own or its event's: a verb that finds none of them says so.
pub(crate) async fn resolve(store: &dyn Store, mut filter: Filter) -> Result<Filter, Failure> {
    for id in &mut filter.ids {
        match store.show(id).await? {
            Some(shown) => *id = shown.listed.id,
            None => {
                return Err(Failure::failed(
                    format!("entry {id}"),
                    "there is no such entry, and nothing was done",
                    "`postrider list` shows what there is; both the row's id and the event's will do",
                ));
            }
        }
    }
    Ok(filter)
}

/// A number where the table counts, else text.
pub(crate) fn entry_id(text: &str) -> EntryId {
    match text.parse::<i64>() {
        Ok(id) if id.to_string() == text => EntryId::Int(id),
        _ => EntryId::Text(Text::from(text)),
    }
}

impl StateArg {
    fn state(self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Leased => State::Leased,
            Self::Published => State::Published,
            Self::Dead => State::Dead,
            Self::Unknown => State::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_only_when_they_look_like_one() {
        assert_eq!(entry_id("17"), EntryId::Int(17));
        for text in ["017", "+17", "0198c0de-17", ""] {
            assert_eq!(entry_id(text), EntryId::Text(text.into()));
        }
    }
}
