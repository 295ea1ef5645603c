//! Feeds a target, and makes what fails smaller.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::mutate::Mutator;
use crate::shape;
use crate::targets::Target;

/// Inputs that a run keeps because of the shape of their answers.
const KEPT: usize = 4096;

/// An input that broke an invariant or made the target panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// What happened.
    pub what: String,
}

/// Feeds one input, and returns the shape of the answer.
pub fn feed(target: &Target, input: &[u8]) -> Result<String, Failure> {
    let failed = |what| Failure {
        input: input.to_owned(),
        what,
    };
    match catch_unwind(AssertUnwindSafe(|| (target.feed)(input))) {
        Ok(Ok(answer)) => Ok(shape::of(&answer)),
        Ok(Err(broken)) => Err(failed(format!("broken: {broken}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without a message");
            Err(failed(format!("panicked: {text}")))
        }
    }
}

/// The folder of a target's inputs, in the project.
pub fn corpus_folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

/// A target's inputs, by the names of their files.
pub fn corpus(target: &Target) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = corpus_folder(target);
    let read = || -> std::io::Result<Vec<(String, Vec<u8>)>> {
        let mut inputs = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            inputs.push((name, std::fs::read(&path)?));
        }
        inputs.sort();
        Ok(inputs)
    };
    read().with_context(|| format!("can't read the corpus in {}", folder.display()))
}

/// A run on one target: inputs are made of those that it knows.
pub struct Run<'a> {
    target: &'a Target,
    mutator: Mutator,
    known: Vec<Vec<u8>>,
    shapes: HashSet<String>,
}

impl<'a> Run<'a> {
    /// A run that begins with these inputs, which have been fed already.
    pub fn new(target: &'a Target, known: Vec<Vec<u8>>, seed: u64) -> Self {
        Self {
            target,
            mutator: Mutator::new(seed),
            known,
            shapes: HashSet::new(),
        }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        self.mutator.input(&self.known, self.target.tokens)
    }

    /// Feeds an input, and keeps it if its answer is of a new shape.
    pub fn feed(&mut self, input: Vec<u8>) -> Result<(), Failure> {
        let shape = feed(self.target, &input)?;
        if self.known.len() < KEPT && self.shapes.insert(shape) {
            self.known.push(input);
        }
        Ok(())
    }

    /// How many shapes of answers there were.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

/// Takes parts away from an input that fails, as long as it fails in the same way.
pub fn shrink(target: &Target, failure: Failure) -> Failure {
    let same = |other: &Failure| shape::of(&other.what) == shape::of(&failure.what);
    let mut smallest = failure.clone();
    let mut part = smallest.input.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < smallest.input.len() {
            let mut input = smallest.input.clone();
            input.drain(at..(at + part).min(input.len()));
            match feed(target, &input) {
                Err(smaller) if same(&smaller) => smallest = smaller,
                _ => at += part,
            }
        }
        part /= 2;
    }
    smallest
}
