//! Translates the API's options objects, which guests give as documents, to query parameters of a write or the body of
//! a delete.

use bytes::Bytes;
use flyball_cache::resource::push_parameter;
use flyball_types::ApiError;
use serde_json::{Map, Value};

/// The fields of the API's CreateOptions, UpdateOptions, PatchOptions and DeleteOptions.
const KNOWN: [&str; 11] = [
    "apiVersion",
    "kind",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "preconditions",
    "propagationPolicy",
];

/// The options of one write.
#[derive(Debug, Default)]
pub(crate) struct Options(Map<String, Value>);

impl Options {
    /// Reads an options object; an empty document holds none.
    ///
    /// # Errors
    /// `Invalid` if it has an unknown option, or `dryRun` that is not `["All"]`: the server would write where the host
    /// takes it for a dry run.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, ApiError> {
        if document.is_empty() {
            return Ok(Self::default());
        }
        let options: Map<String, Value> = serde_json::from_slice(document).map_err(|error| {
            ApiError::invalid(format!(
                "the options of a write are not a JSON object: {error}"
            ))
        })?;
        match options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            None if !is_valid_dry_run(options.get("dryRun")) => Err(ApiError::invalid(
                "the option `dryRun` of a write must be [\"All\"] or absent",
            )),
            None => Ok(Self(options)),
            Some(name) => Err(ApiError::invalid(format!(
                "a write has no option `{}`: use {}",
                name.escape_debug(),
                KNOWN.join(", ")
            ))),
        }
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.0.get("dryRun").is_some_and(|value| !is_empty(value))
    }

    /// Whether `apply` takes the fields of other managers.
    pub(crate) fn is_forced(&self) -> bool {
        self.0.get("force") == Some(&Value::Bool(true))
    }

    /// Appends the options to a path as query parameters.
    pub(crate) fn append(&self, mut path: String) -> String {
        for (name, value) in &self.0 {
            let mut push = |value: &Value| match value {
                Value::String(text) => push_parameter(&mut path, name, text),
                Value::Bool(_) | Value::Number(_) => {
                    push_parameter(&mut path, name, &value.to_string())
                }
                _ => {}
            };
            match value {
                Value::Array(values) => values.iter().for_each(&mut push),
                value => push(value),
            }
        }
        path
    }

    /// Returns the body of a delete. It is never empty: the fence is checked before a body is sent.
    pub(crate) fn delete_body(&self) -> Bytes {
        let mut body = self.0.clone();
        body.insert("apiVersion".into(), "v1".into());
        body.insert("kind".into(), "DeleteOptions".into());
        Value::Object(body).to_string().into()
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn is_valid_dry_run(value: Option<&Value>) -> bool {
    value.is_none_or(|value| is_empty(value) || value == &serde_json::json!(["All"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_parameters_of_a_write_or_the_body_of_a_delete() {
        let options = Options::parse(
            br#"{"fieldManager":"a b","force":true,"dryRun":["All"],"gracePeriodSeconds":null}"#,
        )
        .unwrap();
        assert_eq!(
            options.append("/p".into()),
            "/p?dryRun=All&fieldManager=a%20b&force=true"
        );
        assert!(options.is_dry_run());

        let options = Options::parse(br#"{"preconditions":{"uid":"1"}}"#).unwrap();
        let body: Value = serde_json::from_slice(&options.delete_body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "1"}})
        );
        assert!(!options.is_dry_run());
        let without_options: Value =
            serde_json::from_slice(&Options::parse(b"").unwrap().delete_body()).unwrap();
        assert_eq!(
            without_options,
            serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions"})
        );
        assert!(Options::parse(b"[]").is_err());
        let unknown = Options::parse(br#"{"fieldmanager":"a"}"#).unwrap_err();
        assert!(
            unknown.message.contains("no option `fieldmanager`"),
            "{unknown}"
        );
        for odd in [
            r#"{"dryRun":[["All"]]}"#,
            r#"{"dryRun":{}}"#,
            r#"{"dryRun":"All"}"#,
        ] {
            assert!(Options::parse(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
