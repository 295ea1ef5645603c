//! Native tests of the whole controller.

mod describe;
mod ended;
mod orphans;
mod terminating;
mod world;
