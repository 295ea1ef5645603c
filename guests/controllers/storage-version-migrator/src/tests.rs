//! Native tests of the whole controller.

mod checkpoint;
mod describe;
mod migrated;
mod runner;
mod version;
mod world;
