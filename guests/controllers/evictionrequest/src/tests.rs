//! Native tests of the whole controller.

mod described;
mod evictions;
mod requests;
mod routed;
mod world;
