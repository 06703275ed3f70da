use postrider_derive::Event;

#[derive(Event)]
#[event(key = "order_id")]
enum OrderEvent {
    #[event(type = "loopers.order.paid.v1")]
    Paid { order_id: u64 },
}

fn main() {}
