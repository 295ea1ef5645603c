//! `flyball crd`: the CustomResourceDefinitions of a project, and the file that is generated so that types and
//! definitions don't drift apart. In Rust and Go, types describe the definitions, and `crd.yaml` is generated from them.
//! In TypeScript, JavaScript and Python, `crd.yaml` is written by hand, and the types are generated from it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{Project, embedded, resource_types};

/// The file with a project's CustomResourceDefinitions.
const FILE: &str = "crd.yaml";

/// A generated file of a project.
#[derive(Clone, Debug)]
pub struct Generated {
    pub path: PathBuf,
    pub content: String,
    /// Whether the existing file says the same. Definitions are compared as values, so that their layout is free.
    pub is_current: bool,
}

impl Generated {
    /// Writes the file unless it is current.
    pub fn write(&self) -> Result<()> {
        match self.is_current {
            true => Ok(()),
            false => embedded::write(&self.path, self.content.as_bytes()),
        }
    }
}

impl Project {
    /// The CustomResourceDefinitions that the project's types describe, or else those in its `crd.yaml`.
    pub fn definitions(&self) -> Result<Vec<Value>> {
        match self.described()? {
            Some(definitions) => Ok(definitions),
            None => self.written(),
        }
    }

    /// The generated file: `crd.yaml` if the project's types describe the definitions, or else the types that `crd.yaml`
    /// describes. Fails if the project has neither.
    pub fn generated(&self) -> Result<Generated> {
        if let Some(definitions) = self.described()? {
            let path = self.dir.join(FILE);
            let existing = path.is_file().then(|| read(&path)).transpose()?;
            let documents = serde_saphyr::to_string_multiple(&definitions)?;
            return Ok(Generated {
                path,
                content: format!(
                    "# `flyball crd --write` writes this file, from types.\n{documents}"
                ),
                is_current: existing.is_some_and(|existing| existing == definitions),
            });
        }
        let Some((file, print)) = self.language.support().resource_types() else {
            bail!(
                "no file of {} is generated: flyball generates no types in this language from {FILE}",
                self.dir.display()
            );
        };
        let path = self.dir.join(file);
        let records = resource_types::read(&self.written()?);
        let content = print(&records);
        let existing = std::fs::read_to_string(&path);
        Ok(Generated {
            is_current: existing.is_ok_and(|existing| existing == content),
            path,
            content,
        })
    }

    /// Generates the types again if `crd.yaml` has changed. Does nothing in a project without generated types.
    pub(crate) fn refresh_types(&self) -> Result<()> {
        let Some((file, _)) = self.language.support().resource_types() else {
            return Ok(());
        };
        let existing = std::fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let is_generated = existing
            .lines()
            .take(2)
            .any(|line| line.contains(resource_types::HEADER));
        match is_generated && self.dir.join(FILE).is_file() {
            true => self.generated()?.write(),
            false => Ok(()),
        }
    }

    /// The definitions that the types describe; none if no types do.
    fn described(&self) -> Result<Option<Vec<Value>>> {
        let Some(printed) = self.language.support().definitions(self)? else {
            return Ok(None);
        };
        let values = serde_json::Deserializer::from_slice(&printed).into_iter();
        let definitions: Vec<Value> = values.collect::<Result<_, _>>().with_context(|| {
            format!(
                "what prints the definitions of {} does not print JSON",
                self.dir.display()
            )
        })?;
        // A project in Go need not have marked types.
        Ok(Some(definitions).filter(|definitions| !definitions.is_empty()))
    }

    /// The definitions in `crd.yaml`.
    fn written(&self) -> Result<Vec<Value>> {
        let path = self.dir.join(FILE);
        ensure!(
            path.is_file(),
            "can't print the custom resources of {}: neither do its types describe any, nor does it have a {FILE}; a project \
             of `flyball new` shows how",
            self.dir.display()
        );
        let definitions = read(&path)?;
        let all = definitions.iter();
        let others = all
            .filter(|object| object["kind"] != "CustomResourceDefinition")
            .count();
        ensure!(
            others == 0 && !definitions.is_empty(),
            "{} must hold CustomResourceDefinitions, and nothing else",
            path.display()
        );
        Ok(definitions)
    }
}

/// Reads the documents of a file.
fn read(path: &Path) -> Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("{} is not YAML", path.display()))?;
    // A document of comments alone is null.
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Language, New};

    /// A new project.
    fn project(language: Language) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("hello");
        let new = New {
            name: "hello".into(),
            language,
            cloud: false,
            dir: Some(dir.clone()),
            kind: None,
            group: None,
            plural: None,
            sdk: None,
        };
        new.create().unwrap();
        (folder, Project::open(&dir).unwrap())
    }

    #[test]
    fn the_types_of_a_new_project_are_those_that_its_definition_describes() {
        for language in [Language::TypeScript, Language::JavaScript, Language::Python] {
            let (_folder, project) = project(language);
            let generated = project.generated().unwrap();
            let found = fs::read_to_string(&generated.path).unwrap_or_default();
            assert!(
                generated.is_current,
                "{}:\n{}\nnot:\n{found}",
                generated.path.display(),
                generated.content
            );
            assert_eq!(
                project.definitions().unwrap()[0]["metadata"]["name"],
                "greetings.hello.example.com"
            );
        }
    }

    #[test]
    fn a_build_generates_the_types_again_when_the_definition_has_changed() {
        let (_folder, project) = project(Language::TypeScript);
        let (crd, types) = (project.dir.join(FILE), project.dir.join("src/api.ts"));
        let text = fs::read_to_string(&crd).unwrap().replace("text:", "words:");
        fs::write(&crd, text.replace("[text]", "[words]")).unwrap();
        assert!(!project.generated().unwrap().is_current);
        project.refresh_types().unwrap();
        let written = fs::read_to_string(&types).unwrap();
        assert!(
            written.contains("words: string") && !written.contains("text: string"),
            "{written}"
        );
        assert!(project.generated().unwrap().is_current);
        // A file of the author's own is left alone.
        fs::write(&types, "export interface Greeting {}\n").unwrap();
        project.refresh_types().unwrap();
        assert_eq!(
            fs::read_to_string(&types).unwrap(),
            "export interface Greeting {}\n"
        );
    }

    #[test]
    fn a_file_of_other_objects_and_no_file_are_errors() {
        let (_folder, project) = project(Language::Python);
        let crd = project.dir.join(FILE);
        fs::write(&crd, "kind: ConfigMap\n").unwrap();
        let error = project.definitions().unwrap_err().to_string();
        assert!(
            error.contains("must hold CustomResourceDefinitions"),
            "{error}"
        );
        fs::remove_file(&crd).unwrap();
        let error = project.definitions().unwrap_err().to_string();
        assert!(error.contains("nor does it have a crd.yaml"), "{error}");
    }
}
