//! What is fed, and what must be true of each answer.

use std::path::Path;

use flyball_cache::ApiResource;
use flyball_cache::fuzzing::of_protobuf;
use flyball_manager::fuzzing;
use flyball_manager::policy::Policy;
use flyball_types::description::Description;
use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector, Mask, Reference, duration};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The answer in words, or which invariant it breaks.
pub type Verdict = Result<String, String>;

/// One thing that is fed.
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Words that mean something to it.
    pub tokens: &'static [&'static str],
    /// Feeds an input.
    pub feed: fn(&[u8]) -> Verdict,
}

/// All of them.
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

/// Bytes that a component may have here.
const LIMIT: usize = 1 << 20;

fn component(input: &[u8]) -> Verdict {
    match flyball_plugin::check(input, LIMIT) {
        Ok(()) if !input.starts_with(b"\0asm") => Err("what is no WebAssembly passes".into()),
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
        .map_err(|error| format!("it can't be printed: {error}"))?;
    equal(
        "what was printed reads back",
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
        // What is printed as seconds reads back, as far as a number can hold it.
        let again = duration::parse(&format!("{}s", duration.as_secs_f64()));
        let again = again.map_err(|error| format!("a duration does not read back: {error}"))?;
        let off = again.abs_diff(duration).as_secs_f64();
        if off > duration.as_secs_f64() * 1e-9 + 1e-9 {
            return Err(format!("{duration:?} reads back as {again:?}"));
        }
    }
    let policy = match Policy::parse(Path::new("policy.toml"), text) {
        Ok(policy) => policy,
        Err(error) => return Ok(error.to_string()),
    };
    let kind = Kind::new("fuzz.example.com", "v1", "Unheard");
    for (name, rules) in &policy.plugins {
        let stars = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.iter().any(|kind| kind == "*"));
        let named = rules
            .allow
            .iter()
            .any(|rule| rule.kinds.contains(&kind.to_string()));
        if rules.check("watch", &kind, "", "").is_ok() && !stars && !named {
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

/// A path, and after a newline JSON in which it is looked up.
fn field_path(input: &[u8]) -> Verdict {
    let (path, json) = two(input);
    let Ok(path) = str::from_utf8(path) else {
        return Ok("not text".into());
    };
    let path = match path.parse::<FieldPath>() {
        Ok(path) => path,
        Err(error) => return Ok(error.problem.into()),
    };
    equal(
        "a printed path reads back",
        path.to_string().parse(),
        Ok(path.clone()),
    )?;
    // Whatever the bytes are.
    let found = path.strings(json).len().min(3);
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        // Once printed, no field is there twice.
        let printed = value.to_string();
        equal(
            "what is found in bytes and in values",
            path.strings(printed.as_bytes()),
            path.lookup(&value).into_iter().map(Into::into).collect(),
        )?;
    }
    Ok(format!("a path of which there are {}", "|".repeat(found)))
}

/// A selector, and after a newline the JSON of one.
fn label_selector(input: &[u8]) -> Verdict {
    let (text, json) = two(input);
    let mut answer = String::new();
    if let Ok(text) = str::from_utf8(text) {
        match text.parse::<LabelSelector>() {
            Ok(selector) => {
                equal(
                    "a printed selector reads back",
                    selector.to_string().parse(),
                    Ok(selector.clone()),
                )?;
                let both = selector.and(&LabelSelector::nothing());
                if both.matches(&[("a", "b")][..]) {
                    return Err("what must match nothing as well matches".into());
                }
                answer.push_str("a selector");
            }
            Err(error) => answer.push_str(&error.to_string()),
        }
    }
    match LabelSelector::of_json(json) {
        Ok(selector) => {
            let text = selector.to_string();
            let again: LabelSelector = text
                .parse()
                .map_err(|error| format!("of JSON, it can't be read: {error}"))?;
            let labels = [("a", "1"), ("x.io/b", "2")];
            equal(
                "what it matches, read from its text",
                again.matches(&labels[..]),
                selector.matches(&labels[..]),
            )?;
            answer.push_str(" and one of JSON");
        }
        Err(error) => answer.push_str(&error.to_string()),
    }
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        let (value, bytes) = (
            LabelSelector::of_value(&value).ok(),
            LabelSelector::of_json(value.to_string().as_bytes()).ok(),
        );
        equal("a selector of bytes and of a value", bytes, value)?;
    }
    Ok(answer)
}

fn field_selector(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    match text.parse::<FieldSelector>() {
        Ok(selector) => {
            equal(
                "a printed selector reads back",
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
                "a printed reference reads back",
                reference.to_string().parse(),
                Ok(reference),
            )?;
            Ok("a reference".into())
        }
        Err(error) => Ok(error.to_string()),
    }
}

/// A namespace, a name and a subresource, in lines.
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
    let leads_elsewhere = segments.iter().skip(1).any(|segment| {
        segment.is_empty()
            || *segment == "."
            || *segment == ".."
            || segment.to_ascii_lowercase().contains("%2f")
    });
    if segments.len() != expected || !path.bytes().all(is_plain) || leads_elsewhere {
        return Err(format!("the path {path} leads elsewhere"));
    }
    if !path.starts_with("/apis/apps/v1/namespaces/") || segments[6] != "deployments" {
        return Err(format!("the path {path} is of another resource"));
    }
    Ok("a path".into())
}

/// An object, and after a newline a change of it.
fn patch(input: &[u8]) -> Verdict {
    let (base, change) = two(input);
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
        let text = text.map_err(|error: serde_json::Error| format!("JSON was refused: {error}"))?;
        serde_json::from_slice(&text).map_err(|error| format!("what is merged is no JSON: {error}"))
    };
    // As the change reads once it was written: a number that is read need not be the very one.
    let written = serde_json::from_str(&change.to_string())
        .map_err(|error| format!("a change is no JSON: {error}"))?;
    let mut expected = value.clone();
    merge(&mut expected, written);
    equal(
        "a merge patch",
        &merged(fuzzing::merge(raw, &change))?,
        &expected,
    )?;
    let kind = Kind::new("apps", "v1", "Deployment");
    let mut answer = String::from("merged");
    let status = raw_change.to_owned();
    for put in [
        fuzzing::updated(base, change, &kind, "7"),
        fuzzing::with_status(base, &status, Map::new(), &kind, "7").map(Some),
    ] {
        match put {
            Ok(Some(put)) => {
                if merged(Ok(put))?["metadata"]["resourceVersion"] != "7" {
                    return Err("what is put does not say against which version".into());
                }
                answer.push_str(" and put");
            }
            Err(error) if value.is_object() => {
                return Err(format!("an object was refused: {error}"));
            }
            Ok(None) | Err(_) => answer.push_str(" and refused"),
        }
    }
    Ok(answer)
}

/// A merge patch, as RFC 7386 defines it.
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

/// Paths with commas between them, and after a newline an object that is pruned by them.
fn mask(input: &[u8]) -> Verdict {
    let (paths, json) = two(input);
    let Ok(paths) = str::from_utf8(paths) else {
        return Ok("not text".into());
    };
    let mask = match Mask::parse(paths.split(',')) {
        Ok(mask) => mask,
        Err(error) => return Ok(error.problem.into()),
    };
    equal(
        "a mask of its own paths",
        mask.paths().iter().collect(),
        mask.clone(),
    )?;
    if !mask.covers(&mask) || !mask.covers(&Mask::default()) {
        return Err("a mask does not cover itself, or the identity".into());
    }
    let mut pruned = Vec::new();
    if let Err(error) = mask.prune(json, &mut pruned) {
        return Ok(error.to_string());
    }
    let value: Value = serde_json::from_slice(&pruned)
        .map_err(|error| format!("what is left is no JSON: {error}"))?;
    if value["metadata"].get("managedFields").is_some() {
        return Err("managed fields are left".into());
    }
    let mut again = Vec::new();
    mask.prune(&pruned, &mut again)
        .map_err(|error| format!("what is left can't be pruned: {error}"))?;
    equal("what is left, pruned again", again, pruned)?;
    Ok("pruned".into())
}

/// An object in protobuf.
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
        of_protobuf(input, &Mask::whole()),
        of_protobuf(input, &mask),
    ) {
        (Ok(whole), part) => {
            // It may hold JSON of its own, which is copied as it is.
            let Ok(whole) = prune(&whole) else {
                return Ok("an object of no JSON".into());
            };
            let part =
                part.map_err(|error| format!("a part can't be read, the whole can be: {error}"))?;
            equal("what is kept of the object, and of its JSON", part, whole)?;
            Ok("an object".into())
        }
        (Err(_), Ok(_)) => Ok("an object of which a part can be read".into()),
        (Err(error), Err(_)) => Ok(error.to_string()),
    }
}

/// What is before the first newline, and what is after it.
fn two(input: &[u8]) -> (&[u8], &[u8]) {
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
        Err(format!("{what}: {found:?} is not {expected:?}"))
    }
}
