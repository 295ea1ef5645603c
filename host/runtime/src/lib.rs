//! A running plugin: deltas become keys, workers call the guest for each key, and the host implements the guest's
//! imports.

pub mod causes;
pub mod clouds;
pub mod context;
pub mod credentials;
pub mod discovered_informers;
mod durations;
pub mod graph;
pub mod guest_call;
mod guest_route;
pub mod history;
mod idle;
pub mod memo;
pub mod object_name;
pub mod plugin_tasks;
pub mod queue;
pub mod route_backlog;
pub mod route_turns;
pub mod router;
pub mod split;
pub mod telemetry;
mod tickers;
mod traces;
pub mod trend;
mod watch_router;
mod worker;
