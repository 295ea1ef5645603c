//! Reading of a description on the host, with errors that name the place and the field that may
//! have been meant.

use serde::Deserialize;

use super::{Description, DescriptionError, FORMAT};
use crate::nearest::with_nearest;

impl Description {
    /// Reads and checks the document that `describe` returned.
    pub fn read(document: &str) -> Result<Self, DescriptionError> {
        /// What is common to all formats.
        #[derive(Deserialize)]
        struct Versioned {
            #[serde(default)]
            format: u32,
        }

        let syntax = |error: serde_json::Error| DescriptionError::Parse(error.to_string());
        let Versioned { format } = serde_json::from_str(document).map_err(syntax)?;
        if format > FORMAT {
            return Err(DescriptionError::Format(format));
        }
        let mut input = serde_json::Deserializer::from_str(document);
        let description: Self = serde_path_to_error::deserialize(&mut input).map_err(|error| {
            let message = with_nearest(&without_position(error.inner()));
            DescriptionError::Parse(match error.path().to_string().as_str() {
                "." => message,
                path => format!("{path}: {message}"),
            })
        })?;
        description.check()?;
        Ok(description)
    }
}

/// The message of an error without the line and column, which say little about a document on one
/// line.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message
        .strip_suffix(&position)
        .map_or(message.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(document: &str) -> String {
        Description::read(document).expect_err(document).to_string()
    }

    #[test]
    fn a_misspelt_field_is_refused_with_its_place_and_the_nearest_name() {
        for (field, expected) in [
            (
                r#""watchs": []"#,
                "unknown field `watchs`: did you mean `watches`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "labelSelektor": "a"}]"#,
                "watches[0].labelSelektor: unknown field `labelSelektor`: did you mean `labelSelector`?",
            ),
            (
                r#""watches": [{"discovered": {"periodMs": 1, "excpt": []}}]"#,
                "watches[0].discovered.excpt: unknown field `excpt`: did you mean `except`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "changes": ["generaton"]}]"#,
                "did you mean `generation`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "map": [{"to": "itslef"}]}]"#,
                "watches[0].map[0]: unknown variant `itslef`: did you mean `itself`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "map": [{"to": "itself", "dealyMs": 1}]}]"#,
                "did you mean `delayMs`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "map": [{"to": "itself", "having": {"path": "a", "valeu": "b"}}]}]"#,
                "did you mean `value`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "map": [{"to": "itself", "on": ["add"]}]}]"#,
                "did you mean `added`?",
            ),
            (
                r#""watches": [{"kind": "v1/Pod", "map": [{"to": "ownerReferences", "which": "mising"}]}]"#,
                "did you mean `missing`?",
            ),
            (
                r#""indexes": [{"name": "a", "kind": "v1/Pod", "paht": "b"}]"#,
                "indexes[0].paht: unknown field `paht`: did you mean `path`?",
            ),
            (
                r#""tickers": [{"key": "a", "periodMS": 1}]"#,
                "did you mean `periodMs`?",
            ),
            (
                r#""permissions": [{"kind": "v1/Pod", "verb": ["get"]}]"#,
                "did you mean `verbs`?",
            ),
            (
                r#""config": {"a": {"defualt": "b"}}"#,
                "config.a.defualt: unknown field `defualt`: did you mean `default`?",
            ),
            (
                r#""metrics": [{"name": "a", "help": "b", "typ": "counter"}]"#,
                "did you mean `type`?",
            ),
            (
                r#""metrics": [{"name": "a", "help": "b", "type": "count"}]"#,
                "did you mean `counter`?",
            ),
        ] {
            let document =
                format!(r#"{{"format": 1, "name": "a", "queues": [{{"name": "q"}}], {field}}}"#);
            let error = error(&document);
            assert!(error.contains(expected), "{error}");
        }
        let error =
            error(r#"{"format": 1, "name": "a", "queues": [{"name": "q", "maxRetry": 1}]}"#);
        assert!(error.contains("did you mean `maxRetries`?"), "{error}");
    }

    #[test]
    fn a_field_of_another_mapping_is_refused() {
        let document = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}], "watches": [
            {"kind": "v1/Pod", "map": [{"to": "itself", "kind": "v1/Pod"}]}
        ]}"#;
        let error = error(document);
        assert!(
            error.contains(
                "watches[0].map[0]: the field `kind` does not apply to a mapping to `itself`"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_newer_format_is_refused_before_its_fields_are() {
        assert_eq!(
            Description::read(r#"{"format": 2, "news": true}"#),
            Err(DescriptionError::Format(2))
        );
    }
}
