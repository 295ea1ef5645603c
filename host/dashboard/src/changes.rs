//! Reduces documents to what has changed since a client got the last one, so that a thousand idle plugins cost nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The rows of a table, by their IDs. Clients share them, and a row that has not changed is the same one as before.
pub(crate) type Table = BTreeMap<String, Arc<Value>>;

/// The rows that a client has.
#[derive(Default)]
pub(crate) struct Rows {
    known: Option<Arc<Table>>,
}

/// The fields of an object that a client has.
#[derive(Default)]
pub(crate) struct Fields {
    known: Map<String, Value>,
}

/// Returns the rows of a document, with an `id` each. `before` has the rows of the document before.
pub(crate) fn table(document: &Value, before: Option<&Table>) -> Table {
    let rows = document.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |row: &Value| {
        let id = id(row);
        let mut row = row.clone();
        if let Value::Object(fields) = &mut row {
            fields.insert("id".to_owned(), id.as_str().into());
        }
        let known = before.and_then(|before| before.get(&id));
        let known = known.filter(|known| ***known == row).cloned();
        (id, known.unwrap_or_else(|| Arc::new(row)))
    };
    rows.iter().map(row).collect()
}

/// Files that can't be loaded may have the name of a plugin that runs.
fn id(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    format!("{}\n{}", text("name"), text("origin"))
}

impl Rows {
    /// Returns the rows that the client lacks and the IDs of those that are gone, as in `{"all": false, "rows": [],
    /// "gone": []}`; none if nothing has changed. With `all`, the client has no other rows.
    pub(crate) fn update(&mut self, current: Arc<Table>) -> Option<Value> {
        let Some(known) = self.known.replace(current.clone()) else {
            let rows: Vec<&Value> = current.values().map(|row| &**row).collect();
            return Some(json!({"all": true, "rows": rows, "gone": []}));
        };
        let is_same =
            |id: &str, row: &Arc<Value>| known.get(id).is_some_and(|known| Arc::ptr_eq(known, row));
        let changed = current.iter().filter(|(id, row)| !is_same(id, row));
        let changed: Vec<&Value> = changed.map(|(_, row)| &**row).collect();
        let is_gone = |id: &&String| !current.contains_key(*id);
        let gone: Vec<&String> = known.keys().filter(is_gone).collect();
        (!changed.is_empty() || !gone.is_empty())
            .then(|| json!({"all": false, "rows": changed, "gone": gone}))
    }
}

impl Fields {
    /// Returns the fields that the client lacks; null for those that are gone. None if nothing has changed.
    pub(crate) fn update(&mut self, document: Value) -> Option<Value> {
        let current = match document {
            Value::Object(fields) => fields,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        let is_new = |(key, value): &(&String, &Value)| self.known.get(*key) != Some(*value);
        let changed = current.iter().filter(is_new);
        let changed = changed.map(|(key, value)| (key.clone(), value.clone()));
        let gone = self.known.keys().filter(|key| !current.contains_key(*key));
        let gone = gone.map(|key| (key.clone(), Value::Null));
        let update: Map<String, Value> = changed.chain(gone).collect();
        self.known = current;
        (!update.is_empty()).then_some(Value::Object(update))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, queued: u32) -> Value {
        json!({"name": name, "origin": "built-in", "queued": queued})
    }

    /// Shows a client one document after another.
    #[derive(Default)]
    struct Client {
        rows: Rows,
        last: Arc<Table>,
    }

    impl Client {
        fn sees(&mut self, document: Value) -> Option<Value> {
            self.last = Arc::new(table(&document, Some(&self.last)));
            self.rows.update(self.last.clone())
        }
    }

    #[test]
    fn the_first_update_has_all_rows_and_further_ones_what_changed() {
        let mut client = Client::default();
        let first = client.sees(json!([row("a", 0), row("b", 0)])).unwrap();
        assert_eq!(first["all"], true);
        assert_eq!(first["rows"].as_array().unwrap().len(), 2);
        assert_eq!(first["rows"][0]["id"], "a\nbuilt-in");
        assert_eq!(client.sees(json!([row("a", 0), row("b", 0)])), None);
        let next = client.sees(json!([row("a", 1)])).unwrap();
        assert_eq!(next["all"], false);
        assert_eq!(next["rows"].as_array().unwrap().len(), 1);
        assert_eq!(next["rows"][0]["queued"], 1);
        assert_eq!(next["gone"], json!(["b\nbuilt-in"]));
    }

    #[test]
    fn a_client_that_missed_documents_gets_the_rows_that_changed_in_all_of_them() {
        let mut client = Client::default();
        client.sees(json!([row("a", 0), row("b", 0)]));
        let missed = table(&json!([row("a", 1), row("b", 0)]), Some(&client.last));
        let current = table(&json!([row("a", 1), row("b", 2)]), Some(&missed));
        let update = client.rows.update(Arc::new(current)).unwrap();
        assert_eq!(update["rows"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn no_plugins_at_all_are_an_update_too() {
        let mut client = Client::default();
        let first = client.sees(json!([])).unwrap();
        assert_eq!(first, json!({"all": true, "rows": [], "gone": []}));
        assert_eq!(client.sees(json!([])), None);
    }

    #[test]
    fn fields_that_change_are_sent_and_those_that_go_are_null() {
        let mut fields = Fields::default();
        let first = json!({"a": 1, "b": [1]});
        assert_eq!(fields.update(first.clone()), Some(first.clone()));
        assert_eq!(fields.update(first), None);
        let next = fields.update(json!({"a": 2}));
        assert_eq!(next, Some(json!({"a": 2, "b": null})));
    }
}
