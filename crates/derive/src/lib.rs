//! The derive macro for Postrider events.

mod attributes;
mod case;
mod expand;
mod field;
// The convention is decided in one place; to depend on the core would build it twice, once more for the compiler's side.
#[path = "../../core/src/convention.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core needs more of it than the macro")]
mod convention;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes an enum or a struct an event: gives each variant its type name, its aggregate and its key.
///
/// ```
/// use postrider_core::Event as _;
/// use postrider_derive::Event;
///
/// #[derive(Event)]
/// #[event(aggregate = "Order", key = "order_id")]
/// # #[event(crate = "postrider_core")]
/// enum OrderEvent {
///     #[event(type = "loopers.order.created.v1")]
///     Created { order_id: u64, total: u64 },
///     #[event(type = "loopers.order.paid.v1")]
///     Paid { order_id: u64 },
/// }
///
/// let event = OrderEvent::Created { order_id: 7, total: 12 };
/// assert_eq!(event.event_type(), "loopers.order.created.v1");
/// assert_eq!((event.aggregate_type(), &*event.aggregate_id()), ("Order", "7"));
/// ```
///
/// | `#[event(…)]` | on | says |
/// |---|---|---|
/// | `type = "loopers.order.created.v1"` | each variant, or the struct | what consumers know it by; no two variants share one |
/// | `aggregate = "Order"` | the type; a variant may differ | what kind of thing it happened to |
/// | `key = "order_id"` | the type; a variant may differ | the field whose text keeps events in order, and is the aggregate's id; `"0"` in a tuple, `"0.order_id"` for a field inside |
/// | `aggregate_id = "transaction_id"` | the type; a variant may differ | the field with the aggregate's id, where that is not the key |
/// | `names = "free"` | the type | allows names off the convention `company.domain.action.v1` |
/// | `crate = "postrider_core"` | the type | where the trait is, if not in `postrider` |
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}
