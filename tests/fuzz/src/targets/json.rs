//! JSON that is changed or reduced: merge patches and masks.

use flyball_types::{Kind, Mask, MaskError};
use flyball_writer::merge::{self, updated, with_status};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Target, Verdict, equal, split_first_line};

pub(super) const PATCH: Target = Target {
    name: "patch",
    tokens: || {
        vec![
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
        ]
    },
    feed: patch,
};

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
    let (mut expected, mut bytes) = (value.clone(), Vec::new());
    merge(&mut expected, written);
    equal(
        "the object with the merge patch applied",
        &merged(merge::merge(Some(raw), &change, &mut bytes).map(|()| bytes))?,
        &expected,
    )?;
    let kind = Kind::new("apps", "v1", "Deployment");
    let mut outcome = String::from("merged");
    let status = raw_change.to_owned();
    for body in [
        updated(base, change, &kind, "7"),
        with_status(base, &status, Map::new(), &kind, "7").map(Some),
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

pub(super) const MASK: Target = Target {
    name: "mask",
    tokens: || {
        vec![
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
        ]
    },
    feed: mask,
};

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
