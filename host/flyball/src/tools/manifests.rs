//! Reads Kubernetes objects from files.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// Reads the objects of a file: documents in YAML or JSON, and the items of lists.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} is not YAML", file.display()))
}

fn parse(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    // A document of comments alone is null.
    let documents = documents
        .into_iter()
        .filter(|document| document.is_object());
    Ok(documents.flat_map(items).collect())
}

/// Returns the items of a list, or the document itself.
fn items(mut document: Value) -> Vec<Value> {
    let kind = document["kind"].as_str();
    let is_list = kind.is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items") {
        Some(Value::Array(items)) if is_list => std::mem::take(items),
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_empty_documents_are_resolved() {
        let text = "# a comment\n---\nkind: A\nitems: [1]\n---\nkind: C\n---\nkind: List\nitems: [{kind: B}]\n";
        let objects = parse(text).expect("it is YAML");
        let expected = [
            json!({"kind": "A", "items": [1]}),
            json!({"kind": "C"}),
            json!({"kind": "B"}),
        ];
        assert_eq!(objects, expected);
    }
}
