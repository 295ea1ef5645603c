//! Object metadata, owner references and selectors.

use std::collections::BTreeMap;
use std::ops::Deref;

use flyball_types::{Kind, LabelSelector, Labels};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::key::Key;
use crate::reference::ObjectReference;
use crate::time::Time;

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;

/// Labels as JSON text. A lookup scans the text. Most objects are read without a lookup of a label, so parsing the
/// labels would be wasted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Box<str>);

impl LabelSet {
    /// Returns the keys and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        // `{"k":"v","k":"v"}`: only keys and values are quoted, alternately.
        let mut rest = &*self.0;
        let mut quoted = move || {
            let start = 1 + quote(rest)?;
            let end = start + quote(&rest[start..])?;
            let text = &rest[start..end];
            rest = &rest[end + 1..];
            Some(text)
        };
        std::iter::from_fn(move || Some((quoted()?, quoted()?)))
    }
}

impl Labels for LabelSet {
    fn label(&self, key: &str) -> Option<&str> {
        let mut pairs = self.pairs();
        pairs.find_map(|(own, value)| (own == key).then_some(value))
    }
}

/// Position of the next quote. A plain loop is faster than `memchr` on such short texts.
fn quote(text: &str) -> Option<usize> {
    text.bytes().position(|byte| byte == b'"')
}

impl From<&StringMap> for LabelSet {
    /// Labels that would need an escape in JSON are left out; the API does not allow them.
    fn from(labels: &StringMap) -> Self {
        let is_plain =
            |text: &String| !text.contains(|c: char| c == '"' || c == '\\' || c.is_control());
        let pair = |(key, value)| format!("\"{key}\":\"{value}\"");
        let pairs: Vec<String> = labels
            .iter()
            .filter(|(key, value)| is_plain(key) && is_plain(value))
            .map(pair)
            .collect();
        Self(format!("{{{}}}", pairs.join(",")).into())
    }
}

impl<'de> Deserialize<'de> for LabelSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get() {
            "null" => Ok(Self::default()),
            text if text.starts_with('{') && !text.contains('\\') => Ok(Self(text.into())),
            text => serde_json::from_str::<StringMap>(text)
                .map(|labels| Self::from(&labels))
                .map_err(serde::de::Error::custom),
        }
    }
}

/// The metadata of an object. Name, namespace, UID and resource version are always read; other
/// fields only if the view lists them: `#[view(path = "metadata", fields("labels"))]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub labels: StringMap,
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub annotations: StringMap,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub owner_references: Vec<OwnerReference>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub finalizers: Vec<String>,
}

impl Meta {
    /// Returns the owner reference of the controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether the object with this UID is this object's controller.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the object is being deleted and neither a grace period nor a finalizer delays its deletion any more.
    /// Every object with a grace period is in this state for a moment. It stays in it if the client of a deletion
    /// disconnects before the API server has completed the deletion. Another request to delete the object then
    /// completes it.
    ///
    /// The view must read `deletionGracePeriodSeconds` and `finalizers`.
    pub fn has_incomplete_deletion(&self) -> bool {
        self.is_deleting()
            && self.deletion_grace_period_seconds == Some(0)
            && self.finalizers.is_empty()
    }

    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Returns a reference to the object, for events.
    pub fn reference(&self, kind: &str) -> ObjectReference {
        ObjectReference {
            kind: kind.into(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    /// Returns an owner reference to this object, of `kind`, as the controller. It blocks the
    /// owner's deletion.
    pub fn controller_reference(&self, kind: &str) -> OwnerReference {
        OwnerReference {
            controller: true,
            block_owner_deletion: true,
            ..self.owner_reference(kind)
        }
    }

    /// Returns an owner reference to this object, of `kind`, not as the controller.
    ///
    /// # Panics
    /// If `kind` does not have the form `apps/v1/ReplicaSet`.
    pub fn owner_reference(&self, kind: &str) -> OwnerReference {
        let kind: Kind = kind.parse().unwrap_or_else(|error| panic!("{error}"));
        OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind,
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: false,
            block_owner_deletion: false,
        }
    }
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_is_default")]
    pub controller: bool,
    #[serde(skip_serializing_if = "is_false", deserialize_with = "null_is_default")]
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Whether the reference is to this group and kind. The version is ignored.
    pub fn is_of(&self, kind: &str) -> bool {
        let own = Kind::of_object(&self.api_version, &self.kind);
        kind.parse::<Kind>()
            .is_ok_and(|other| (other.group, other.kind) == (own.group, own.kind))
    }
}

/// The ObjectReference of core/v1, as objects hold it. The host's functions use [`ObjectReference`] instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CoreObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl CoreObjectReference {
    /// Returns a reference to this object, of `kind`.
    ///
    /// # Panics
    /// If `kind` does not have the form `apps/v1/ReplicaSet`.
    pub fn to(kind: &str, meta: &Meta) -> Self {
        let kind: Kind = kind.parse().unwrap_or_else(|error| panic!("{error}"));
        Self {
            api_version: kind.api_version(),
            kind: kind.kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: String::new(),
        }
    }
}

/// A LabelSelector or a plain map of labels. If absent or null, it matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(pub LabelSelector);

impl Default for Selector {
    fn default() -> Self {
        Self(LabelSelector::nothing())
    }
}

impl Deref for Selector {
    type Target = LabelSelector;

    fn deref(&self) -> &LabelSelector {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        LabelSelector::of_json(json.get().as_bytes())
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// Deserializes null as the default. For fields of serde structs, with `#[serde(default)]`.
///
/// # Errors
/// A value other than null is not a valid `T`.
pub fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_found_in_the_json_text() {
        let labels: LabelSet =
            serde_json::from_str(r#"{"app": "web", "x.io/y":"","esc":"a\u0022"}"#).unwrap();
        assert_eq!(
            ["app", "x.io/y", "web", "esc", ""].map(|key| labels.label(key)),
            [Some("web"), Some(""), None, None, None]
        );
        let plain: LabelSet = serde_json::from_str(r#"{"app": "web", "x.io/y":""}"#).unwrap();
        assert_eq!(
            ["app", "x.io/y", "web", "ap"].map(|key| plain.label(key)),
            [Some("web"), Some(""), None, None]
        );
        assert_eq!(
            serde_json::from_str::<LabelSet>("null")
                .unwrap()
                .label("app"),
            None
        );
        assert!(serde_json::from_str::<LabelSet>("[1]").is_err());
    }

    #[test]
    fn the_controller_is_the_owner_with_controller_set() {
        let meta: Meta = serde_json::from_value(json!({"name": "web-1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": null},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true},
        ]}))
        .unwrap();
        assert!(meta.is_controlled_by("2") && !meta.is_controlled_by("1"));
        assert!(meta.controller().unwrap().is_of("apps/v1beta1/ReplicaSet"));
        assert!(!meta.controller().unwrap().is_of("v1/ReplicaSet"));
    }

    #[test]
    fn a_controller_reference_blocks_the_deletion_of_its_owner() {
        let owner = Meta {
            name: "web".into(),
            uid: "2".into(),
            ..Meta::default()
        };
        assert_eq!(
            serde_json::to_value(owner.controller_reference("apps/v1/ReplicaSet")).unwrap(),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2",
                   "controller": true, "blockOwnerDeletion": true}),
        );
    }

    #[test]
    fn a_core_reference_has_group_and_version_and_leaves_out_what_is_unknown() {
        let meta = Meta {
            name: "a".into(),
            namespace: "b".into(),
            uid: "1".into(),
            ..Meta::default()
        };
        let reference = |kind| serde_json::to_value(CoreObjectReference::to(kind, &meta)).unwrap();
        assert_eq!(
            reference("batch/v1/Job"),
            serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "b", "name": "a", "uid": "1"})
        );
        assert_eq!(reference("v1/Pod")["apiVersion"], "v1");
    }

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        let labels = StringMap::new();
        assert!(!Selector::default().matches(&labels));
        assert!(
            serde_json::from_str::<Selector>("{}")
                .unwrap()
                .matches(&labels)
        );
        let web: Selector = serde_json::from_str(r#"{"matchLabels": {"app": "web"}}"#).unwrap();
        assert_eq!(web.to_string(), "app=web");
    }
}
