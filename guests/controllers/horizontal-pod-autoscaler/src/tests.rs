//! Tests of the steps on plain values, and of the whole controller on a fake cluster.

mod calculator;
mod conditions;
mod describe;
mod limits;
mod metrics;
mod pods;
mod rivals;
mod targets;
mod world;
mod zero;
