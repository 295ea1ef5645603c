//! Native tests of the whole controller.

mod addresses;
mod describe;
mod initialise;
mod labels;
mod older;
mod refresh;
mod world;
