//! A preprocessor for mdBook. It replaces `{{#template FILE NAME=VALUE}}` by the content of the file, in which `[[#NAME]]` is
//! replaced by the value: so the tutorials share their text, though the names of their plugins differ.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What mdBook passes: the name of a renderer that it asks about, or nothing.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(num_args = 0.., value_name = "QUESTION")]
    question: Vec<String>,
}

/// Reads a book from standard input, and writes it to standard output. Every renderer is supported.
pub(crate) fn preprocess(arguments: &Arguments) -> Result<()> {
    if arguments
        .question
        .first()
        .is_some_and(|word| word == "supports")
    {
        return Ok(());
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let (context, mut book): (Value, Value) =
        serde_json::from_str(&text).context("mdBook's input is no context and book")?;
    let part = |value: &Value| value.as_str().map(PathBuf::from);
    let root = part(&context["root"]).context("mdBook's context has no root")?;
    let pages = root.join(part(&context["config"]["book"]["src"]).unwrap_or("src".into()));
    expand_chapters(&mut book, &pages)?;
    println!("{book}");
    Ok(())
}

/// Expands the content of each chapter in a part of a book.
fn expand_chapters(part: &mut Value, pages: &Path) -> Result<()> {
    match part {
        Value::Array(parts) => parts
            .iter_mut()
            .try_for_each(|part| expand_chapters(part, pages)),
        Value::Object(fields) => {
            if let (Some(content), Some(path)) = (fields.get("content"), fields.get("path"))
                && let (Some(content), Some(path)) = (content.as_str(), path.as_str())
            {
                let page = pages.join(path);
                let folder = page.parent().unwrap_or(pages);
                let expanded = expand(content, folder).with_context(|| path.to_owned())?;
                fields.insert("content".into(), expanded.into());
            }
            fields
                .values_mut()
                .try_for_each(|part| expand_chapters(part, pages))
        }
        _ => Ok(()),
    }
}

/// Expands the templates of a page in `folder`.
fn expand(page: &str, folder: &Path) -> Result<String> {
    const START: &str = "{{#template ";
    let (mut expanded, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(START) {
        let (directive, after) = after.split_once("}}").context("a template does not end")?;
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
        expanded.push_str(before);
        expanded.push_str(content.trim_end());
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chapters_at_all_levels_get_their_templates() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("parts")).unwrap();
        fs::write(folder.path().join("parts/run.md"), "run [[#name]]\n").unwrap();
        let page = |path: &str, content: &str, parts: Value| json!({"Chapter": {"path": path, "content": content, "sub_items": parts}});
        let inner = page("inner.md", "{{#template parts/run.md name=b}}", json!([]));
        let outer = "a\n{{#template parts/run.md name=a}}\n{{#include b}}";
        let mut book = json!({"items": [page("outer.md", outer, json!([inner]))]});
        expand_chapters(&mut book, folder.path()).unwrap();
        let outer = &book["items"][0]["Chapter"];
        assert_eq!(outer["content"], "a\nrun a\n{{#include b}}");
        assert_eq!(outer["sub_items"][0]["Chapter"]["content"], "run b");
    }

    #[test]
    fn a_mistake_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.md"), "run [[#name]]").unwrap();
        for (page, message) in [
            ("{{#template run.md}}", "placeholder without a value"),
            ("{{#template run.md name}}", "`name` is not of the form"),
            ("{{#template none.md}}", "can't read the template"),
            ("{{#template run.md", "does not end"),
        ] {
            let error = format!("{:#}", expand(page, folder.path()).unwrap_err());
            assert!(error.contains(message), "{page}: {error}");
        }
    }
}
