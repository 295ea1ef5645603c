//! Feeds inputs to a target, and shrinks those that fail.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::coverage::Coverage;
use crate::mutate::Mutator;
use crate::shape;
use crate::targets::Target;

/// The maximum number of inputs that a run knows.
const MAX_KNOWN: usize = 4096;

/// An input that broke an invariant or made the target panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub input: Vec<u8>,
    /// The broken invariant or the panic.
    pub reason: String,
}

/// Feeds one input, and returns the shape of its outcome.
pub fn feed(target: &Target, input: &[u8]) -> Result<String, Failure> {
    let failed = |reason| Failure {
        input: input.to_owned(),
        reason,
    };
    match catch_unwind(AssertUnwindSafe(|| (target.feed)(input))) {
        Ok(Ok(outcome)) => Ok(shape::of(&outcome)),
        Ok(Err(broken)) => Err(failed(format!("broken invariant: {broken}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without a message");
            Err(failed(format!("panicked: {text}")))
        }
    }
}

/// The folder with a target's inputs.
pub fn corpus_folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

/// A target's inputs with their file names, sorted by name.
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

/// A run of one target. It mutates the inputs that it knows.
pub struct Run<'a> {
    target: &'a Target,
    tokens: Vec<&'static str>,
    mutator: Mutator,
    known: Vec<Vec<u8>>,
    shapes: HashSet<String>,
    coverage: Coverage,
}

impl<'a> Run<'a> {
    /// Starts with known inputs, which are not fed again.
    pub fn new(target: &'a Target, known: Vec<Vec<u8>>, seed: u64) -> Self {
        Self {
            target,
            tokens: (target.tokens)(),
            mutator: Mutator::new(seed),
            known,
            shapes: HashSet::new(),
            coverage: Coverage::default(),
        }
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        self.mutator.input(&self.known, &self.tokens)
    }

    /// Feeds an input, and keeps it if its outcome has a new shape, or if it reaches new code in a
    /// build that counts it.
    pub fn feed(&mut self, input: Vec<u8>) -> Result<(), Failure> {
        Coverage::begin();
        let shape = feed(self.target, &input)?;
        let is_new = self.coverage.add() | self.shapes.insert(shape);
        if is_new && self.known.len() < MAX_KNOWN {
            self.known.push(input);
        }
        Ok(())
    }

    /// The number of places of the code that were reached, and of all that are counted; 0 in a
    /// build that counts none.
    pub fn reached(&self) -> (usize, usize) {
        self.coverage.reached()
    }

    /// The number of distinct shapes so far.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

/// Removes parts of an input that fails, as long as it fails for the same reason.
pub fn shrink(target: &Target, failure: Failure) -> Failure {
    let same = |other: &Failure| shape::of(&other.reason) == shape::of(&failure.reason);
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
