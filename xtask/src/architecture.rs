//! Checks that the paths in ARCHITECTURE.md exist.

use std::collections::BTreeSet;

use xtask::run::workspace;

/// The maximum number of files in the section that follows one pod event through the code.
const MAX_FILES: usize = 15;

fn document() -> String {
    std::fs::read_to_string(workspace().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md can be read")
}

/// The paths in a text: texts in backticks with a slash whose first part is a folder of the
/// workspace.
fn paths(text: &str) -> Vec<&str> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| {
            quoted
                .split_once('/')
                .is_some_and(|(first, _)| !first.is_empty() && workspace().join(first).is_dir())
        })
        .collect()
}

#[test]
fn every_path_in_architecture_md_exists() {
    let text = document();
    let paths = paths(&text);
    assert!(paths.contains(&"host/cache"), "no paths were found");
    let missing: Vec<&str> = paths
        .into_iter()
        .filter(|path| !workspace().join(path).exists())
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md has paths that don't exist: {missing:?}"
    );
}

#[test]
fn one_pod_event_passes_through_at_most_15_files() {
    let text = document();
    let (_, section) = text
        .split_once("\n## One pod event\n")
        .expect("ARCHITECTURE.md has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let files = paths(section);
    let distinct: BTreeSet<&str> = files.iter().copied().collect();
    assert_eq!(distinct.len(), files.len(), "a file is named twice");
    assert!(
        (1..=MAX_FILES).contains(&files.len()),
        "{} files are named",
        files.len()
    );
    // Each step of the list begins with its file.
    let steps = section.lines().filter(|line| {
        line.split_once(". `")
            .is_some_and(|(n, _)| n.parse::<u32>().is_ok())
    });
    assert_eq!(steps.count(), files.len());
    for file in files {
        assert!(workspace().join(file).is_file(), "{file} is not a file");
    }
}
