//! Tests of whole reconciles on a fake cluster.

mod allocation;
mod cidr_sets;
mod counts;
mod describe;
mod races;
mod settings;
mod world;
