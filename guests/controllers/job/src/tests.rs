//! Whole reconciles against an API server in memory, and the rules behind them on plain values.

mod accounting;
mod backoff;
mod describe;
mod ending;
mod failure_policy;
mod finished;
mod gang;
mod index_limits;
mod indexed;
mod large;
mod metrics;
mod orphans;
mod ownership;
mod rank;
mod replacement;
mod scale;
mod success_policy;
mod suspend;
mod tally;
mod template;
mod workload;
mod world;
