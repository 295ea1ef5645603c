//! The two engines that feed the targets: proptest in tests, and libFuzzer, which follows the coverage, in long runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::mutations::{Mutation, apply, inputs, mutations};
use crate::targets::Target;

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
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            inputs.push((name.into_owned(), std::fs::read(&path)?));
        }
        inputs.sort();
        Ok(inputs)
    };
    read().with_context(|| format!("can't read the corpus in {}", folder.display()))
}

/// Feeds inputs that are mutated from known ones: always the same ones. The error is the smallest input that fails, and
/// why.
pub fn check(
    target: &Target,
    known: Vec<Vec<u8>>,
    inputs_fed: u32,
) -> Result<(), (Vec<u8>, String)> {
    let config = Config {
        cases: inputs_fed,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let inputs = inputs(known, (target.tokens)());
    let ran = runner.run(&inputs, |input| {
        (target.feed)(&input).map(drop).map_err(TestCaseError::fail)
    });
    ran.map_err(|error| match error {
        TestError::Fail(reason, input) => (input, reason.message().to_owned()),
        TestError::Abort(reason) => (Vec::new(), reason.message().to_owned()),
    })
}

/// Mutates inputs for libFuzzer, besides its own mutations.
pub struct Mutator {
    mutations: proptest::strategy::BoxedStrategy<Vec<Mutation>>,
}

impl Mutator {
    /// A mutator with the tokens and the corpus of a target.
    ///
    /// # Errors
    /// The corpus can't be read.
    pub fn new(target: &Target) -> Result<Self> {
        let known = corpus(target)?.into_iter().map(|(_, input)| input);
        let mutations = mutations(known.collect(), (target.tokens)());
        Ok(Self { mutations })
    }

    /// Returns the input with a few mutations. The same seed mutates in the same way.
    pub fn mutate(&self, input: &[u8], seed: u32) -> Vec<u8> {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        match self.mutations.new_tree(&mut runner) {
            Ok(tree) => apply(input.to_vec(), &tree.current()),
            // Only a filter rejects, and there is none.
            Err(_) => input.to_vec(),
        }
    }
}
