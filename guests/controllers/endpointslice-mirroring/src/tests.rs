//! Tests of the whole controller on the fake cluster.

mod describe;
mod groups;
mod sources;
mod warnings;
mod world;
