//! `flyball new`: creates a project with a working controller and a test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::Language;
use crate::embedded::{COMMON_TEMPLATE, write};
use crate::languages::{Sdk, VENDORED};
use crate::resource::Resource;

/// A project to create.
#[derive(Clone, Debug)]
pub struct New {
    /// The plugin's name.
    pub name: String,
    pub language: Language,
    /// Whether the plugin is a cloud.
    pub cloud: bool,
    /// The folder to create; by default the plugin's name.
    pub dir: Option<PathBuf>,
    /// The kind of the project's custom resource, its API group and its plural; by default `Greeting`, `NAME.example.com`
    /// and the usual plural.
    pub kind: Option<String>,
    pub group: Option<String>,
    pub plural: Option<String>,
    /// The SDK to use: the folder of a checkout or, in some languages, a URL. By default a copy is vendored.
    pub sdk: Option<String>,
}

impl New {
    /// Creates the project. Returns text with the next steps.
    pub fn create(self) -> Result<String> {
        let name = self.name.as_str();
        check(name, self.language)?;
        let [kind, group, plural] = [&self.kind, &self.group, &self.plural].map(Option::as_deref);
        let resource = Resource::new(name, kind, group, plural)?;
        let support = self.language.support();
        let sdk = self.sdk.as_deref().map_or(Sdk::Vendored, Sdk::At);
        let reference = support.sdk_reference(sdk)?;
        let (cloud_reference, template) = match self.cloud {
            true => {
                let template = support.cloud_template().with_context(|| {
                    format!(
                        "can't create a cloud in {}: only the SDKs for Rust and Go have an API for clouds; use --lang rust or \
                         --lang go, or let a server in any language speak the protocol of `examples/cloud-http`",
                        self.language.name()
                    )
                })?;
                (support.cloud_sdk_reference(sdk)?, vec![template])
            }
            false => (String::new(), vec![support.template(), &COMMON_TEMPLATE]),
        };
        let dir = self.dir.clone().unwrap_or_else(|| name.into());
        let is_empty = |dir: &Path| dir.read_dir().is_ok_and(|mut files| files.next().is_none());
        ensure!(
            !dir.exists() || is_empty(&dir),
            "can't create a project in {}: the folder exists and is not empty; name another one with --dir",
            dir.display()
        );
        let templates = template.into_iter().flatten().map(|(file, content)| {
            let text = std::str::from_utf8(content);
            let text = text.with_context(|| format!("the template of {file} is not Unicode"))?;
            Ok((*file, text))
        });
        let templates = templates.collect::<Result<Vec<_>>>()?;
        resource.check(&templates)?;
        for (file, template) in &templates {
            let text = resource
                .renamed(file, template, &templates)
                .replace("{{IDENTIFIER}}", &name.replace('-', "_"))
                .replace("{{TYPE}}", &camel_case(name))
                .replace("{{NAME}}", name)
                .replace("{{CLOUD_SDK}}", &cloud_reference)
                .replace("{{SDK}}", &reference);
            write(
                &dir.join(file.strip_suffix(".in").unwrap_or(file)),
                text.as_bytes(),
            )?;
        }
        if let Sdk::Vendored = sdk {
            for (file, content) in support.sdk() {
                let content = match file.ends_with(".md") {
                    true => without_outer_links(content)?.into_bytes().into(),
                    false => support.vendored(file, content)?,
                };
                write(&dir.join(VENDORED).join(file), &content)?;
            }
            support.complete(&dir.join(VENDORED), &dir.join(support.work()))?;
        }
        Ok(format!(
            "created {dir}\n\n  cd {dir}\n  {test:24} # runs its test, without a cluster\n  flyball build            # builds {name}.wasm\n  \
             flyball dev              # builds and runs it whenever a file is saved\n  flyball policy {name}.wasm\n",
            dir = dir.display(),
            test = support.test_command(),
        ))
    }
}

/// Returns a text in Markdown without its links to files outside of the SDK's folder. A project does not have them.
fn without_outer_links(content: &[u8]) -> Result<String> {
    let mut rest = std::str::from_utf8(content).context("a text of the SDK is not Unicode")?;
    let mut kept = String::new();
    while let Some(at) = rest.find("](../../../") {
        let open = rest[..at].rfind('[');
        let close = rest[at..].find(')');
        let (Some(open), Some(close)) = (open, close) else {
            break;
        };
        kept += &rest[..open];
        kept += &rest[open + 1..at];
        rest = &rest[at + close + 1..];
    }
    Ok(kept + rest)
}

/// Returns the name of a type for a name with dashes.
fn camel_case(name: &str) -> String {
    let capitalize = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('-').map(capitalize).collect()
}

pub(crate) fn check(name: &str, language: Language) -> Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && !name.contains("--");
    ensure!(
        is_name,
        "`{name}` can't be a plugin's name: use lower-case letters, digits and dashes, a letter first"
    );
    if let Some(reason) = language.support().refuses_name(name) {
        bail!("`{name}` can't be the project's name, because {reason}: choose another name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(language: Language, dir: &Path) -> New {
        New {
            name: "a".into(),
            language,
            cloud: false,
            dir: Some(dir.into()),
            kind: None,
            group: None,
            plural: None,
            sdk: None,
        }
    }

    #[test]
    fn a_text_of_the_sdk_has_no_links_to_files_that_a_project_lacks() {
        let text =
            "[Flyball](../../../README.md) is [large](../../../docs/a.md#b), see [wit](wit).";
        assert_eq!(
            without_outer_links(text.as_bytes()).unwrap(),
            "Flyball is large, see [wit](wit)."
        );
    }

    #[test]
    fn a_project_has_the_custom_resource_that_is_asked_for_everywhere() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("project");
            let new = New {
                kind: Some("Leaf".into()),
                group: Some("tree.example.org".into()),
                plural: Some("leaves".into()),
                ..new(language, &dir)
            };
            new.create().unwrap();
            let own = language.support().template().iter();
            let texts = own.chain(&*COMMON_TEMPLATE).map(|(file, _)| {
                let file = dir.join(file.strip_suffix(".in").unwrap());
                (file.clone(), std::fs::read_to_string(file).unwrap())
            });
            let mut all = String::new();
            for (file, text) in texts {
                let old = ["reeting", "GREETING", "a.example.com"];
                let old = old.iter().find(|old| text.contains(**old));
                assert_eq!(old, None, "{}", file.display());
                all += &text;
            }
            for new in ["tree.example.org/v1", "Leaf", "leaves"] {
                assert!(all.contains(new), "{language:?}: {new}");
            }
        }
    }

    #[test]
    fn invalid_names_of_plugins_and_crates_are_errors() {
        for name in [
            "", "A", "1a", "a_b", "a-", "a--b", "match", "test", "serde", "../x",
        ] {
            assert!(check(name, Language::Rust).is_err(), "{name}");
        }
        for name in ["a", "greeter", "my-plugin-2"] {
            assert!(check(name, Language::Rust).is_ok(), "{name}");
        }
    }

    #[test]
    fn each_template_is_a_project_of_its_language_with_the_sdk_and_without_placeholders() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("project");
            let said = new(language, &dir).create().unwrap();
            assert!(said.contains("flyball build"), "{said}");
            let project = crate::Project::open(&dir).unwrap();
            assert_eq!((project.language, &*project.name), (language, "a"));
            let own = language.support().template().iter();
            for (file, _) in own.chain(&*COMMON_TEMPLATE) {
                let file = file.strip_suffix(".in").expect("templates end in .in");
                let text = std::fs::read_to_string(dir.join(file)).unwrap();
                assert!(!text.contains("{{"), "{file} has a placeholder");
            }
            assert!(dir.join(VENDORED).is_dir(), "{language:?} has no SDK");
            let ignored = std::fs::read_to_string(dir.join(".gitignore")).unwrap();
            assert!(ignored.contains("*.wasm"), "{language:?}: {ignored}");
        }
    }

    #[test]
    fn a_language_without_an_sdk_for_clouds_is_an_error_that_names_those_with_one() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = New {
            cloud: true,
            ..new(Language::Python, &folder.path().join("project"))
        };
        let error = cloud.create().unwrap_err().to_string();
        assert!(error.contains("--lang rust or --lang go"), "{error}");
    }

    /// Creates a cloud in a folder, and returns the folder of the project.
    fn cloud(language: Language, folder: &Path) -> PathBuf {
        let dir = folder.join("project");
        let cloud = New {
            cloud: true,
            ..new(language, &dir)
        };
        cloud.create().unwrap();
        let files = language.support().cloud_template().unwrap();
        for (file, _) in files {
            let text =
                std::fs::read_to_string(dir.join(file.strip_suffix(".in").unwrap())).unwrap();
            assert!(!text.contains("{{"), "{file} has a placeholder");
        }
        dir
    }

    #[test]
    fn a_cloud_in_go_uses_the_vendored_modules_with_all_bindings() {
        let folder = tempfile::tempdir().unwrap();
        let dir = cloud(Language::Go, folder.path());
        let module = std::fs::read_to_string(dir.join("go.mod")).unwrap();
        for line in [
            "flyball.dev/sdk => ./flyball-sdk",
            "flyball.dev/sdk/cloudprovider => ./flyball-sdk/cloudprovider",
        ] {
            assert!(module.contains(line), "{module}");
        }
        assert!(dir.join("go.sum").is_file());
        for folder in ["", "cloud/", "wasihttp/"] {
            let bindings = format!("flyball-sdk/{folder}internal/bindings");
            assert!(dir.join(&bindings).is_dir(), "{bindings}");
        }
    }

    #[test]
    fn a_cloud_in_rust_uses_the_vendored_crates() {
        let folder = tempfile::tempdir().unwrap();
        let dir = cloud(Language::Rust, folder.path());
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let expected = "path = \"flyball-sdk/guests/sdk/rust-cloud\"";
        assert!(manifest.contains(expected), "{manifest}");
        assert!(
            dir.join("flyball-sdk/guests/sdk/rust-cloud/src/lib.rs")
                .is_file()
        );
        let tests = std::fs::read_to_string(dir.join("tests/cloud.rs")).unwrap();
        assert!(tests.contains("use a::cloud::ACloud;"), "{tests}");
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Cargo.toml");
        std::fs::write(&file, "mine").unwrap();
        let error = new(Language::Rust, folder.path())
            .create()
            .expect_err("the folder is not empty")
            .to_string();
        assert!(error.contains("not empty"), "{error}");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    }

    #[test]
    fn a_folder_without_a_project_is_an_error_that_names_the_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let error = crate::Project::open(folder.path())
            .expect_err("the folder is empty")
            .to_string();
        assert!(
            error.contains("has no Cargo.toml") && error.contains("flyball new"),
            "{error}"
        );
    }
}
