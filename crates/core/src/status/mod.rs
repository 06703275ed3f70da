//! Deciding over status tables, whatever the database: which of the rows that were looked at may be handed out, what a relay
//! has in its hands, and what is written of each settlement. An adapter reads rows and runs SQL.

mod change;
mod hands;
mod pass;
mod rank;
mod sort;

pub use change::{Change, Changes};
pub use hands::{Hands, OpenRow};
pub use pass::Pass;
pub use rank::Rank;
pub use sort::{Candidates, Looked, Page, Sorter};
