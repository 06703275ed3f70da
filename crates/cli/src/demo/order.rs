//! What happens in the shop, as its events tell it.

use std::borrow::Cow;

use postrider_core::Event;
use serde::Serialize;

/// What happens to an order, in this order.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum OrderEvent {
    Created { order: i64, customer: &'static str, total_cents: u32 },
    Paid { order: i64, total_cents: u32 },
    Shipped { order: i64 },
}

impl Event for OrderEvent {
    fn event_type(&self) -> &'static str {
        match self {
            Self::Created { .. } => "shop.order.created.v1",
            Self::Paid { .. } => "shop.order.paid.v1",
            Self::Shipped { .. } => "shop.order.shipped.v1",
        }
    }

    fn aggregate_type(&self) -> &'static str {
        "Order"
    }

    fn aggregate_id(&self) -> Cow<'_, str> {
        let (Self::Created { order, .. } | Self::Paid { order, .. } | Self::Shipped { order }) = self;
        order.to_string().into()
    }
}

pub(crate) fn event(order: i64, step: u32) -> OrderEvent {
    match step {
        0 => OrderEvent::Created { order, customer: customer(order), total_cents: total_cents(order) },
        1 => OrderEvent::Paid { order, total_cents: total_cents(order) },
        _ => OrderEvent::Shipped { order },
    }
}

pub(crate) fn customer(order: i64) -> &'static str {
    const CUSTOMERS: [&str; 6] = ["Ada", "Grace", "Edsger", "Barbara", "Tony", "Leslie"];
    CUSTOMERS[usize::try_from(order).unwrap_or(0) % CUSTOMERS.len()]
}

pub(crate) fn total_cents(order: i64) -> u32 {
    u32::try_from(order * 7_919 % 20_000).unwrap_or(0) + 99
}
