//! Native tests of the whole controller.

mod answered;
mod describe;
mod expired;
mod pools;
mod summaries;
mod world;
