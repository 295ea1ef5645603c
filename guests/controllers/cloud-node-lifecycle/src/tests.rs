//! Native tests of the whole controller.

mod describe;
mod nodes;
mod older;
mod taints;
mod world;
