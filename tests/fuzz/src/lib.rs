//! Fuzzes the parsers of untrusted input: plugin files, descriptions, policies, and the arguments of
//! guests' calls.
//!
//! A [`Target`] is one parser with its invariants. Inputs come from its folder in `corpus/`, and from [`Mutator`],
//! which mutates them. An input whose outcome has a new shape (another kind of error, another kind of success) is kept
//! and mutated further for the rest of the run. There is no other guidance: stable Rust has no coverage instrumentation
//! for it. An input that fails is shrunk and added to the corpus.
//!
//! The tests feed the corpus and a few thousand inputs mutated from it. `cargo xtask fuzz` runs for
//! a given time.

mod coverage;
mod mutate;
mod run;
mod shape;
mod targets;

pub use mutate::Mutator;
pub use run::{Failure, Run, corpus, corpus_folder, feed, shrink};
pub use targets::{TARGETS, Target, Verdict};
