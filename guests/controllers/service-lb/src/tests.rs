//! Native tests of the whole controller.

mod cleanup;
mod crashes;
mod describe;
mod ensure;
mod forgotten;
mod pass;
mod predicates;
mod routed;
mod world;
