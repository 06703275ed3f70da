use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id", topic = "order-events")]
enum Topic {
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id", names = "any")]
enum Names {
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id", key = "id")]
enum Twice {
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

#[derive(Event)]
#[event(aggregate = "", key = "order_id")]
enum Empty {
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

fn main() {}
