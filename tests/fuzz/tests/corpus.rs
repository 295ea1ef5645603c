//! Feeds the corpus and a few thousand inputs mutated from it.

use std::collections::BTreeSet;

use anyhow::Result;
use flyball_fuzz::{TARGETS, Target, check, corpus, corpus_folder};

/// The number of mutated inputs for each target.
const MUTATED: u32 = 3000;
/// The targets that run a plugin or a server for each input get a tenth.
const SLOW: [&str; 3] = ["description-policy", "host-calls", "registry"];

#[test]
fn no_input_of_the_corpus_breaks_an_invariant() -> Result<()> {
    for target in TARGETS {
        let inputs = corpus(target)?;
        assert!(inputs.len() >= 3, "{} has too few inputs", target.name);
        let mut outcomes = BTreeSet::new();
        for (name, input) in inputs {
            let outcome = (target.feed)(&input);
            let outcome =
                outcome.unwrap_or_else(|broken| panic!("{}/{name}: {broken}", target.name));
            outcomes.insert(outcome);
        }
        assert!(outcomes.len() > 1, "{}: {outcomes:?}", target.name);
    }
    Ok(())
}

#[test]
fn no_mutated_input_breaks_an_invariant() -> Result<()> {
    for target in TARGETS {
        let known = corpus(target)?.into_iter().map(|(_, input)| input);
        let count = match SLOW.contains(&target.name) {
            true => MUTATED / 10,
            false => MUTATED,
        };
        if let Err((input, reason)) = check(target, known.collect(), count) {
            let input = String::from_utf8_lossy(&input);
            panic!("{}: {reason}: {input:?}", target.name);
        }
    }
    Ok(())
}

#[test]
fn every_folder_of_the_corpus_has_a_target() -> Result<()> {
    let names: BTreeSet<String> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    let folder = corpus_folder(&TARGETS[0]);
    let found = std::fs::read_dir(folder.parent().expect("the corpus is a folder"))?;
    let found: Result<BTreeSet<String>, std::io::Error> = found
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect();
    assert_eq!(found?, names);
    Ok(())
}

/// Panics if the input has both tokens.
const FAULTY: Target = Target {
    name: "faulty",
    tokens: || vec!["left", "right"],
    feed: |input| {
        let has = |word: &[u8]| input.windows(word.len()).any(|part| part == word);
        match (has(b"left"), has(b"right")) {
            (true, true) => panic!("both"),
            (left, _) => Ok(if left { "left" } else { "none" }.into()),
        }
    },
};

#[test]
fn a_failure_that_needs_two_mutations_is_found_and_shrunk() {
    let begin = b"some text to begin with".to_vec();
    let (input, reason) = check(&FAULTY, vec![begin.clone()], 10_000).expect_err("it is found");
    assert!(reason.contains("both"), "{reason}");
    let most = begin.len() + "leftright".len();
    assert!(input.len() <= most, "{:?}", String::from_utf8_lossy(&input));
}
