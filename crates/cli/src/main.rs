//! The postrider binary.
fn main() {}
