//! A running plugin: deltas become keys, workers call the guest for each key, and its imports are answered.

pub(crate) mod call;
pub(crate) mod controller;
pub(crate) mod discovered;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod memo;
pub(crate) mod queue;
pub(crate) mod router;
pub(crate) mod services;
