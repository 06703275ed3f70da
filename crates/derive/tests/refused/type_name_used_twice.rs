use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum OrderEvent {
    #[event(type = "loopers.order.paid.v1")]
    Created { order_id: u64 },
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

fn main() {}
