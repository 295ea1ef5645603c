//! Reads the upstream sources that manifests and modules name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// The folders of manifests below `guests`, with the manifests' names.
const MANIFESTS: [(&str, &str); 2] = [("controllers", "controller.toml"), ("lib", "upstream.toml")];

/// A controller or library that stands for code upstream.
pub(super) struct Manifest {
    /// The name of the folder.
    pub(super) name: String,
    pub(super) upstream: Upstream,
    pub(super) modules: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    /// The release that the code was last compared with.
    pub(super) tag: String,
    pub(super) files: Vec<File>,
}

/// A file upstream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The path in the repository `kubernetes`.
    pub(super) path: String,
    /// The functions that count; all, and the other declarations, if none are named.
    pub(super) functions: Option<Vec<String>>,
}

/// The sections of a manifest that are read here.
#[derive(Deserialize)]
struct Document {
    upstream: Option<Upstream>,
}

/// A Rust module.
pub(super) struct Module {
    pub(super) path: PathBuf,
    /// The upstream functions that its header names.
    pub(super) references: Vec<Reference>,
}

/// A paragraph `Upstream: path: function, function.`
#[derive(Debug, PartialEq)]
pub(super) struct Reference {
    pub(super) path: String,
    /// Names with or without the methods' types; none if the whole file is meant.
    pub(super) functions: Vec<String>,
}

impl Manifest {
    /// Reads all manifests with a section `upstream`, sorted by name.
    pub(super) fn read_all(guests: &Path) -> Result<Vec<Self>> {
        let mut manifests = Vec::new();
        for (parent, file) in MANIFESTS {
            let parent = guests.join(parent);
            let entries = parent
                .read_dir()
                .with_context(|| format!("can't list {}", parent.display()))?;
            for entry in entries {
                let folder = entry?.path();
                manifests.extend(Self::read(&folder, &folder.join(file))?);
            }
        }
        manifests.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(manifests)
    }

    fn read(folder: &Path, file: &Path) -> Result<Option<Self>> {
        if !file.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("can't read {}", file.display()))?;
        let document: Document =
            toml::from_str(&text).with_context(|| format!("can't parse {}", file.display()))?;
        let Some(upstream) = document.upstream else {
            return Ok(None);
        };
        let mut modules = Vec::new();
        read_modules(&folder.join("src"), &mut modules)?;
        let name = folder.file_name().unwrap_or_default();
        Ok(Some(Self {
            name: name.to_string_lossy().into_owned(),
            upstream,
            modules,
        }))
    }
}

fn read_modules(folder: &Path, modules: &mut Vec<Module>) -> Result<()> {
    let entries = folder
        .read_dir()
        .with_context(|| format!("can't list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read_modules(&path, modules)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("can't read {}", path.display()))?;
            let references = references(&text);
            modules.push(Module { path, references });
        }
    }
    Ok(())
}

/// The references in a module's header. They stand at its end, and may be wrapped.
fn references(module: &str) -> Vec<Reference> {
    let header: Vec<&str> = module
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .skip_while(|line| !line.starts_with(REFERENCE))
        .collect();
    header
        .join(" ")
        .split(REFERENCE)
        .skip(1)
        .map(|reference| {
            let reference = reference.trim().trim_end_matches('.');
            let (path, functions) = reference.split_once(": ").unwrap_or((reference, ""));
            Reference {
                path: path.to_owned(),
                functions: functions
                    .split(", ")
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect(),
            }
        })
        .collect()
}

/// Begins each reference.
const REFERENCE: &str = "Upstream: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_files_and_functions() {
        let module = "//! Deletes pods.\n//!\n//! Upstream: pkg/a/a.go: gc,\n//! (*T).run.\n//! Upstream: pkg/b.go.\n\nuse x;\n";
        let reference = |path: &str, functions: &[&str]| Reference {
            path: path.to_owned(),
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            references(module),
            [
                reference("pkg/a/a.go", &["gc", "(*T).run"]),
                reference("pkg/b.go", &[])
            ]
        );
    }

    #[test]
    fn only_the_header_is_read() {
        assert!(references("//! Text.\nuse x;\n//! Upstream: pkg/a.go.\n").is_empty());
    }

    #[test]
    fn other_sections_of_a_manifest_are_ignored_and_unknown_keys_are_refused() {
        let other = "aliases = ['a']\n[upstream]\ntag = 'v1.36.3'\nfiles = [{path = 'a.go'}]\n";
        let document: Document = toml::from_str(other).expect("the manifest is valid");
        let upstream = document.upstream.expect("there is a section");
        assert!(upstream.files[0].functions.is_none());
        assert!(toml::from_str::<Document>(&other.replace("path", "file")).is_err());
    }
}
