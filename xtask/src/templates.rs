//! Templates in the pages of the site. `{{#template FILE NAME=VALUE}}` is replaced by the content of the file, in which
//! `[[#NAME]]` is replaced by the value: so the tutorials share their text, though the names of their plugins differ.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// How a directive begins.
const START: &str = "{{#template ";

/// Expands the templates of a page in `folder`.
///
/// # Errors
/// Fails if a directive is malformed, if its file can't be read, or if the file has a placeholder without a value or a
/// template of its own.
pub fn expand(page: &str, folder: &Path) -> Result<String> {
    let (mut expanded, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(START) {
        let (directive, after) = after.split_once("}}").context("a template does not end")?;
        expanded.push_str(before);
        expanded.push_str(filled(directive, folder)?.trim_end());
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the content of the file that a directive names, with the directive's values.
fn filled(directive: &str, folder: &Path) -> Result<String> {
    let mut words = directive.split_whitespace();
    let file = folder.join(words.next().context("a template names no file")?);
    let mut content = fs::read_to_string(&file)
        .with_context(|| format!("can't read the template {}", file.display()))?;
    for word in words {
        let (name, value) = word
            .split_once('=')
            .with_context(|| format!("`{word}` is not of the form NAME=VALUE"))?;
        content = content.replace(&format!("[[#{name}]]"), value);
    }
    ensure!(
        !content.contains("[[#") && !content.contains(START),
        "{} has a placeholder without a value, or a template",
        file.display()
    );
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_the_values_of_its_directive() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.md"), "run [[#name]]\n").unwrap();
        let page = "a\n{{#template run.md name=a}}\n{{#include b}}\n{{#template run.md name=b}}\n";
        let expected = "a\nrun a\n{{#include b}}\nrun b\n";
        assert_eq!(expand(page, folder.path()).unwrap(), expected);
    }

    #[test]
    fn a_mistake_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.md"), "run [[#name]]").unwrap();
        fs::write(
            folder.path().join("nested.md"),
            "{{#template run.md name=a}}",
        )
        .unwrap();
        for (page, message) in [
            ("{{#template run.md}}", "placeholder without a value"),
            ("{{#template run.md name}}", "`name` is not of the form"),
            ("{{#template nested.md}}", "or a template"),
            ("{{#template none.md}}", "can't read the template"),
            ("{{#template run.md", "does not end"),
        ] {
            let error = format!("{:#}", expand(page, folder.path()).unwrap_err());
            assert!(error.contains(message), "{page}: {error}");
        }
    }
}
