use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum OrderEvent {
    #[event(type = "OrderCreated")]
    Created { order_id: u64 },
    #[event(type = "loopers.order.paid")]
    Paid { order_id: u64 },
}

fn main() {}
