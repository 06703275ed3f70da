use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum OrderEvent {
    #[event(type = "loopers.order.created.v1")]
    Created { order_id: u64 },
    Paid { order_id: u64 },
    Canceled { order_id: u64 },
}

fn main() {}
