//! The Source and Store suites over status tables: every way and every kind of table that PostgreSQL has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::tables::{
    debezium_layout, debezium_tables, deleting_layout, domain_layout, domain_tables, full_status_layout,
    held_layout, logistics_layout, logistics_tables, marked_layout, quoted_layout, status_layout,
    status_tables,
};
use common::{Harness, block_on};
use postrider_core::layout::{Order, Way};

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

/// F1: `published = { column = … }`, a time.
mod marked_lease_by_key {
    use super::*;
    const MARK: &str = "column = \"sent_at\"";
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(marked_layout(Way::Lease, Order::Key, MARK), &status_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(marked_layout(Way::Lease, Order::Key, MARK), &status_tables())
    );
}

/// A flag, which is NULL at first.
mod flagged_lease_without_order {
    use super::*;
    const MARK: &str = "column = \"sent\"";
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(marked_layout(Way::Lease, Order::None, MARK), &status_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(marked_layout(Way::Lease, Order::None, MARK), &status_tables())
    );
}

/// A number that is a time.
mod marked_hold {
    use super::*;
    const MARK: &str = "column = \"sent_ms\", as = \"unix_ms\"";
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(marked_layout(Way::Hold, Order::None, MARK), &status_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(marked_layout(Way::Hold, Order::None, MARK), &status_tables())
    );
}

/// F1: a domain counts as what it is over, also where that is another domain or an enum.
mod domains_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(domain_layout(Way::Lease, Order::Key), &domain_tables())
    );
    postrider_conformance::store_suite!(
        block_on,
        Harness::new(domain_layout(Way::Lease, Order::Key), &domain_tables())
    );
}

mod domains_hold {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(domain_layout(Way::Hold, Order::None), &domain_tables())
    );
}
