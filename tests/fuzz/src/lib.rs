//! Fuzzes the parsers of untrusted input: plugin files, descriptions, policies, and the arguments of
//! guests' calls.
//!
//! A [`Target`] is one parser with its invariants. Its folder in `corpus/` has known inputs, among them those that once
//! failed. The tests feed the corpus, and a few thousand inputs that are mutated from it (`mutations.rs`), with
//! proptest. `cargo xtask fuzz` feeds inputs for a given time with libFuzzer, which keeps those that reach new code.

mod engines;
mod mutations;
mod targets;

pub use engines::{Mutator, check, corpus, corpus_folder};
pub use targets::{TARGETS, Target, Verdict};
