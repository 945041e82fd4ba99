//! interlock
fn main(){}
