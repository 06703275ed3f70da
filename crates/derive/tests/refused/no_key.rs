use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", type = "loopers.order.paid.v1")]
struct OrderPaid {
    order_id: u64,
}

fn main() {}
