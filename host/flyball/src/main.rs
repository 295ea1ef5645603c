//! The flyball binary.

fn main() {}
