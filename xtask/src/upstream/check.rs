//! Verifies that what manifests and modules name exists.

use anyhow::Result;

use super::go::{Source, method};
use super::manifest::{File, Manifest, Module};
use super::release::Release;

/// The names that don't exist in their manifest's release, and the references of modules that their manifest doesn't
/// name.
pub(super) fn problems(
    manifests: &[Manifest],
    open: impl Fn(&str) -> Result<Release>,
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for manifest in manifests {
        let release = open(&manifest.upstream.tag)?;
        let mut note = |problem: String| problems.push(format!("{}: {problem}", manifest.name));
        let mut sources = Vec::new();
        for file in &manifest.upstream.files {
            match release.read(&file.path)? {
                Some(text) => sources.push((file, Source::parse(&text))),
                None => note(format!("{} doesn't exist in {}", file.path, release.tag)),
            }
        }
        for (file, source) in &sources {
            for name in file.functions.iter().flatten() {
                if !source.functions.contains_key(name) {
                    note(format!("{} has no function {name}", file.path));
                }
            }
        }
        for module in &manifest.modules {
            unnamed(module, &sources).into_iter().for_each(&mut note);
        }
    }
    Ok(problems)
}

/// The references of a module that its manifest doesn't cover.
fn unnamed(module: &Module, sources: &[(&File, Source)]) -> Vec<String> {
    let mut problems = Vec::new();
    let at = module.path.display();
    for reference in &module.references {
        let path = &reference.path;
        let Some((file, source)) = sources.iter().find(|(file, _)| file.path == *path) else {
            problems.push(format!("{at}: the manifest doesn't name {path}"));
            continue;
        };
        for name in &reference.functions {
            if !is_named(file, source, name) {
                problems.push(format!(
                    "{at}: the manifest names no function {name} of {path}"
                ));
            }
        }
    }
    problems
}

fn is_named(file: &File, source: &Source, name: &str) -> bool {
    match &file.functions {
        Some(functions) => functions
            .iter()
            .any(|function| function == name || method(function) == Some(name)),
        None => source.has_any(name),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use xtask::run::workspace;

    use super::super::manifest::Reference;
    use super::*;

    #[test]
    fn all_manifests_name_what_exists() -> Result<()> {
        let manifests = Manifest::read_all(&workspace().join("guests"))?;
        for manifest in &manifests {
            let release = Release::open(&manifest.upstream.tag)?;
            for file in &manifest.upstream.files {
                if !release.has_module_of(&file.path) {
                    let reason = format!(
                        "the module of {} is missing in the Go module cache",
                        file.path
                    );
                    return flyball_controlplane::skip("all_manifests_name_what_exists", &reason);
                }
            }
        }
        let problems = problems(&manifests, Release::open)?;
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(())
    }

    #[test]
    fn a_reference_must_be_in_the_manifest() {
        let source = || Source::parse("func (t *T) sync() {\n}\n\nfunc other() {\n}\n");
        let file = |functions: Option<&[&str]>| File {
            path: "pkg/a.go".to_owned(),
            functions: functions.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        };
        let check = |file: &File, path: &str, function: &str| {
            let module = Module {
                path: PathBuf::from("lib.rs"),
                references: vec![Reference {
                    path: path.to_owned(),
                    functions: vec![function.to_owned()],
                }],
            };
            unnamed(&module, &[(file, source())]).is_empty()
        };
        let (some, whole) = (file(Some(&["(*T).sync"])), file(None));
        assert!(check(&some, "pkg/a.go", "sync"));
        assert!(!check(&some, "pkg/a.go", "other"));
        assert!(!check(&some, "pkg/b.go", "sync"));
        assert!(check(&whole, "pkg/a.go", "other"));
        assert!(!check(&whole, "pkg/a.go", "third"));
    }
}
