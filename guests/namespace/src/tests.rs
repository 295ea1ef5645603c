//! Whole reconciles against an API server in memory, and the rules behind them on plain values.

mod conditions;
mod content;
mod describe;
mod discovery;
mod finalize;
mod pods;
mod route;
mod world;
