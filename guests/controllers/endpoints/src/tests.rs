//! Tests of the whole controller on the fake cluster, and of its decisions on plain values.

mod addresses;
mod describe;
mod truncated;
mod world;
mod writes;
