use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id", type = "loopers.order.paid.v1")]
enum TypeOnTheEnum {
    Paid { order_id: u64 },
}

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum NamesOnTheVariant {
    #[event(type = "PAID", names = "free")]
    Paid { order_id: u64 },
}

#[derive(Event)]
#[event(aggregate = "Order", key = "order_id")]
enum NoVariant {}

fn main() {}
