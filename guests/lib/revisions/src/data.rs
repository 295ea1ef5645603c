//! The data of a revision: a strategic merge patch that replaces `spec.template`.
//!
//! Revisions are compared by their bytes, and names are derived from them. So the encoding is the same as by Go's
//! `encoding/json` after a round trip through `map[string]interface{}`: keys are sorted, the characters that are
//! special in HTML are escaped, and numbers are doubles. For DaemonSets, kube-controller-manager uses a decoder that
//! keeps integers.
//!
//! Upstream: pkg/controller/daemon/update.go: getPatch.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: getPatch, ApplyRevision.

use std::fmt::Write as _;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::{self, Number};
use serde::Deserialize;

/// The field that makes the patch replace the template instead of merging into it.
const DIRECTIVE: &str = "$patch";

/// Appends a number as Go encodes it.
type EncodeNumber = fn(&Number, &mut String);

/// Returns the data of a revision of this pod template, with numbers as doubles, as StatefulSets have
/// them.
pub fn data(template: &Raw) -> Raw {
    data_with(template, encode_number)
}

/// Returns the data of a revision of this pod template, with exact integers, as DaemonSets have them.
pub fn exact_data(template: &Raw) -> Raw {
    data_with(template, encode_exact_number)
}

fn data_with(template: &Raw, number: EncodeNumber) -> Raw {
    let mut template = template.value();
    if let Some(fields) = template.as_object_mut() {
        fields.insert(DIRECTIVE.into(), "replace".into());
    }
    let mut text = String::from(r#"{"spec":{"template":"#);
    encode(&template, number, &mut text);
    text.push_str("}}");
    serde_json::from_str(&text).expect("the encoding is valid JSON")
}

/// Returns the pod template that a revision's data restores; `None` if the data does not change the
/// template.
///
/// # Errors
/// The data merges into the template instead of replacing it. No controller writes such data.
pub fn template(data: &Raw) -> Result<Option<Raw>, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Patch {
        spec: Option<Spec>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        template: Option<Value>,
    }
    let patch: Option<Patch> = data.parse()?;
    let template = patch.and_then(|patch| patch.spec?.template);
    let Some(mut template) = template else {
        return Ok(None);
    };
    let directive = template
        .as_object_mut()
        .and_then(|fields| fields.remove(DIRECTIVE));
    match directive {
        Some(directive) if directive == "replace" => Ok(Some(Raw::from(template))),
        _ => Err(Error::failed(
            "the data of a ControllerRevision does not replace the pod template",
        )),
    }
}

/// Appends a value as Go encodes it.
fn encode(value: &Value, encode_number: EncodeNumber, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => encode_number(number, out),
        Value::String(text) => encode_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                encode(item, encode_number, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|&(name, _)| name);
            out.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                encode_text(name, out);
                out.push(':');
                encode(value, encode_number, out);
            }
            out.push('}');
        }
    }
}

/// Appends a number as a double, without an exponent. The numbers of pod templates are integers of
/// 64 bits at most, for which Go uses no exponent either.
fn encode_number(number: &Number, out: &mut String) {
    /// All integers up to this one are doubles.
    const EXACT: u64 = 1 << 53;
    let result = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) if integer.unsigned_abs() <= EXACT => write!(out, "{integer}"),
        (_, Some(double)) => write!(out, "{double}"),
        (_, None) => write!(out, "{number}"),
    };
    result.expect("writing to a string can't fail");
}

/// Appends a number. Integers of 64 bits are exact; pod templates have no other numbers.
fn encode_exact_number(number: &Number, out: &mut String) {
    match number.is_i64() {
        true => write!(out, "{number}").expect("writing to a string can't fail"),
        false => encode_number(number, out),
    }
}

/// Appends a string with Go's escapes.
fn encode_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..'\u{20}' => {
                write!(out, "\\u{:04x}", u32::from(character))
                    .expect("writing to a string can't fail");
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_bytes_are_those_of_go() {
        // The expected text is the output of a Go program with the same input.
        let template = raw(
            r#"{"spec":{"terminationGracePeriodSeconds":30,"containers":[{"name":"a",
            "args":["<x>&\u2028\u2029\u007f é","\"\\\b\f\n\r\t\u0001/"],"securityContext":
            {"runAsUser":9007199254740993,"runAsGroup":9223372036854775807,"fsGroup":-9223372036854775808}}]},
            "metadata":{"labels":{"b":"1","a":"2","A":"3"}}}"#,
        );
        let expected = concat!(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"A":"3","a":"2","b":"1"}},"#,
            r#""spec":{"containers":[{"args":["\u003cx\u003e\u0026\u2028\u2029"#,
            "\u{7f} é\",",
            r#""\"\\\b\f\n\r\t\u0001/"],"name":"a","securityContext":{"fsGroup":-9223372036854776000,"#,
            r#""runAsGroup":9223372036854776000,"runAsUser":9007199254740992}}],"#,
            r#""terminationGracePeriodSeconds":30}}}}"#,
        );
        assert_eq!(data(&template).text(), expected);
    }

    #[test]
    fn exact_data_keeps_integers() {
        // The expected text is the output of a Go program with the same input, by apimachinery's decoder.
        let template = raw(r#"{"spec":{"args":["<x>&\u2028"],"securityContext":
            {"runAsUser":9007199254740993,"runAsGroup":9223372036854775807,"fsGroup":-9223372036854775808}}}"#);
        let expected = concat!(
            r#"{"spec":{"template":{"$patch":"replace","spec":{"args":["\u003cx\u003e\u0026\u2028"],"#,
            r#""securityContext":{"fsGroup":-9223372036854775808,"runAsGroup":9223372036854775807,"#,
            r#""runAsUser":9007199254740993}}}}}"#,
        );
        assert_eq!(exact_data(&template).text(), expected);
        let other = raw(r#"{"a": [1, -1, 0.5, 18446744073709551615]}"#);
        assert_eq!(exact_data(&other), data(&other));
    }

    #[test]
    fn all_types_of_values_are_encoded() {
        let template =
            raw(r#"{"a": [null, true, false, [], {}, 0, -1, 18446744073709551615, 0.5]}"#);
        assert_eq!(
            data(&template).text(),
            r#"{"spec":{"template":{"$patch":"replace","a":[null,true,false,[],{},0,-1,18446744073709552000,0.5]}}}"#
        );
    }

    #[test]
    fn the_data_restores_its_template() {
        let original = raw(
            r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"args":["a<b"]}]}}"#,
        );
        let restored = template(&data(&original)).unwrap().unwrap();
        assert_eq!(restored.value(), original.value());
    }

    #[test]
    fn data_without_a_template_changes_nothing() {
        for text in [
            "null",
            "{}",
            r#"{"spec":null}"#,
            r#"{"spec":{"replicas":2}}"#,
        ] {
            assert!(template(&raw(text)).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn data_that_merges_into_the_template_is_an_error() {
        for text in [
            r#"{"spec":{"template":{"metadata":{}}}}"#,
            r#"{"spec":{"template":{"$patch":"merge"}}}"#,
            r#"{"spec":{"template":1}}"#,
            r#"{"spec":1}"#,
        ] {
            assert!(template(&raw(text)).is_err(), "{text}");
        }
    }
}
