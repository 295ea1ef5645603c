//! Tests of the whole controller on a fake cluster.

mod budgets;
mod controllers;
mod describe;
mod disrupted;
mod failures;
mod multiple;
mod scales;
mod stale;
mod status;
mod world;
