//! The CustomResourceDefinitions of the fake API server. An object of a defined kind is treated as the server treats it,
//! in this order: unknown fields are dropped with a warning (`prune`), absent fields get their defaults, and the result
//! is checked against the schema (`validate`). Rules in CEL (`x-kubernetes-validations`) are not evaluated.

mod prune;
mod validate;

use std::collections::BTreeMap;
use std::rc::Rc;

use flyball_types::{ApiError, FieldPath, Kind, Step};
use serde_json::Value;

use crate::describe::Description;

use super::store::text;

/// The kind of a definition.
pub(super) const DEFINITION: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";

/// What happens to unknown fields of a write: the option `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the answer has a warning for each.
    #[default]
    Warn,
    /// They are errors.
    Strict,
}

impl FieldValidation {
    /// Reads the option, which is `Warn` by default, as on the server.
    pub(super) fn of(options: &Value) -> Self {
        match options["fieldValidation"].as_str() {
            Some("Ignore") => Self::Ignore,
            Some("Strict") => Self::Strict,
            _ => Self::Warn,
        }
    }
}

/// The defined kinds.
#[derive(Default)]
pub(super) struct Definitions(BTreeMap<String, Rc<Definition>>);

/// A version of a custom resource.
pub(super) struct Definition {
    /// The kind and the group, as in `Greeting.greeter.flyball.dev`.
    name: String,
    schema: Value,
    /// Whether `status` is a subresource.
    pub(super) has_status: bool,
}

impl Definitions {
    /// Adds the versions of a CustomResourceDefinition. A version without a schema is not added.
    pub(super) fn define(&mut self, definition: &Value) {
        let (group, kind) = (
            text(definition, "/spec/group"),
            text(definition, "/spec/names/kind"),
        );
        let versions = definition["spec"]["versions"].as_array();
        for version in versions.into_iter().flatten() {
            let schema = &version["schema"]["openAPIV3Schema"];
            if schema.is_object() {
                let of_version = Kind::new(group, text(version, "/name"), kind).to_string();
                let defined = Definition {
                    name: format!("{kind}.{group}"),
                    schema: schema.clone(),
                    has_status: version["subresources"]["status"].is_object(),
                };
                self.0.insert(of_version, Rc::new(defined));
            }
        }
    }

    /// Removes the versions of a CustomResourceDefinition.
    pub(super) fn remove(&mut self, definition: &Value) {
        let (group, kind) = (
            text(definition, "/spec/group"),
            text(definition, "/spec/names/kind"),
        );
        let name = format!("{kind}.{group}");
        self.0.retain(|_, defined| defined.name != name);
    }

    pub(super) fn of(&self, kind: &str) -> Option<Rc<Definition>> {
        self.0.get(kind).cloned()
    }

    /// Checks that each field that a description declares is in the schema of its kind. Otherwise the field would always
    /// be absent.
    pub(super) fn check(&self, description: &Description) -> Result<(), String> {
        for watch in &description.watches {
            let Some(kind) = watch.kind.as_ref().map(Kind::to_string) else {
                continue;
            };
            let Some(definition) = self.0.get(&kind) else {
                continue;
            };
            for field in &watch.fields {
                // A malformed path is an error of the description itself.
                if let Ok(path) = field.parse::<FieldPath>()
                    && !has(&definition.schema, path.steps(), true)
                {
                    return Err(format!(
                        "the description reads `{field}` of {kind}, and the CustomResourceDefinition of {} has no such \
                         field: correct one of them",
                        definition.name
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Definition {
    /// Prunes an object, fills in defaults and validates it. `old` is the version before, whose mistakes are no errors
    /// where they are unchanged. Returns the dropped fields.
    pub(super) fn conform(
        &self,
        name: &str,
        object: &mut Value,
        old: Option<&Value>,
        unknown: FieldValidation,
    ) -> Result<Vec<String>, ApiError> {
        let dropped = prune::prune(object, &self.schema);
        if unknown == FieldValidation::Strict && !dropped.is_empty() {
            let message = format!("strict decoding error: {}", warnings(&dropped).join(", "));
            return Err(ApiError::of_server(400, "BadRequest", message));
        }
        prune::fill_defaults(object, &self.schema);
        let mut errors = validate::errors(object, old, &self.schema);
        let list = match errors.len() {
            0 => return Ok(dropped),
            1 => errors.remove(0),
            _ => format!("[{}]", errors.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", self.name);
        Err(ApiError::of_server(422, "Invalid", message))
    }
}

/// The server's warnings about dropped fields.
pub(super) fn warnings(dropped: &[String]) -> Vec<String> {
    let warning = |field: &String| format!("unknown field {field:?}");
    dropped.iter().map(warning).collect()
}

/// Whether the schema has a field at this path. What the schema leaves open is there.
fn has(schema: &Value, path: &[Step], is_root: bool) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return true;
    };
    let below = |schema: &Value| has(schema, rest, false);
    match step {
        Step::Field(name) if is_object_meta(schema, is_root, name) => true,
        Step::Field(name) => match &schema["properties"][&**name] {
            Value::Null => is_open(schema) || values_of(schema).is_some_and(below),
            property => below(property),
        },
        Step::Each | Step::Where(_) if schema["items"].is_object() => below(&schema["items"]),
        Step::Each | Step::Where(_) => is_open(schema) || values_of(schema).is_some_and(below),
    }
}

/// Whether a field belongs to every object of the API, and is not in its schema.
fn is_object_meta(schema: &Value, is_root: bool, field: &str) -> bool {
    (is_root || schema["x-kubernetes-embedded-resource"] == true)
        && matches!(field, "apiVersion" | "kind" | "metadata")
}

/// Whether objects of a schema may have any further field.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true || schema["additionalProperties"] == true
}

/// The schema of the values of a map.
fn values_of(schema: &Value) -> Option<&Value> {
    Some(&schema["additionalProperties"]).filter(|values| values.is_object())
}

#[cfg(test)]
mod tests;
