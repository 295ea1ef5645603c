//! Canaries: a candidate, which is a new version of a plugin, takes over the keys of the version that runs, step by step.
//! It goes on by itself, or all keys go back by themselves.
//!
//! `state.rs` is what is stored, so that the next process goes on with it: with an election, in a note of the lease,
//! which the new holder has read before it leads, else in the folder of versions. Only what is stored is in force.
//! `load.rs` loads candidates, `judge.rs` counts what both versions do, and `decide.rs` decides. The workers divide the
//! keys by `split.rs` in `host/runtime`. `supervisor/canaries.rs` carries it out.

mod decide;
mod judge;
mod load;
mod report;
mod state;
mod status;

pub(crate) use self::decide::Decision;
pub(crate) use self::judge::Judge;
pub(crate) use self::load::{CandidateLoader, LastFailure, LoadedCandidate};
pub(crate) use self::report::CanaryReports;
pub(crate) use self::state::{Canaries, Canary, InForce};
pub use self::state::{CandidateOrigin, NamedVersion, Position};
pub use self::status::{CanaryState, CanaryStatus, Did};
