//! A running plugin: deltas become keys, workers call the guest for each key, and the host implements the guest's imports.

pub(crate) mod context;
pub(crate) mod discovered_informers;
pub(crate) mod graph;
pub(crate) mod guest_call;
mod guest_route;
pub(crate) mod history;
pub(crate) mod memo;
pub(crate) mod object_name;
pub(crate) mod plugin_tasks;
pub(crate) mod queue;
mod route;
mod route_backlog;
pub(crate) mod route_turns;
pub(crate) mod router;
pub(crate) mod telemetry;
mod tickers;
mod worker;
