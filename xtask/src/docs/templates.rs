//! A preprocessor for mdBook, which expands the templates of all chapters.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::templates::expand;

/// mdBook's arguments: the name of a renderer that it asks about, or nothing.
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
        serde_json::from_str(&text).context("mdBook's input isn't a context and a book")?;
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

#[cfg(test)]
mod tests {
    use std::fs;

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
}
