//! Objects in YAML.

use serde_json::Value;

/// Reads the documents of a text in YAML or JSON, and the items of lists.
///
/// # Errors
/// The text is not YAML.
pub fn parse(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    // A document of comments alone is null.
    let documents = documents
        .into_iter()
        .filter(|document| document.is_object());
    Ok(documents.flat_map(items).collect())
}

/// Whether an object is a CustomResourceDefinition.
pub fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Returns the items of a list, or the document itself.
pub fn items(mut document: Value) -> Vec<Value> {
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
