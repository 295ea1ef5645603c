//! Native tests of the whole controller.

mod compared;
mod describe;
mod labels;
mod reported;
mod routed;
mod volumes;
mod world;
