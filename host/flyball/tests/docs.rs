//! Checks that the docs for operators have every metric of the host and every warning and error that it logs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The beginnings of the names of the host's metrics.
const METRICS: [&str; 8] = [
    "flyball_plugin_",
    "kubernetes_",
    "leader_election_",
    "process_",
    "rest_client_",
    "running_managed_",
    "version_info",
    "workqueue_",
];
/// The file that prefixes the names of its metrics.
const PREFIXED: (&str, &str) = ("serving/src/metrics/workqueue.rs", "workqueue_");
/// Messages that are the text of another part.
const TEXTS_OF_OTHERS: [&str; 6] = [
    "{error}",
    "{problem}{goes_on}",
    "{text}",
    "{warning}",
    "{}{goes_on}",
    "{}; the others run",
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace")
}

/// The docs for operators, without the marks of code.
fn docs() -> String {
    let pages = ["docs/operating.md", "docs/serving.md"];
    let read = |page: &str| fs::read_to_string(root().join(page)).expect("a page");
    pages.map(read).join("\n").replace('`', "")
}

/// The sources of the host without their tests.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut folders, mut sources) = (vec![root().join("host")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir()
                && !matches!(name.as_str(), "tests" | "benches" | "examples" | "fuzzing")
            {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                sources.push((path, code.to_owned()));
            }
        }
    }
    assert!(sources.len() > 200, "the test finds the sources");
    sources
}

/// The string literals of a piece of code, as they are written, but with continued lines joined.
fn literals(code: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some((_, after)) = rest.split_once('"') {
        let mut literal = String::new();
        let mut characters = after.char_indices();
        let mut end = after.len();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((at, '\n')) => {
                        let blanks = after[at + 1..].len() - after[at + 1..].trim_start().len();
                        characters.by_ref().take(blanks).for_each(drop);
                    }
                    Some((_, escaped)) => literal.push(escaped),
                    None => {}
                },
                c => literal.push(c),
            }
        }
        found.push(literal);
        rest = &after[end..];
    }
    found
}

/// The arguments of each call of a macro.
fn calls<'a>(code: &'a str, name: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&format!("{name}!(")) {
        let begin = at + name.len() + 2;
        let (mut depth, mut is_text, mut is_escaped) = (1, false, false);
        let end = code[begin..].find(|c: char| {
            match (c, is_text) {
                _ if is_escaped => {
                    is_escaped = false;
                    return false;
                }
                ('\\', true) => is_escaped = true,
                ('"', _) => is_text = !is_text,
                ('(', false) => depth += 1,
                (')', false) => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        found.push(&code[begin..begin + end.expect("the call ends")]);
    }
    found
}

#[test]
fn the_docs_have_every_metric() {
    let docs = docs();
    let is_name = |text: &String| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut names = BTreeSet::new();
    for (path, code) in sources() {
        let (file, prefix) = PREFIXED;
        let is_prefixed = path.ends_with(file);
        for literal in literals(&code).into_iter().filter(is_name) {
            let is_metric = METRICS.iter().any(|start| literal.starts_with(start));
            let is_suffix = literal.ends_with("_total") || literal.ends_with("_seconds");
            if is_metric {
                names.insert(literal);
            } else if is_prefixed && is_suffix {
                names.insert(format!("{prefix}{literal}"));
            }
        }
    }
    assert!(names.len() > 35, "the test finds the metrics: {names:?}");
    let missing: Vec<&String> = names
        .iter()
        .filter(|name| !docs.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "the docs lack {missing:#?}");
    // The code may have lost names that the docs have.
    let words = docs.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let is_metric = |word: &&str| {
        METRICS
            .iter()
            .any(|start| word.starts_with(start) && word.len() > start.len())
    };
    let gone: BTreeSet<&str> = words
        .filter(is_metric)
        .filter(|word| !names.contains(*word))
        .collect();
    assert!(
        gone.is_empty(),
        "the docs have {gone:#?}, which the host does not"
    );
}

#[test]
fn the_docs_have_every_warning_and_error_of_the_log() {
    let (docs, mut messages) = (docs(), BTreeSet::new());
    for (path, code) in sources() {
        for call in ["warn", "error"]
            .into_iter()
            .flat_map(|name| calls(&code, name))
        {
            let message = literals(call).pop();
            messages.insert(message.unwrap_or_else(|| panic!("{}: {call}", path.display())));
        }
    }
    assert!(
        messages.len() > 60,
        "the test finds the messages: {messages:?}"
    );
    let is_missing = |message: &&String| {
        let message = message.replace('`', "");
        // Between braces are values.
        let constant = message
            .split('{')
            .map(|part| part.rsplit('}').next().unwrap_or(part).trim());
        let longest = constant.max_by_key(|part| part.len()).unwrap_or_default();
        !TEXTS_OF_OTHERS.contains(&message.as_str()) && !docs.contains(longest)
    };
    let missing: Vec<&String> = messages.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/operating.md lacks {missing:#?}");
}
