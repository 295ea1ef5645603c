//! Native tests of the whole controller.

mod describe;
mod evicted;
mod rules;
mod woken;
mod world;
