//! Native tests of the whole controller.

mod describe;
mod interruptions;
mod nodes;
mod pods;
mod silence;
mod taints;
mod world;
mod zones;
