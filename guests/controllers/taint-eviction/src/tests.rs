//! Native tests of the whole controller.

mod cancelled;
mod describe;
mod evicted;
mod outage;
mod timed;
mod world;
