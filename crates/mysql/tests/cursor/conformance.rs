//! The Source and Store suites over the cursor way.

use postrider_core::Layout;
use postrider_core::layout::OnDead;

use crate::common::{Harness, block_on};
use crate::scene::native;

fn skipping() -> Layout {
    Layout { on_dead: OnDead::Skip, ..native() }
}

macro_rules! suites {
    ($name:ident, $harness:expr) => {
        mod $name {
            use super::*;
            postrider_conformance::source_suite!(block_on, $harness);
            postrider_conformance::store_suite!(block_on, $harness);
        }
    };
}

suites!(native_cursor, Harness::new(native(), ""));
suites!(native_cursor_skipping_the_dead, Harness::new(skipping(), ""));
suites!(mysql_native_cursor, {
    let Some(server) = postrider_servers::mysql() else { return };
    Harness::on(&server, native(), "")
});
