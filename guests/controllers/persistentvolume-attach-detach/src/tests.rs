//! Native tests of the whole controller.

mod attached;
mod claims;
mod describe;
mod detached;
mod exclusive;
mod forced;
mod metrics;
mod plugins;
mod random;
mod restarted;
mod verified;
mod world;
