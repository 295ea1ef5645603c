//! Whole reconciles against an API server in memory, and the rules behind them on plain values.

mod corners;
mod describe;
mod duplicates;
mod ended;
mod history;
mod in_place;
mod launch;
mod limits;
mod nodes;
mod ownership;
mod placement;
mod status;
mod surge;
mod template;
mod world;
