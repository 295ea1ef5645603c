//! Feeds the corpus and a few thousand inputs mutated from it.

use std::collections::BTreeSet;

use anyhow::Result;
use flyball_fuzz::{Run, TARGETS, Target, corpus, corpus_folder, feed, shrink};

/// The number of mutated inputs for each target.
const MUTATED: usize = 3000;

#[test]
fn no_input_of_the_corpus_breaks_an_invariant() -> Result<()> {
    for target in TARGETS {
        let inputs = corpus(target)?;
        assert!(inputs.len() >= 3, "{} has too few inputs", target.name);
        for (name, input) in inputs {
            feed(target, &input)
                .unwrap_or_else(|failure| panic!("{}/{name} {}", target.name, failure.reason));
        }
    }
    Ok(())
}

#[test]
fn the_corpus_of_each_target_has_outcomes_of_several_shapes() -> Result<()> {
    for target in TARGETS {
        let known: Vec<Vec<u8>> = corpus(target)?
            .into_iter()
            .map(|(_, input)| input)
            .collect();
        let shapes: BTreeSet<String> = known
            .iter()
            .map(|input| feed(target, input).expect("no input of the corpus fails"))
            .collect();
        assert!(shapes.len() > 1, "{}: {shapes:?}", target.name);
    }
    Ok(())
}

#[test]
fn no_mutated_input_breaks_an_invariant() -> Result<()> {
    for target in TARGETS {
        let known = corpus(target)?
            .into_iter()
            .map(|(_, input)| input)
            .collect();
        let mut run = Run::new(target, known, 1);
        for _ in 0..MUTATED {
            let input = run.next_input();
            if let Err(failure) = run.feed(input) {
                let failure = shrink(target, failure);
                panic!(
                    "{} {}: {:?}",
                    target.name,
                    failure.reason,
                    String::from_utf8_lossy(&failure.input)
                );
            }
        }
        assert!(run.shapes() > 2, "{}", target.name);
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
    let mut run = Run::new(&FAULTY, vec![b"some text to begin with".to_vec()], 1);
    let failure = (0..100_000).find_map(|_| {
        let input = run.next_input();
        run.feed(input).err()
    });
    let smallest = shrink(&FAULTY, failure.expect("the failure is found"));
    assert_eq!(smallest.reason, "panicked: both");
    assert_eq!(
        smallest.input.len(),
        "leftright".len(),
        "{:?}",
        String::from_utf8_lossy(&smallest.input)
    );
}
