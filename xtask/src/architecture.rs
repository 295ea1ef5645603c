//! Checks that the paths in ARCHITECTURE.md exist.

use xtask::run::workspace;

/// The paths in a text: texts in backticks with a slash whose first part is a folder of the workspace.
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
    let text = std::fs::read_to_string(workspace().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md can be read");
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
