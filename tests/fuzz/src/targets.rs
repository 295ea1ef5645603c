//! The targets, with their invariants.

use std::path::Path;

use flyball_cache::ApiResource;
use flyball_cache::fuzzing::transcode_protobuf;
use flyball_manager::fuzzing;
use flyball_manager::policy::Policy;
use flyball_types::description::Description;
use flyball_types::{
    FieldPath, FieldSelector, Kind, LabelSelector, Mask, MaskError, Reference, duration,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The outcome in words, or the invariant that it breaks.
pub type Verdict = Result<String, String>;

/// A parser of untrusted input.
pub struct Target {
    /// Also the name of its folder in the corpus.
    pub name: &'static str,
    /// Texts with a meaning in the format, which mutations insert.
    pub tokens: &'static [&'static str],
    /// Parses an input and checks the invariants.
    pub feed: fn(&[u8]) -> Verdict,
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "component",
        tokens: &[
            "\0asm\x0d\0\x01\0",
            "\0asm\x01\0\0\0",
            "flyball:controller/guest@0.2.0",
            "wasi:io/poll@0.2.0",
            "\x0a",
            "\x0b",
        ],
        feed: component,
    },
    Target {
        name: "description",
        tokens: &[
            "\"kind\":\"v1/Pod\"",
            "\"discovered\":{\"periodMs\":1}",
            "\"map\":[{\"to\":\"itself\"}]",
            "\"fields\":[\".\"]",
            "null",
            "\"to\":\"named\",\"path\":\"spec\",\"namespaced\":true",
            "\"labelSelector\":\"a in (b)\"",
            "1e999",
            "-1",
            "[",
            "{",
            "\"having\":{\"path\":\"a\",\"value\":\"b\"}",
            "\"whose\":{\"path\":\"a\",\"value\":\"b\"}",
            "\"qps\":",
            "\"changes\":[{\"path\":\"spec\"}]",
            "\"delayMs\":4294967295",
        ],
        feed: description,
    },
    Target {
        name: "policy",
        tokens: &[
            "[plugins.a]",
            "[[plugins.a.allow]]",
            "kinds = [\"*\"]",
            "verbs = [\"*\"]",
            "limits = { cpu = \"1ns\" }",
            "99999999999h",
            "memory = \"18446744073709551615Ki\"",
            "signer-keys = [\"a\"]",
            "imports = [\"signer\"]",
            "inf",
            "nan",
            "{ times = -1 }",
            "service-account = \"a/b\"",
            "1979-05-27T07:32:00Z",
            "'''",
            "\"\"\"",
            "[",
            "{ a = ",
        ],
        feed: policy,
    },
    Target {
        name: "field-path",
        tokens: &[
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
        ],
        feed: field_path,
    },
    Target {
        name: "label-selector",
        tokens: &[
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
        ],
        feed: label_selector,
    },
    Target {
        name: "field-selector",
        tokens: &["!=", "==", "=", ",", "['a,b']", "metadata.name", "."],
        feed: field_selector,
    },
    Target {
        name: "reference",
        tokens: &["~0", "~1", "~", "/", "apps/v1/ReplicaSet", "//"],
        feed: reference,
    },
    Target {
        name: "resource-path",
        tokens: &[
            "\n", "..", ".", "%2e", "/", "\\", "?", "#", "status", "\u{2028}", "\u{ff0f}",
        ],
        feed: resource_path,
    },
    Target {
        name: "patch",
        tokens: &[
            "\n",
            "null",
            "{}",
            "[]",
            "{\"metadata\":",
            "{\"status\":",
            "\"resourceVersion\"",
            "1e400",
            "0",
            "\"\"",
        ],
        feed: patch,
    },
    Target {
        name: "mask",
        tokens: &[
            "\n",
            ",",
            "[*]",
            ".",
            "metadata",
            "managedFields",
            "\"metadata\":{",
            "\\u006d",
            "\"ownerReferences\":[",
            "null",
        ],
        feed: mask,
    },
    Target {
        name: "protobuf",
        tokens: &[
            "k8s\0", "\x0a", "\x12", "\x1a", "\0", "\x7f", "v1", "Pod", "\"", "\\", "\u{2028}",
            "{", "null",
        ],
        feed: protobuf,
    },
];

/// The maximum size of a component in bytes.
const MAX_COMPONENT_SIZE: usize = 1 << 20;

fn component(input: &[u8]) -> Verdict {
    match flyball_plugin::check(input, MAX_COMPONENT_SIZE) {
        Ok(()) if !input.starts_with(b"\0asm") => {
            Err("an input that is not WebAssembly passes the check".into())
        }
        Ok(()) => Ok("a component".into()),
        Err(error) => Ok(error.to_string()),
    }
}

fn description(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    let description = match Description::read(text) {
        Ok(description) => description,
        Err(error) => return Ok(error.to_string()),
    };
    let printed = serde_json::to_string(&description)
        .map_err(|error| format!("the description can't be serialized: {error}"))?;
    equal(
        "the serialized description, parsed again",
        Description::read(&printed),
        Ok(description),
    )?;
    Ok("a description".into())
}

fn policy(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    if let Ok(duration) = duration::parse(text) {
        // The printed seconds have the precision of an `f64`.
        let again = duration::parse(&format!("{}s", duration.as_secs_f64()));
        let again =
            again.map_err(|error| format!("a printed duration can't be parsed: {error}"))?;
        let difference = again.abs_diff(duration).as_secs_f64();
        if difference > duration.as_secs_f64() * 1e-9 + 1e-9 {
            return Err(format!(
                "the printed duration {duration:?} is parsed as {again:?}"
            ));
        }
    }
    let policy = match Policy::parse(Path::new("policy.toml"), text) {
        Ok(policy) => policy,
        Err(error) => return Ok(error.to_string()),
    };
    let kind = Kind::new("fuzz.example.com", "v1", "Unknown");
    for (name, rules) in &policy.plugins {
        let has_wildcard = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.iter().any(|kind| kind == "*"));
        let names_kind = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.contains(&kind.to_string()));
        if rules.check("watch", &kind, "", "").is_ok() && !has_wildcard && !names_kind {
            return Err(format!(
                "the plugin {name} may watch a kind that no rule names"
            ));
        }
        if rules.check_import("discovery").is_ok() != rules.imports.contains("discovery") {
            return Err(format!(
                "the plugin {name} may use an import that is not granted"
            ));
        }
        if rules.check_key("a").is_ok()
            && !(rules.signer_keys.contains("a") && rules.imports.contains("signer"))
        {
            return Err(format!(
                "the plugin {name} may use a key that is not granted"
            ));
        }
    }
    let rules: usize = policy
        .plugins
        .values()
        .map(|plugin| plugin.allow.len().min(2))
        .sum();
    Ok(format!("a policy{}", "+".repeat(rules.min(4))))
}

/// The first line is a path, and the rest is JSON that it is looked up in.
fn field_path(input: &[u8]) -> Verdict {
    let (path, json) = split_first_line(input);
    let Ok(path) = str::from_utf8(path) else {
        return Ok("not text".into());
    };
    let path = match path.parse::<FieldPath>() {
        Ok(path) => path,
        Err(error) => return Ok(error.problem.into()),
    };
    equal(
        "the printed path, parsed again",
        path.to_string().parse(),
        Ok(path.clone()),
    )?;
    // The bytes may be invalid JSON: the look-up must not panic.
    let found = path.strings(json).len().min(3);
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        // Unlike `json`, the printed value has no duplicate fields.
        let printed = value.to_string();
        equal(
            "the values found in the bytes and in the parsed JSON",
            path.strings(printed.as_bytes()),
            path.lookup(&value).into_iter().map(Into::into).collect(),
        )?;
    }
    Ok(format!("a path that is found {}", "|".repeat(found)))
}

/// The first line is a selector, and the rest is a selector in JSON.
fn label_selector(input: &[u8]) -> Verdict {
    let (text, json) = split_first_line(input);
    let mut outcome = String::new();
    if let Ok(text) = str::from_utf8(text) {
        match text.parse::<LabelSelector>() {
            Ok(selector) => {
                equal(
                    "the printed selector, parsed again",
                    selector.to_string().parse(),
                    Ok(selector.clone()),
                )?;
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
        let (value, bytes) = (
            LabelSelector::of_value(&value).ok(),
            LabelSelector::of_json(value.to_string().as_bytes()).ok(),
        );
        equal("the selector from bytes and from a value", bytes, value)?;
    }
    Ok(outcome)
}

fn field_selector(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    match text.parse::<FieldSelector>() {
        Ok(selector) => {
            equal(
                "the printed selector, parsed again",
                selector.to_string().parse(),
                Ok(selector.clone()),
            )?;
            Ok(format!(
                "a selector{}",
                "+".repeat(selector.requirements().len().min(3))
            ))
        }
        Err(error) => Ok(error.to_string()),
    }
}

fn reference(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    match text.parse::<Reference>() {
        Ok(reference) => {
            equal(
                "the printed reference, parsed again",
                reference.to_string().parse(),
                Ok(reference),
            )?;
            Ok("a reference".into())
        }
        Err(error) => Ok(error.to_string()),
    }
}

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

/// The first line is an object, and the rest is a merge patch for it.
fn patch(input: &[u8]) -> Verdict {
    let (base, change) = split_first_line(input);
    let (Ok(raw), Ok(change), Ok(raw_change)) = (
        serde_json::from_slice::<&RawValue>(base),
        serde_json::from_slice::<Value>(change),
        serde_json::from_slice::<&RawValue>(change),
    ) else {
        return Ok("not JSON".into());
    };
    let Ok(value) = serde_json::from_str::<Value>(raw.get()) else {
        return Ok("not JSON".into());
    };
    let merged = |text: Result<Vec<u8>, _>| -> Result<Value, String> {
        let text =
            text.map_err(|error: serde_json::Error| format!("valid JSON was refused: {error}"))?;
        serde_json::from_slice(&text)
            .map_err(|error| format!("the merged object is not valid JSON: {error}"))
    };
    // Printed and parsed again, since a number may lose precision by that.
    let written = serde_json::from_str(&change.to_string())
        .map_err(|error| format!("a printed patch is not valid JSON: {error}"))?;
    let mut expected = value.clone();
    merge(&mut expected, written);
    equal(
        "the object with the merge patch applied",
        &merged(fuzzing::merge(raw, &change))?,
        &expected,
    )?;
    let kind = Kind::new("apps", "v1", "Deployment");
    let mut outcome = String::from("merged");
    let status = raw_change.to_owned();
    for body in [
        fuzzing::updated(base, change, &kind, "7"),
        fuzzing::with_status(base, &status, Map::new(), &kind, "7").map(Some),
    ] {
        match body {
            Ok(Some(body)) => {
                if merged(Ok(body))?["metadata"]["resourceVersion"] != "7" {
                    return Err("the body of an update has another resource version".into());
                }
                outcome.push_str(" and put");
            }
            Err(error) if value.is_object() => {
                return Err(format!("an object was refused: {error}"));
            }
            Ok(None) | Err(_) => outcome.push_str(" and refused"),
        }
    }
    Ok(outcome)
}

/// Applies a merge patch, as RFC 7386 defines it.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, change) in patch {
        if change.is_null() {
            target.as_object_mut().map(|fields| fields.remove(&name));
        } else {
            merge(&mut target[name], change);
        }
    }
}

/// The first line is comma-separated paths, and the rest is an object that they prune.
fn mask(input: &[u8]) -> Verdict {
    let (paths, json) = split_first_line(input);
    let Ok(paths) = str::from_utf8(paths) else {
        return Ok("not text".into());
    };
    let mask = match Mask::parse(paths.split(',')) {
        Ok(mask) => mask,
        Err(MaskError::Path(error)) => return Ok(error.problem.into()),
        Err(MaskError::TooComplex) => return Ok("paths that are too complex".into()),
    };
    if let Ok(again) = Mask::of(&mask.paths()) {
        equal("the mask, built again from its paths", again, mask.clone())?;
    }
    if !mask.covers(&mask) || !mask.covers(&Mask::default()) {
        return Err("a mask does not cover itself or the empty mask".into());
    }
    let mut pruned = Vec::new();
    if let Err(error) = mask.prune(json, &mut pruned) {
        return Ok(error.to_string());
    }
    let value: Value = serde_json::from_slice(&pruned)
        .map_err(|error| format!("the pruned object is not valid JSON: {error}"))?;
    if value["metadata"].get("managedFields").is_some() {
        return Err("the pruned object has managedFields".into());
    }
    let mut again = Vec::new();
    mask.prune(&pruned, &mut again)
        .map_err(|error| format!("the pruned object can't be pruned again: {error}"))?;
    equal("the object, pruned twice", again, pruned)?;
    Ok("pruned".into())
}

/// An object in protobuf. Transcoding with a mask must equal pruning the whole object.
fn protobuf(input: &[u8]) -> Verdict {
    let mask = Mask::parse([
        "metadata.labels",
        "spec.metrics[*].type",
        "spec.template",
        "data.a",
        "type",
    ]);
    let mask = mask.map_err(|error| error.to_string())?;
    let prune = |json: &[u8]| {
        let mut pruned = Vec::new();
        mask.prune(json, &mut pruned).map(|()| pruned)
    };
    match (
        transcode_protobuf(input, &Mask::whole()),
        transcode_protobuf(input, &mask),
    ) {
        (Ok(whole), part) => {
            // Raw JSON in the message is copied without validation, so the result may be invalid.
            let Ok(whole) = prune(&whole) else {
                return Ok("an object with invalid raw JSON".into());
            };
            let part = part.map_err(|error| {
                format!("the whole object can be decoded, but not with the mask: {error}")
            })?;
            equal(
                "the object transcoded with the mask, and pruned",
                part,
                whole,
            )?;
            Ok("an object".into())
        }
        (Err(_), Ok(_)) => Ok("an object that can be decoded only with the mask".into()),
        (Err(error), Err(_)) => Ok(error.to_string()),
    }
}

/// The bytes before the first newline, and those after it.
fn split_first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let at = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len());
    (&input[..at], input.get(at + 1..).unwrap_or_default())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} differs from {expected:?}"))
    }
}
