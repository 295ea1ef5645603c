//! The pages of the site in `docs/`: their links, and the steps of tutorials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folder of parts that pages include, in the folder of a page.
const PARTS: &str = "parts";
/// Stands for text that is another one each time.
const ANYTHING: &str = "…";

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
    /// Expect that the commands before print this last: see [`is_shown`].
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

/// Whether a page shows what commands printed last. In a line of the page, `…` stands for any text; a line of `…` alone
/// stands for any lines, or none. Blanks between words may be more or less.
pub fn is_shown(page: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = |text: &str| text.trim_end().lines().map(words).collect::<Vec<_>>();
    let (page, printed) = (lines(page), lines(printed));
    (0..=printed.len()).any(|from| are_shown(&page, &printed[from..]))
}

fn are_shown(page: &[String], printed: &[String]) -> bool {
    let Some((first, rest)) = page.split_first() else {
        return printed.is_empty();
    };
    if first == ANYTHING {
        return (0..=printed.len()).any(|from| are_shown(rest, &printed[from..]));
    }
    let Some((line, others)) = printed.split_first() else {
        return false;
    };
    is_line_shown(first, line) && are_shown(rest, others)
}

fn is_line_shown(page: &str, printed: &str) -> bool {
    let Some((start, rest)) = page.split_once(ANYTHING) else {
        return page == printed;
    };
    let (middle, end) = rest.rsplit_once(ANYTHING).unwrap_or(("", rest));
    let printed = printed.strip_prefix(start);
    let Some(printed) = printed.and_then(|printed| printed.strip_suffix(end)) else {
        return false;
    };
    let after = |left: &str, part: &str| Some(left.split_once(part)?.1.to_owned());
    let mut parts = middle.split(ANYTHING);
    parts
        .try_fold(printed.to_owned(), |left, part| after(&left, part))
        .is_some()
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
    fn a_page_may_leave_out_what_is_another_text_each_time() {
        let printed = "first\nat  12:01  web-5d   failed: no room\nlast\n";
        for page in [
            "last",
            "at … web-… failed: no room\nlast\n",
            "… failed: … room\nlast",
            "first\n…\nlast\n",
            "…\nat 12:01 web-5d failed: no room\n…\n",
            "…\n…",
        ] {
            assert!(is_shown(page, printed), "{page}");
        }
        for page in [
            "first",
            "at … web-… failed: no\nlast",
            "… room … failed: …\nlast",
            "last\n…\nfirst",
            "at 12:01 web-5d failed: no room\n…\nlast\nmore",
        ] {
            assert!(!is_shown(page, printed), "{page}");
        }
    }

    #[test]
    fn links_in_code_are_none() {
        let page = "[a](b.md) and ![c](d.svg)\n```c\nx[1](2)\n```\n";
        assert_eq!(links(page), ["b.md", "d.svg"]);
    }
}
