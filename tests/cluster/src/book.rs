//! The pages of the site in `docs/`: their links, and the steps of tutorials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folder of parts that pages include, in the folder of a page.
const PARTS: &str = "parts";

/// The site.
#[derive(Clone, Debug)]
pub struct Book {
    folder: PathBuf,
}

/// An instruction of a page to its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Save a file, whose path is relative to the current folder.
    Save { path: String, text: String },
    /// Append to a file.
    Append { path: String, text: String },
    /// Type commands in the first terminal.
    Run(String),
    /// Type a command in the second terminal, which goes on running.
    RunBeside(String),
    /// Expect that the commands before print this last.
    Expect(String),
}

impl Book {
    /// The site of this checkout.
    pub fn of_checkout() -> Self {
        Self {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The paths in `SUMMARY.md`, in its order.
    pub fn listed(&self) -> Result<Vec<String>> {
        let summary = read(&self.folder.join("SUMMARY.md"))?;
        Ok(links(&summary).into_iter().map(str::to_owned).collect())
    }

    /// The paths of all pages in the folder, sorted.
    pub fn pages(&self) -> Result<Vec<String>> {
        let (mut folders, mut found) = (vec![PathBuf::new()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in self.folder.join(&folder).read_dir()? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    folders.extend((!path.ends_with(PARTS)).then_some(path));
                } else if path.extension().is_some_and(|extension| extension == "md")
                    && path != Path::new("SUMMARY.md")
                {
                    found.push(path.display().to_string());
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns a page.
    pub fn page(&self, path: &str) -> Result<String> {
        read(&self.folder.join(path))
    }

    /// Returns the steps of a tutorial. Fails if it has a block that isn't a step.
    pub fn steps(&self, path: &str) -> Result<Vec<Step>> {
        steps(&self.page(path)?).with_context(|| path.to_owned())
    }
}

/// Returns the targets of a page's links and images, without those in code.
pub fn links(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let prose = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    let targets = prose.flat_map(|line| {
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
    });
    targets.collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

fn steps(page: &str) -> Result<Vec<Step>> {
    let (mut steps, mut paragraph) = (Vec::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            // A blank line between a paragraph and its block does not end the paragraph.
            if line.starts_with('#') {
                paragraph.clear();
            } else if !line.is_empty() && !line.starts_with("<!--") {
                paragraph.push_str(line);
                paragraph.push('\n');
            }
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = block.join("\n") + "\n";
        let lead = std::mem::take(&mut paragraph);
        let path = |words: &str| {
            let (_, rest) = lead.rsplit_once(words)?;
            rest.strip_suffix("`:\n").map(str::to_owned)
        };
        steps.push(match language {
            "sh" if lead.starts_with("In the second terminal") => Step::RunBeside(text),
            "sh" => Step::Run(text),
            "text" => Step::Expect(text),
            _ => {
                if let Some(path) = path("ave this as `") {
                    Step::Save { path, text }
                } else if let Some(path) = path("ppend this to `") {
                    Step::Append { path, text }
                } else {
                    bail!("what does the reader do with the block after `{lead}`?");
                }
            }
        });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_page_are_its_blocks() {
        let page = "Save this as `a.txt`:\n\n<!-- include a.txt -->\n```text2\none\n```\n<!-- end of include -->\n\nThen append this to `a.txt`:\n```c\ntwo\n```\n\n\
                    In the second terminal, start it:\n\n```sh\nserve\n```\nType:\n```sh\ncat a.txt\n```\n```text\ntwo\n```\n";
        let path = "a.txt".to_owned();
        let expected = [
            Step::Save {
                path: path.clone(),
                text: "one\n".into(),
            },
            Step::Append {
                path,
                text: "two\n".into(),
            },
            Step::RunBeside("serve\n".into()),
            Step::Run("cat a.txt\n".into()),
            Step::Expect("two\n".into()),
        ];
        assert_eq!(steps(page).unwrap(), expected);
        assert!(steps("Look:\n```c\nint a;\n```\n").is_err());
    }

    #[test]
    fn links_in_code_are_none() {
        let page = "[a](b.md) and ![c](d.svg)\n```c\nx[1](2)\n```\n";
        assert_eq!(links(page), ["b.md", "d.svg"]);
    }
}
