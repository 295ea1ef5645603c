//! Compares the sources that a manifest names between two releases.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter, Write};

use anyhow::Result;
use similar::{ChangeTag, TextDiff};

use super::go::Source;
use super::manifest::{File, Manifest};
use super::release::Release;

/// The name under which the declarations of a file are compared that are not functions.
const DECLARATIONS: &str = "declarations";

/// The upstream changes that concern a controller or library.
pub(super) struct Comparison {
    name: String,
    files: Vec<FileChange>,
}

struct FileChange {
    path: String,
    change: Change,
}

enum Change {
    Added,
    Removed,
    Unchanged,
    Changed(Vec<Part>),
}

/// A function of a file that changed, or its other declarations.
struct Part {
    name: String,
    /// Empty if it was added.
    old: String,
    /// Empty if it was removed.
    new: String,
}

impl Comparison {
    /// Compares the files and functions that a manifest names. If it names a whole file, files that are new in the same
    /// folder are reported as added.
    ///
    /// # Errors
    /// A source can't be read or downloaded, or a named file exists in neither release.
    pub(super) fn new(manifest: &Manifest, old: &Release, new: &Release) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = BTreeSet::new();
        for file in &manifest.upstream.files {
            let change = compare(file, old.read(&file.path)?, new.read(&file.path)?);
            let path = file.path.clone();
            files.push(FileChange { path, change });
            if file.functions.is_none() {
                folders.extend(file.path.rsplit_once('/').map(|(folder, _)| folder));
            }
        }
        for folder in folders {
            let known = old.go_files(folder)?;
            for name in new.go_files(folder)? {
                let path = format!("{folder}/{name}");
                if !known.contains(&name) && files.iter().all(|file| file.path != path) {
                    let change = Change::Added;
                    files.push(FileChange { path, change });
                }
            }
        }
        Ok(Self {
            name: manifest.name.clone(),
            files,
        })
    }

    fn count(&self, is_counted: impl Fn(&Change) -> bool) -> usize {
        let files = self.files.iter();
        files.filter(|file| is_counted(&file.change)).count()
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.files.iter().flat_map(|file| match &file.change {
            Change::Changed(parts) => parts.as_slice(),
            Change::Added | Change::Removed | Change::Unchanged => &[],
        })
    }
}

fn compare(file: &File, old: Option<String>, new: Option<String>) -> Change {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (Source::parse(&old), Source::parse(&new)),
        (None, Some(_)) => return Change::Added,
        (_, None) => return Change::Removed,
    };
    let mut parts = Vec::new();
    let mut add = |name: &str, old: &str, new: &str| {
        if old != new {
            let (name, old, new) = (name.to_owned(), old.to_owned(), new.to_owned());
            parts.push(Part { name, old, new });
        }
    };
    let names: BTreeSet<&String> = match &file.functions {
        Some(names) => names.iter().collect(),
        None => old.functions.keys().chain(new.functions.keys()).collect(),
    };
    for name in names {
        let text = |source: &Source| source.functions.get(name).cloned().unwrap_or_default();
        add(name, &text(&old), &text(&new));
    }
    if file.functions.is_none() {
        add(DECLARATIONS, &old.declarations, &new.declarations);
    }
    match parts.is_empty() {
        true => Change::Unchanged,
        false => Change::Changed(parts),
    }
}

impl Part {
    /// The numbers of added and removed lines.
    fn lines(&self) -> (usize, usize) {
        let diff = TextDiff::from_lines(&self.old, &self.new);
        let count = |tag| {
            let changes = diff.iter_all_changes();
            changes.filter(|change| change.tag() == tag).count()
        };
        (count(ChangeTag::Insert), count(ChangeTag::Delete))
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "== {}", self.name)?;
        for FileChange { path, change } in &self.files {
            match change {
                Change::Added => writeln!(f, "{path}: added")?,
                Change::Removed => writeln!(f, "{path}: removed")?,
                Change::Unchanged => writeln!(f, "{path}: unchanged")?,
                Change::Changed(parts) => {
                    writeln!(f, "{path}: changed")?;
                    for Part { name, old, new } in parts {
                        let label = format!("{path}: {name}");
                        let diff = TextDiff::from_lines(old.as_str(), new.as_str());
                        write!(f, "{}", diff.unified_diff().header(&label, &label))?;
                    }
                }
            }
        }
        writeln!(f)
    }
}

/// One line for each comparison: the numbers of files by change, of changed functions, and of lines.
pub(super) fn table(compared: &[Comparison]) -> String {
    let mut table = format!(
        "{:<52}{:>8}{:>8}{:>8}{:>10}{:>11}{:>8}{:>8}\n",
        "name", "changed", "added", "removed", "unchanged", "functions", "+", "-"
    );
    for comparison in compared {
        let (added, removed) = comparison
            .parts()
            .map(Part::lines)
            .fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
        let functions = comparison.parts().filter(|part| part.name != DECLARATIONS);
        writeln!(
            table,
            "{:<52}{:>8}{:>8}{:>8}{:>10}{:>11}{added:>8}{removed:>8}",
            comparison.name,
            comparison.count(|change| matches!(change, Change::Changed(_))),
            comparison.count(|change| matches!(change, Change::Added)),
            comparison.count(|change| matches!(change, Change::Removed)),
            comparison.count(|change| matches!(change, Change::Unchanged)),
            functions.count(),
        )
        .expect("a string can be written to");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "package a\n\nconst limit = 1\n\nfunc kept() {\n}\n\nfunc changed() {\n\tone()\n}\n\nfunc gone() {\n}\n";
    const NEW: &str = "package a\n\nconst limit = 2\n\nfunc kept() {\n}\n\nfunc changed() {\n\ttwo()\n}\n\nfunc born() {\n}\n";

    fn comparison(functions: Option<&[&str]>, old: Option<&str>, new: Option<&str>) -> Comparison {
        let file = File {
            path: "pkg/a.go".to_owned(),
            functions: functions.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        };
        let change = compare(&file, old.map(str::to_owned), new.map(str::to_owned));
        Comparison {
            name: "a".to_owned(),
            files: vec![FileChange {
                path: file.path,
                change,
            }],
        }
    }

    fn names(comparison: &Comparison) -> Vec<&str> {
        comparison.parts().map(|part| part.name.as_str()).collect()
    }

    #[test]
    fn a_whole_file_is_compared_by_function() {
        let comparison = comparison(None, Some(OLD), Some(NEW));
        assert_eq!(
            names(&comparison),
            ["born", "changed", "gone", DECLARATIONS]
        );
        let text = comparison.to_string();
        for line in [
            "pkg/a.go: changed",
            "--- pkg/a.go: changed",
            "-\tone()",
            "+\ttwo()",
            "+const limit = 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        assert!(!text.contains("kept"), "{text}");
    }

    #[test]
    fn only_named_functions_of_a_file_are_compared() {
        let selected = comparison(Some(&["kept", "gone"]), Some(OLD), Some(NEW));
        assert_eq!(names(&selected), ["gone"]);
        let unchanged = comparison(Some(&["kept"]), Some(OLD), Some(NEW));
        assert_eq!(unchanged.to_string(), "== a\npkg/a.go: unchanged\n\n");
    }

    #[test]
    fn a_file_of_one_release_is_added_or_removed() {
        let added = comparison(None, None, Some(NEW));
        assert_eq!(added.to_string(), "== a\npkg/a.go: added\n\n");
        let removed = comparison(None, Some(OLD), None);
        assert_eq!(removed.to_string(), "== a\npkg/a.go: removed\n\n");
    }

    #[test]
    fn the_summary_counts_files_functions_and_lines() {
        let table = table(&[comparison(None, Some(OLD), Some(NEW))]);
        let row = table.lines().nth(1).expect("there is a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["a", "1", "0", "0", "0", "3", "4", "4"]);
    }
}
