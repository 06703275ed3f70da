//! Append events to an outbox inside your own transaction.
//!
//! An event is a plain type of your domain. The derive gives each variant the name that consumers know it by; a
//! variant without one does not compile, nor does a name off the convention `company.domain.action.v1`.
//!
//! ```
//! use postrider::{Draft, Event};
//!
//! #[derive(Event, serde::Serialize)]
//! #[event(aggregate = "Order", key = "order_id")]
//! #[serde(untagged)]
//! enum OrderEvent {
//!     #[event(type = "loopers.order.created.v1")]
//!     Created { order_id: u64, total: u64 },
//!     #[event(type = "loopers.order.paid.v1")]
//!     Paid { order_id: u64 },
//! }
//!
//! # let (now, chance) = (jiff::Timestamp::UNIX_EPOCH, [7; 10]);
//! let envelope = Draft::new(&OrderEvent::Created { order_id: 7, total: 12 }, "/shop").seal(now, chance)?;
//! assert_eq!(envelope.event_type, "loopers.order.created.v1");
//! assert_eq!(envelope.aggregate_id, "7");
//! assert_eq!(&envelope.data[..], br#"{"order_id":7,"total":12}"#);
//! # Ok::<(), postrider::Fault>(())
//! ```
//!
//! `#[serde(untagged)]` because the type name already tells the variants apart: the payload is the fact alone.

pub use postrider_core::envelope::Trace;
pub use postrider_core::{Draft, Envelope, Event, Fault, Key, Names, Text, cloudevents, limits};
pub use postrider_derive::Event;
