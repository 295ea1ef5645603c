//! Native tests of the whole controller.

mod claims;
mod unused;
mod world;
