//! Reading of a description on the host, with errors that name the place and the field that may have been meant.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Description, DescriptionError, FORMAT};
use crate::nearest::with_nearest;

/// The maximum length of a document in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The maximum number of values of a document: objects, lists, strings, numbers and so on. Parsed, a value may take
/// some hundred bytes.
const MAX_VALUES: usize = 20_000;

/// Longest text of a document in bytes: as long as a selector may be. Names have stricter limits of their own.
pub(super) const MAX_TEXT: usize = 8 * 1024;

impl Description {
    /// Reads and checks the document that `describe` returned.
    pub fn read(document: &str) -> Result<Self, DescriptionError> {
        let description = Self::parse(document)?;
        description.check()?;
        Ok(description)
    }

    /// Reads the document that `describe` returned, without the checks of [`Description::mistakes`].
    pub fn parse(document: &str) -> Result<Self, DescriptionError> {
        /// The part that all formats have in common.
        #[derive(Deserialize)]
        struct Versioned {
            #[serde(default)]
            format: u32,
        }

        check_size(document)?;
        let syntax = |error: serde_json::Error| DescriptionError::Parse(error.to_string());
        let Versioned { format } = serde_json::from_str(document).map_err(syntax)?;
        if format > FORMAT {
            return Err(DescriptionError::Format(format));
        }
        let mut input = serde_json::Deserializer::from_str(document);
        serde_path_to_error::deserialize(&mut input).map_err(|error| {
            let message = with_nearest(&without_position(error.inner()));
            DescriptionError::Parse(match error.path().to_string().as_str() {
                "." => message,
                path => format!("{path}: {message}"),
            })
        })
    }
}

/// Fails if a document is too large to be parsed. Plugins without any grant are described, too.
fn check_size(document: &str) -> Result<(), DescriptionError> {
    let too_large = |problem| Err(DescriptionError::TooLarge(problem));
    if document.len() > MAX_BYTES {
        return too_large(format!(
            "it has {} bytes, more than {MAX_BYTES}",
            document.len()
        ));
    }
    let mut measured = Measured::default();
    let mut input = serde_json::Deserializer::from_str(document);
    // A syntax error is reported by the parser.
    let _ = Measure(&mut measured).deserialize(&mut input);
    if measured.values > MAX_VALUES {
        return too_large(format!("it has more than {MAX_VALUES} values"));
    }
    if measured.longest > MAX_TEXT {
        return too_large(format!(
            "it has a text of {} bytes, more than {MAX_TEXT}",
            measured.longest
        ));
    }
    Ok(())
}

/// The size of a document.
#[derive(Default)]
struct Measured {
    values: usize,
    /// The longest text in bytes, names of fields included.
    longest: usize,
}

/// Skips a value and measures it. Fails if there are too many.
struct Measure<'a>(&'a mut Measured);

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        self.0.values += 1;
        if self.0.values > MAX_VALUES {
            return Err(serde::de::Error::custom("too many values"));
        }
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.longest = self.0.longest.max(text.len());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Measure(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key_seed(Measure(&mut *self.0))?.is_some() {
            fields.next_value_seed(Measure(&mut *self.0))?;
        }
        Ok(())
    }
}

/// The message of an error without the line and column, which say little about a document on one line.
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
    fn a_document_that_is_too_large_is_refused_before_it_is_parsed() {
        let many = |count: usize| format!(r#"{{"watches": [{}]}}"#, vec!["{}"; count].join(","));
        assert!(error(&many(MAX_VALUES)).contains("more than 20000 values"));
        assert!(
            error(&many(100)).contains("watches[0]") || error(&many(100)).contains("missing field")
        );
        let long = format!(r#"{{"name": "{}"}}"#, "a".repeat(MAX_BYTES));
        assert!(error(&long).contains("more than 1048576"), "{long:.100}");
        let text = format!(r#"{{"name": "{}"}}"#, "a".repeat(MAX_TEXT + 1));
        assert!(error(&text).contains("a text of 8193 bytes"), "{text:.100}");
        let deep = format!(r#"{{"watches": {}"#, "[".repeat(100_000));
        assert!(error(&deep).contains("EOF"), "{}", error(&deep));
    }

    #[test]
    fn a_newer_format_is_refused_before_its_fields_are() {
        assert_eq!(
            Description::read(r#"{"format": 2, "news": true}"#),
            Err(DescriptionError::Format(2))
        );
    }
}
