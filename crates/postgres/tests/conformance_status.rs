//! The Source and Store suites over status tables: every way and every kind of table that PostgreSQL has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::tables::{
    debezium_layout, debezium_tables, deleting_layout, full_status_layout, held_layout, logistics_layout,
    logistics_tables, quoted_layout, status_layout, status_tables,
};
use common::{Harness, block_on};
use postrider_core::layout::Order;

mod lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(status_layout(Order::Key), &status_tables()));
    postrider_conformance::store_suite!(block_on, Harness::new(status_layout(Order::Key), &status_tables()));
}

mod lease_without_order {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(status_layout(Order::None), &status_tables())
    );
    postrider_conformance::store_suite!(block_on, Harness::new(status_layout(Order::None), &status_tables()));
}

/// Every state column of its own: nothing but leases lives beside the table.
mod full_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(full_status_layout(Order::Key), &status_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(full_status_layout(Order::Key), &status_tables())
    );
}

mod full_lease_without_order {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(full_status_layout(Order::None), &status_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(full_status_layout(Order::None), &status_tables())
    );
}

/// UUIDs, an enum of words, another schema, names that must be quoted.
mod quoted_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(quoted_layout(Order::Key), &status_tables()));
    postrider_conformance::store_suite!(block_on, Harness::new(quoted_layout(Order::Key), &status_tables()));
}

mod quoted_lease_without_order {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(quoted_layout(Order::None), &status_tables())
    );
    postrider_conformance::store_suite!(block_on, Harness::new(quoted_layout(Order::None), &status_tables()));
}

mod deleting_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(deleting_layout(Order::Key), &status_tables())
    );
}

mod hold {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(held_layout(), &status_tables()));
    postrider_conformance::store_suite!(block_on, Harness::new(held_layout(), &status_tables()));
}

/// D1, D2.
mod logistics_hold {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(logistics_layout(), &logistics_tables()));
    postrider_conformance::store_suite!(block_on, Harness::new(logistics_layout(), &logistics_tables()));
}

/// A table without a status: what is dead or waits is known beside it.
mod debezium_hold {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(debezium_layout(), &debezium_tables()));
}
