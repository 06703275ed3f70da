//! The Source and Store suites over the cursor way.

use postrider_core::Layout;
use postrider_core::layout::OnDead;

use crate::harness::{Harness, block_on, commerce, native};

mod native_cursor {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(native()));
    postrider_conformance::store_suite!(block_on, Harness::new(native()));
}

mod native_cursor_skipping_the_dead {
    use super::*;
    fn layout() -> Layout {
        Layout { on_dead: OnDead::Skip, ..native() }
    }
    postrider_conformance::source_suite!(block_on, Harness::new(layout()));
    postrider_conformance::store_suite!(block_on, Harness::new(layout()));
}

/// B4, B6, B8: with the team's own tables.
mod commerce_cursor {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(commerce()));
    postrider_conformance::store_suite!(block_on, Harness::new(commerce()));
}
