//! The Source and Store suites over status tables, on MariaDB, and some of them on MySQL 8.0 where there is one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::tables::{
    DONATION, LEDGER, STATUS_TABLES, deleting_layout, full_status_layout, ledger_layout, quoted_layout,
    status_layout,
};
use common::{Harness, block_on};
use postrider_core::Layout;
use postrider_core::layout::{Order, Way};

macro_rules! suites {
    ($name:ident, $harness:expr) => {
        mod $name {
            use super::*;
            postrider_conformance::source_suite!(block_on, $harness);
            postrider_conformance::store_suite!(block_on, $harness);
        }
    };
}

/// The same on MySQL; without a server there is nothing to test.
macro_rules! suites_on_mysql {
    ($name:ident, $layout:expr, $tables:expr) => {
        suites!($name, {
            let Some(server) = postrider_servers::mysql() else { return };
            Harness::on(&server, $layout, $tables)
        });
    };
}

/// The same on MariaDB 10.11, whose planner weighs indexes in another way than that of 11.
macro_rules! suites_on_mariadb10 {
    ($name:ident, $layout:expr, $tables:expr) => {
        suites!($name, {
            let Some(server) = postrider_servers::mariadb10() else { return };
            Harness::on(&server, $layout, $tables)
        });
    };
}

suites!(lease_by_key, Harness::new(status_layout(Order::Key), STATUS_TABLES));
suites!(lease_without_order, Harness::new(status_layout(Order::None), STATUS_TABLES));
suites!(full_lease_by_key, Harness::new(full_status_layout(Order::Key), STATUS_TABLES));
suites!(full_lease_without_order, Harness::new(full_status_layout(Order::None), STATUS_TABLES));
suites!(quoted_lease_by_key, Harness::new(quoted_layout(Order::Key), STATUS_TABLES));
suites!(quoted_lease_without_order, Harness::new(quoted_layout(Order::None), STATUS_TABLES));
suites!(ledger_lease, Harness::new(ledger_layout(), LEDGER));
suites_on_mysql!(mysql_lease_without_order, status_layout(Order::None), STATUS_TABLES);
suites_on_mysql!(mysql_full_lease_by_key, full_status_layout(Order::Key), STATUS_TABLES);
suites_on_mysql!(mysql_quoted_lease_by_key, quoted_layout(Order::Key), STATUS_TABLES);
suites_on_mysql!(mysql_ledger_lease, ledger_layout(), LEDGER);
suites_on_mariadb10!(mariadb10_full_lease_without_order, full_status_layout(Order::None), STATUS_TABLES);
suites_on_mariadb10!(mariadb10_ledger_lease, ledger_layout(), LEDGER);

/// The same table, by its rows' locks.
fn held(layout: Layout) -> Layout {
    Layout { way: Way::Hold, ..layout }
}

suites!(hold, Harness::new(held(status_layout(Order::None)), STATUS_TABLES));
suites!(full_hold, Harness::new(held(full_status_layout(Order::None)), STATUS_TABLES));
suites!(quoted_hold, Harness::new(held(quoted_layout(Order::None)), STATUS_TABLES));
suites_on_mysql!(mysql_hold, held(status_layout(Order::None)), STATUS_TABLES);
suites_on_mysql!(mysql_full_hold, held(full_status_layout(Order::None)), STATUS_TABLES);

mod deleting_hold {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(held(deleting_layout(Order::None)), STATUS_TABLES)
    );
}

mod deleting_lease_by_key {
    use super::*;
    postrider_conformance::source_suite!(block_on, Harness::new(deleting_layout(Order::Key), STATUS_TABLES));
}

/// Its key is a constant, by which the Store's suite finds nothing.
mod donation_lease {
    use super::*;
    postrider_conformance::source_suite!(
        block_on,
        Harness::new(Layout::built_in("donation").unwrap(), DONATION)
    );
}
