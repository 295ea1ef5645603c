//! The saves of a project's sources: which files, since when, and whether they are parts of the component.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use flyball_author::SourceFiles;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::POLICY;

/// How long no further source may be saved before a build begins: editors save several files at once, in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// How many files a line names.
const NAMED: usize = 3;
/// The folders of tests in the templates. Nothing of them is in a component.
const TESTS: [&str; 4] = ["plugin-test", "test", "tests", "testdata"];

/// Waits for saves.
pub(super) struct Saves {
    events: mpsc::Receiver<Instant>,
    sources: SourceFiles,
    /// The time of an event whose files are not known yet. Kept here, because a wait may be cancelled.
    noticed: Option<Instant>,
    /// The save during the last build.
    pending: Option<Saved>,
}

/// Files that were saved, created or deleted.
#[derive(Debug)]
pub(super) struct Saved {
    /// The time of the first one.
    pub(super) at: Instant,
    files: Vec<PathBuf>,
}

impl Saves {
    /// `events` has the times at which sources may have changed.
    pub(super) fn new(events: mpsc::Receiver<Instant>, sources: SourceFiles) -> Self {
        Self {
            events,
            sources,
            noticed: None,
            pending: None,
        }
    }

    /// Waits until a source has changed. Returns at once if one did during the last build.
    pub(super) async fn next(&mut self) -> anyhow::Result<Saved> {
        match self.pending.take() {
            Some(saved) => Ok(saved),
            None => self.saved().await,
        }
    }

    /// Waits until a source is saved while a build runs, for which `next` returns then. Returns the names of the files.
    /// Never returns twice for one build.
    pub(super) async fn during_build(&mut self) -> anyhow::Result<String> {
        if self.pending.is_some() {
            return std::future::pending().await;
        }
        let saved = self.saved().await?;
        let names = saved.names();
        self.pending = Some(saved);
        Ok(names)
    }

    async fn saved(&mut self) -> anyhow::Result<Saved> {
        loop {
            if self.noticed.is_none() {
                let at = self.events.recv().await;
                self.noticed =
                    Some(at.context("the system has stopped to report changed sources")?);
            }
            while let Ok(Some(_)) = timeout(QUIET, self.events.recv()).await {}
            let files = self.sources.changed()?;
            if let Some(at) = self.noticed.take()
                && !files.is_empty()
            {
                return Ok(Saved { at, files });
            }
        }
    }
}

impl Saved {
    /// Whether a file may be a part of the component. The policy, tests and texts for people are not.
    pub(super) fn is_of_component(&self, dir: &Path) -> bool {
        let mut files = self.files.iter();
        files.any(|file| is_of_component(file.strip_prefix(dir).unwrap_or(file)))
    }

    /// The names of the files.
    pub(super) fn names(&self) -> String {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().display().to_string();
        let names: Vec<String> = self.files.iter().take(NAMED).map(name).collect();
        let more = match self.files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        names.join(", ") + &more
    }
}

fn is_of_component(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let first = file.iter().next().unwrap_or_default().to_string_lossy();
    let is_in_tests = file.parent() != Some(Path::new("")) && TESTS.contains(&&*first);
    !is_in_tests && name != POLICY && !name.ends_with("_test.go") && !name.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(files: &[&str]) -> Saved {
        let file = |name: &&str| Path::new("/project").join(name);
        Saved {
            at: Instant::now(),
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn a_save_of_the_policy_or_of_tests_changes_no_component() {
        for (files, is_of_component) in [
            (&["src/main.py"][..], true),
            (&["policy.toml", "crd.yaml"], true),
            (&["tests.py"], true),
            (&["policy.toml", "README.md"], false),
            (
                &["tests/test_controller.py", "plugin-test/objects.yaml"],
                false,
            ),
            (&["controller/controller_test.go"], false),
        ] {
            let saved = saved(files);
            assert_eq!(
                saved.is_of_component(Path::new("/project")),
                is_of_component,
                "{saved:?}"
            );
        }
    }

    #[test]
    fn a_line_names_a_few_files() {
        assert_eq!(saved(&["a/b.go", "c.go"]).names(), "b.go, c.go");
        assert_eq!(
            saved(&["1", "2", "3", "4", "5"]).names(),
            "1, 2, 3 and 2 more"
        );
    }
}
