//! Deciding over status tables, whatever the database: how far the rows were looked at and when that is done again, which of
//! them may be handed out, which came late, what a relay has in its hands, and what is written of each settlement. An adapter
//! reads rows and runs SQL.

mod hands;
mod left;
mod looks;
mod pass;
mod rank;
mod settling;
mod sort;
mod taken;
mod watch;

pub use hands::Hands;
pub use left::Why;
pub use looks::Looks;
pub use pass::{Pass, Place};
pub use rank::Rank;
pub use settling::Settling;
pub use sort::{Candidates, Looked, Page, Sorter, page_rows};
pub use taken::{OpenRow, Swell, Taken, Taking};
pub use watch::{Census, Late, Watch, Written};
