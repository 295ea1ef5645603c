//! Native tests of the whole controller.

mod describe;
mod external;
mod flex;
mod routed;
mod world;
