//! Feeds what the outside reaches (files, descriptions, policies, and what guests say in their
//! calls) with inputs that nobody would write, and holds the answers against what must be true of
//! every answer.
//!
//! A [`Target`] is one parser with its invariants. Inputs come from its folder in `corpus/`, and
//! from [`Mutator`], which makes others of those. An input that gets an answer of a new shape
//! (another kind of error, another kind of success) is kept for the rest of a run: that is all the
//! guidance there is, since coverage needs a compiler's help that stable Rust does not give. What
//! fails becomes smaller, and then a part of the corpus.
//!
//! The tests run the corpus and a few thousand inputs made of it; `cargo xtask fuzz` goes on for as
//! long as one likes.

mod mutate;
mod run;
mod shape;
mod targets;

pub use mutate::Mutator;
pub use run::{Failure, Run, corpus, corpus_folder, feed, shrink};
pub use targets::{TARGETS, Target, Verdict};
