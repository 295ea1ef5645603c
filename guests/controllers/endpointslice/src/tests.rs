//! Tests of the whole controller on the fake cluster, and of its decisions on plain values.

mod describe;
mod failures;
mod overload;
mod packing;
mod placeholder;
mod pods;
mod scale;
mod traffic;
mod trigger;
mod world;
mod zones;
