use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum OrderEvent {
    #[event(type = "loopers.order.created.v1")]
    Created { id: u64, total: u64 },
    #[event(type = "loopers.order.paid.v1", key = "order")]
    Paid { id: u64 },
    #[event(type = "loopers.order.canceled.v1")]
    Canceled,
}

fn main() {}
