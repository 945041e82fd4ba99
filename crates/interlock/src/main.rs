//! interlock
fn main() {}
