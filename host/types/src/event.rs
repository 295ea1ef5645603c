//! The options of an event, which a guest passes as a JSON document. `wit/event-options.schema.json` is generated from
//! these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The options of an event. An unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EventOptions {
    /// The event's `action`: what was done, as one CamelCase word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// A second object that the event concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<EventReference>,
    /// The event's annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The resource version of the object that the event is about, as it was read; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Records an event of `events.k8s.io/v1` whose `reportingController` is this name. Such an event needs an action. If
    /// it is empty, the event is one of `v1`, and its source is the plugin.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reporting_controller: String,
    /// Drops the event if the plugin has emitted the same one, about the same object, within the last hour.
    #[serde(skip_serializing_if = "is_false")]
    pub once: bool,
}

/// Identifies an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventReference {
    /// For example `v1/Pod`.
    pub kind: String,
    /// Empty if the object is cluster-scoped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl EventOptions {
    /// Parses a document; an empty one has no options.
    ///
    /// # Errors
    /// Fails if the document is not JSON, or if a field is unknown or of another type.
    pub fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        if document.is_empty() {
            Ok(Self::default())
        } else {
            serde_json::from_slice(document)
        }
    }

    /// Returns the document; it is empty if there are no options.
    pub fn to_document(&self) -> Vec<u8> {
        if *self == Self::default() {
            Vec::new()
        } else {
            serde_json::to_vec(self).expect("a map with string keys is valid JSON")
        }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reverses_to_document() {
        let related = EventReference {
            kind: "v1/Pod".into(),
            name: "web".into(),
            ..EventReference::default()
        };
        let options = EventOptions {
            action: "Binding".into(),
            related: Some(related),
            annotations: BTreeMap::from([("a".into(), "b".into())]),
            resource_version: "7".into(),
            reporting_controller: "example.com/web".into(),
            once: true,
        };
        assert_eq!(
            EventOptions::parse(&options.to_document()).unwrap(),
            options
        );
        assert_eq!(EventOptions::default().to_document(), b"");
        assert_eq!(EventOptions::parse(b"").unwrap(), EventOptions::default());
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_it() {
        for document in [
            &br#"{"actions": "Binding"}"#[..],
            br#"{"related": {"kind": "v1/Pod", "name": "a", "actions": "b"}}"#,
        ] {
            let error = EventOptions::parse(document).unwrap_err().to_string();
            assert!(error.contains("unknown field `actions`"), "{error}");
        }
        assert!(EventOptions::parse(b"1").is_err());
    }

    #[test]
    fn the_schema_in_wit_is_the_one_of_the_types() {
        crate::schema::assert_current::<EventOptions>("event-options.schema.json");
    }
}
