//! Native tests of the whole controller.

mod describe;
mod plan;
mod run;
mod settings;
mod turn;
mod world;
