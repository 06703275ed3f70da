use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
struct OrderPaid {
    order_id: u64,
}

fn main() {}
