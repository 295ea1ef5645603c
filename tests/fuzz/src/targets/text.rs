//! Short texts: paths, selectors, references, and the segments of a request's path.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use flyball_cache::ApiResource;
use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector, Reference};
use serde_json::Value;

use super::{Target, Verdict, equal, split_first_line};

/// Parses a text. Fails if the printed value, parsed again, is another one.
fn parse<T>(what: &str, text: &str) -> Result<Result<T, T::Err>, String>
where
    T: FromStr<Err: Debug + PartialEq> + Clone + Debug + Display + PartialEq,
{
    let parsed = text.parse::<T>();
    if let Ok(value) = &parsed {
        equal(
            &format!("the printed {what}, parsed again"),
            value.to_string().parse(),
            Ok(value.clone()),
        )?;
    }
    Ok(parsed)
}

pub(super) const FIELD_PATH: Target = Target {
    name: "field-path",
    tokens: || {
        vec![
            "[*]",
            "['",
            "']",
            ".",
            "metadata.annotations['a.b/c']",
            "a.",
            "\n",
            "[",
            "{\"a\":",
            "\\u0061",
        ]
    },
    feed: field_path,
};

/// The first line is a path, and the rest is JSON that it is looked up in.
fn field_path(input: &[u8]) -> Verdict {
    let (path, json) = split_first_line(input);
    let Ok(path) = str::from_utf8(path) else {
        return Ok("not text".into());
    };
    let path: FieldPath = match parse("path", path)? {
        Ok(path) => path,
        Err(error) => return Ok(error.problem.into()),
    };
    // The bytes may be invalid JSON: the look-up must not panic.
    let found = path.strings(json).len();
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        // Unlike `json`, the printed value has no duplicate fields.
        let printed = value.to_string();
        equal(
            "the values found in the bytes and in the parsed JSON",
            path.strings(printed.as_bytes()),
            path.lookup(&value).into_iter().map(Into::into).collect(),
        )?;
    }
    Ok(format!("a path with {} strings", found))
}

pub(super) const LABEL_SELECTOR: Target = Target {
    name: "label-selector",
    tokens: || {
        vec![
            " in (",
            " notin (",
            ")",
            "!",
            "!=",
            "==",
            "a.b/c",
            ",",
            "\n",
            "{\"matchLabels\":",
            "{\"matchExpressions\":[",
            "\"operator\":\"Exists\"",
            "null",
        ]
    },
    feed: label_selector,
};

/// The first line is a selector, and the rest is a selector in JSON.
fn label_selector(input: &[u8]) -> Verdict {
    let (text, json) = split_first_line(input);
    let mut outcome = String::new();
    if let Ok(text) = str::from_utf8(text) {
        match parse::<LabelSelector>("selector", text)? {
            Ok(selector) => {
                let both = selector.and(&LabelSelector::nothing());
                if both.matches(&[("a", "b")][..]) {
                    return Err("a selector combined with `nothing` matches".into());
                }
                outcome.push_str("a selector");
            }
            Err(error) => outcome.push_str(&error.to_string()),
        }
    }
    match LabelSelector::of_json(json) {
        Ok(selector) => {
            let text = selector.to_string();
            let again: LabelSelector = text
                .parse()
                .map_err(|error| format!("a selector from JSON can't be parsed again: {error}"))?;
            let labels = [("a", "1"), ("x.io/b", "2")];
            equal(
                "whether the printed selector, parsed again, matches",
                again.matches(&labels[..]),
                selector.matches(&labels[..]),
            )?;
            outcome.push_str(" and one in JSON");
        }
        Err(error) => outcome.push_str(&error.to_string()),
    }
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        let (printed, given) = (
            LabelSelector::of_json(value.to_string().as_bytes()).ok(),
            LabelSelector::of_json(json).ok(),
        );
        equal(
            "the selector from JSON and from the same JSON printed",
            printed,
            given,
        )?;
    }
    Ok(outcome)
}

pub(super) const FIELD_SELECTOR: Target = Target {
    name: "field-selector",
    tokens: || vec!["!=", "==", "=", ",", "['a,b']", "metadata.name", "."],
    feed: field_selector,
};

fn field_selector(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    Ok(match parse::<FieldSelector>("selector", text)? {
        Ok(selector) => format!(
            "a selector of {} requirements",
            selector.requirements().len()
        ),
        Err(error) => error.to_string(),
    })
}

pub(super) const REFERENCE: Target = Target {
    name: "reference",
    tokens: || vec!["~0", "~1", "~", "/", "apps/v1/ReplicaSet", "//"],
    feed: reference,
};

fn reference(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    Ok(match parse::<Reference>("reference", text)? {
        Ok(_) => "a reference".into(),
        Err(error) => error.to_string(),
    })
}

pub(super) const RESOURCE_PATH: Target = Target {
    name: "resource-path",
    tokens: || {
        vec![
            "\n", "..", ".", "%2e", "/", "\\", "?", "#", "status", "\u{2028}", "\u{ff0f}",
        ]
    },
    feed: resource_path,
};

/// Three lines: a namespace, a name and a subresource.
fn resource_path(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (namespace, name, subresource) = (next(), next(), next());
    let resource = ApiResource::new(Kind::new("apps", "v1", "Deployment"), "deployments", true);
    let path = match resource.object(namespace, name, subresource) {
        Ok(path) => path,
        Err(error) => return Ok(error.what.into()),
    };
    let segments: Vec<&str> = path.split('/').collect();
    let expected = if subresource.is_empty() { 8 } else { 9 };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/%".contains(&b);
    let has_bad_segment = segments.iter().skip(1).any(|segment| {
        segment.is_empty()
            || *segment == "."
            || *segment == ".."
            || segment.to_ascii_lowercase().contains("%2f")
    });
    if segments.len() != expected || !path.bytes().all(is_plain) || has_bad_segment {
        return Err(format!("the path {path} has other segments than requested"));
    }
    if !path.starts_with("/apis/apps/v1/namespaces/") || segments[6] != "deployments" {
        return Err(format!("the path {path} is that of another resource"));
    }
    Ok("a path".into())
}
