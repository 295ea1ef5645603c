//! Odd values in the places of an object that the API server doesn't check: annotations, owner references, statuses,
//! data and references to other objects.

use serde_json::Value;

/// Texts that are empty, long, foreign or not valid for what they stand for.
const TEXTS: [&str; 18] = [
    "",
    " ",
    ".",
    "..",
    "../../secrets",
    "a/b",
    "a/b/c/d",
    "/",
    "%2e%2e%2f",
    "a\nb",
    "\u{0}",
    "ünïcödé-😀",
    "a?b=c#d&e",
    "\"}{[",
    "-1",
    "99999999999999999999999999",
    "1e400",
    "NaN",
];
/// The length of a long text.
const LONG: usize = 5_000;
const TIMES: [&str; 4] = [
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-02-28T23:59:59Z",
];
const QUANTITIES: [&str; 7] = [
    "0",
    "-1",
    "1n",
    "7Ei",
    "9223372036854775807",
    "1e18",
    "-9e18",
];
const NUMBERS: [i64; 5] = [0, -1, 1, i32::MIN as i64, i32::MAX as i64];
/// API versions and kinds of owners that nobody serves. The server checks that they have a version.
const API_VERSIONS: [&str; 4] = ["v9", "apps/v9", "no such/v1", "ü.example.com/v1"];

/// Fields of metadata that the API server checks or sets itself.
const CHECKED_METADATA: [&str; 9] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "labels",
    "finalizers",
    "generation",
    "resourceVersion",
    "creationTimestamp",
];
/// The parts of selectors, which the API server checks.
const SELECTORS: [&str; 2] = ["matchLabels", "matchExpressions"];
/// Texts of a spec that refer to something else, which the server stores without a look at it.
const REFERENCES: [&str; 16] = [
    "claimName",
    "deviceClassName",
    "nodeName",
    "path",
    "podName",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "resourceVersion",
    "secretName",
    "serviceName",
    "storageClassName",
    "uid",
    "username",
    "volumeAttributesClassName",
    "volumeName",
    "zone",
];
/// The ends of the names of fields whose `name`, `namespace` and `kind` are references.
const REFERRING: [&str; 3] = ["Ref", "Reference", "Refs"];

/// A place in an object: a JSON pointer, and the values that the server accepts there.
#[derive(Clone, Debug)]
pub struct Place {
    pub pointer: String,
    values: Values,
}

#[derive(Clone, Copy, Debug)]
enum Values {
    Text,
    /// A text that isn't empty.
    Required,
    ApiVersion,
    Time,
    Quantity,
    Number,
    Bool,
    List,
}

/// A sequence of numbers that looks random and is the same in each run.
#[derive(Debug)]
pub struct Numbers(u64);

impl Numbers {
    pub fn of_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns an index into something of this length.
    pub fn below(&mut self, length: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % length.max(1)
    }

    pub fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Returns the places of an object. `annotations` are keys of annotations, which the object need not have.
pub fn places(object: &Value, annotations: &[String]) -> Vec<Place> {
    let mut places = Vec::new();
    walk(object, "", false, &mut places);
    places.extend(annotations.iter().map(|key| Place {
        pointer: format!("/metadata/annotations/{}", escaped(key)),
        values: Values::Text,
    }));
    places
}

/// Puts an odd value into a place, or removes what is there.
pub fn spoil(object: &mut Value, place: &Place, numbers: &mut Numbers) {
    let is_annotation = place.pointer.starts_with("/metadata/annotations/");
    let is_required = matches!(place.values, Values::Required | Values::ApiVersion);
    if !is_annotation && object.pointer(&place.pointer).is_none() {
        // Removed before, with a parent.
        return;
    }
    if !is_required && !is_annotation && numbers.below(8) == 0 {
        remove(object, &place.pointer);
        return;
    }
    let value: Value = match place.values {
        Values::Text if numbers.below(TEXTS.len() + 1) == 0 => "x".repeat(LONG).into(),
        Values::Text => (*numbers.choose(&TEXTS)).into(),
        // The first one is empty.
        Values::Required => (*numbers.choose(&TEXTS[1..])).into(),
        Values::ApiVersion => (*numbers.choose(&API_VERSIONS)).into(),
        Values::Time => (*numbers.choose(&TIMES)).into(),
        Values::Quantity => (*numbers.choose(&QUANTITIES)).into(),
        Values::Number => (*numbers.choose(&NUMBERS)).into(),
        Values::Bool => (numbers.below(2) == 0).into(),
        Values::List => {
            let mut items = object
                .pointer(&place.pointer)
                .and_then(Value::as_array)
                .cloned();
            if let Some(items) = &mut items {
                items.extend(items.clone());
            }
            items.unwrap_or_default().into()
        }
    };
    flyball_sdk::testing::set_at(object, &place.pointer, value);
}

/// Removes a field. An item of a list stays, because the next ones would move.
fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(fields)) = object.pointer_mut(parent) {
        fields.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

/// Collects the places below a value. In a spec, only references are places.
fn walk(value: &Value, pointer: &str, is_spec: bool, places: &mut Vec<Place>) {
    let Some(values) = values_of(value, pointer) else {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, child)| (escaped(name), child))
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, child)| (at.to_string(), child))
                .collect(),
            _ => Vec::new(),
        };
        if value.is_array() && !is_spec && pointer.starts_with("/status/") {
            places.push(Place {
                pointer: pointer.into(),
                values: Values::List,
            });
        }
        for (name, child) in children {
            let is_checked = pointer == "/metadata" && CHECKED_METADATA.contains(&&*name)
                || pointer.is_empty() && matches!(&*name, "apiVersion" | "kind")
                || SELECTORS.contains(&&*name);
            if !is_checked {
                let child_pointer = format!("{pointer}/{name}");
                walk(
                    child,
                    &child_pointer,
                    is_spec || child_pointer == "/spec",
                    places,
                );
            }
        }
        return;
    };
    if !is_spec || is_reference(pointer) {
        places.push(Place {
            pointer: pointer.into(),
            values,
        });
    }
}

/// The values that the server accepts in place of a leaf; none if it isn't one.
fn values_of(value: &Value, pointer: &str) -> Option<Values> {
    let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let is_amount = [
        "capacity",
        "allocatable",
        "hard",
        "used",
        "requests",
        "limits",
        "consumption",
        "value",
    ];
    let mut parts = pointer.rsplit('/');
    let in_amounts = name.ends_with("Value") || parts.any(|part| is_amount.contains(&part));
    Some(match value {
        Value::String(_) if name == "apiVersion" => Values::ApiVersion,
        Value::String(text) if text.parse::<flyball_sdk::Time>().is_ok() => Values::Time,
        Value::String(text) if in_amounts && text.parse::<flyball_sdk::Quantity>().is_ok() => {
            Values::Quantity
        }
        Value::String(_) if parent.starts_with("/metadata/ownerReferences/") => Values::Required,
        Value::String(_) => Values::Text,
        Value::Number(_) => Values::Number,
        Value::Bool(_) => Values::Bool,
        _ => return None,
    })
}

fn is_reference(pointer: &str) -> bool {
    let mut parts = pointer.rsplit('/');
    let (name, parent) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    REFERENCES.contains(&name)
        || matches!(name, "name" | "namespace" | "kind" | "apiVersion")
            && REFERRING.iter().any(|end| parent.ends_with(end))
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
