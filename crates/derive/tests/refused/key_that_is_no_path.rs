use postrider_derive::Event;

#[derive(Event)]
#[event(aggregate = "Order", key = "0.order id", type = "loopers.order.paid.v1")]
struct OrderPaid(Order);

struct Order;

fn main() {}
