//! Files that stand in the pages of the site, so that the pages are whole wherever they are read. A page names each file
//! in a comment, and the file's text follows, up to a second comment:
//!
//! ````text
//! <!-- include ../../examples/greeter-go/greeter/greeter.go:kinds -->
//! ```go
//! …
//! ```
//! <!-- end of include -->
//! ````
//!
//! The text of a file that is code stands in a block of code; a part in Markdown stands as it is. `FILE:ANCHOR` is the
//! text between the file's lines with `ANCHOR: NAME` and `ANCHOR_END: NAME`. After the file, `NAME=VALUE` replaces
//! `[[#NAME]]`: so the tutorials share their text, though the names of their plugins differ.
//!
//! `cargo xtask docs --write` writes the texts, and a test compares them with the files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const START: &str = "<!-- include ";
const END: &str = "<!-- end of include -->";
const CLOSE: &str = " -->";
const FENCE: &str = "```";

/// Returns the pages in a folder of the site and below, with their texts as they should be.
///
/// # Errors
/// A page can't be read, or has a comment that can't be followed.
pub(crate) fn all(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut pages = Vec::new();
    let mut entries = fs::read_dir(folder)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("can't read {}", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            pages.extend(all(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let written = written(&read(&path)?, folder);
            let written = written.with_context(|| path.display().to_string())?;
            pages.push((path, written));
        }
    }
    Ok(pages)
}

/// Returns a page in `folder` with the texts of the files that it names.
fn written(page: &str, folder: &Path) -> Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(named) = line.strip_prefix(START) else {
            continue;
        };
        let named = named.strip_suffix(CLOSE);
        let named = named.with_context(|| format!("`{line}` does not end with `{CLOSE}`"))?;
        let mut old = Vec::new();
        loop {
            let line = lines.next();
            let line = line.with_context(|| format!("`{END}` is missing after {named}"))?;
            if line == END {
                break;
            }
            old.push(line);
        }
        let included = included(named, folder)?;
        match old.first().filter(|first| first.starts_with(FENCE)) {
            Some(fence) => text.push_str(&format!("{fence}\n{included}\n{FENCE}\n")),
            None => text.push_str(&format!("{included}\n")),
        }
        text.push_str(END);
        text.push('\n');
    }
    Ok(text)
}

/// Returns the text that `FILE:ANCHOR NAME=VALUE` names, without a newline at its end.
fn included(named: &str, folder: &Path) -> Result<String> {
    let mut words = named.split_whitespace();
    let file = words.next().context("an include names no file")?;
    let (file, anchor) = match file.split_once(':') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (file, None),
    };
    let path = folder.join(file);
    let mut text = read(&path)?;
    if let Some(anchor) = anchor {
        text = anchored(&text, anchor)
            .with_context(|| format!("{} has no anchor {anchor}", path.display()))?;
    }
    for word in words {
        let (name, value) = word
            .split_once('=')
            .with_context(|| format!("`{word}` is not of the form NAME=VALUE"))?;
        text = text.replace(&format!("[[#{name}]]"), value);
    }
    ensure!(
        !text.contains("[[#"),
        "{} has a placeholder without a value",
        path.display()
    );
    // A part names files itself, relative to its own folder.
    if path.extension().is_some_and(|extension| extension == "md") {
        let within = path.parent().context("a file is in a folder")?;
        let own = written(&text, within)?;
        let is_text = |line: &&str| !line.starts_with(START) && *line != END;
        text = own.lines().filter(is_text).collect::<Vec<_>>().join("\n");
    }
    Ok(text.trim_end_matches('\n').to_owned())
}

/// The lines between the marks of an anchor, without other marks. None if a mark is missing.
fn anchored(text: &str, anchor: &str) -> Option<String> {
    let is_mark = |line: &str, mark: &str| {
        let named = line.split_once(mark);
        named.is_some_and(|(_, rest)| rest.split_whitespace().next() == Some(anchor))
    };
    let mut lines = text.lines();
    lines.find(|line| is_mark(line, "ANCHOR:"))?;
    let mut inside = Vec::new();
    for line in lines {
        if is_mark(line, "ANCHOR_END:") {
            return Some(inside.join("\n"));
        }
        if !line.contains("ANCHOR:") && !line.contains("ANCHOR_END:") {
            inside.push(line);
        }
    }
    None
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use xtask::run::workspace;

    use super::*;

    #[test]
    fn the_pages_have_the_texts_of_the_files_that_they_name_and_no_directive() {
        let pages = all(&workspace().join("docs")).unwrap();
        assert!(pages.len() > 20, "the test finds the pages");
        for (path, expected) in pages {
            let page = read(&path).unwrap();
            let name = path.display();
            assert!(
                page == expected,
                "{name} is out of date: `cargo xtask docs --write` writes it"
            );
            assert!(!page.contains("{{#"), "{name} shows a directive of mdBook");
        }
    }

    #[test]
    fn a_page_has_files_anchors_and_parts_with_values() {
        let folder = tempfile::tempdir().unwrap();
        let code =
            "a\n// ANCHOR: one\nb\n// ANCHOR: two\nc\n// ANCHOR_END: two\n// ANCHOR_END: one\nd\n";
        fs::write(folder.path().join("code.rs"), code).unwrap();
        let part = "run [[#name]]\n<!-- include code.rs:two -->\n```rust\n```\n<!-- end of include -->\nx\n";
        fs::write(folder.path().join("part.md"), part).unwrap();
        let page = "x\n<!-- include code.rs:one -->\n```rust\nold\n```\n<!-- end of include -->\n\
                    <!-- include part.md name=it -->\n<!-- end of include -->\ny\n";
        let expected = "x\n<!-- include code.rs:one -->\n```rust\nb\nc\n```\n<!-- end of include -->\n\
                        <!-- include part.md name=it -->\nrun it\n```rust\nc\n```\nx\n<!-- end of include -->\ny\n";
        let once = written(page, folder.path()).unwrap();
        assert_eq!(once, expected);
        assert_eq!(written(&once, folder.path()).unwrap(), expected);
        for (page, problem) in [
            (
                "<!-- include code.rs:three -->\n<!-- end of include -->\n",
                "no anchor three",
            ),
            (
                "<!-- include part.md -->\n<!-- end of include -->\n",
                "placeholder",
            ),
            ("<!-- include code.rs -->\n", "is missing"),
        ] {
            let error = format!("{:#}", written(page, folder.path()).unwrap_err());
            assert!(error.contains(problem), "{error}");
        }
    }
}
