//! Native tests of the whole controller.

mod describe;
mod generated;
mod groups;
mod metrics;
mod released;
mod reserved;
mod routed;
mod world;
