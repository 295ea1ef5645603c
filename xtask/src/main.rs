//! Builds, tests, demonstrates and measures Flyball.

fn main() {}
