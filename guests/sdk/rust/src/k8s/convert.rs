//! Conversions between the types of `k8s-openapi` and of the SDK.

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;

use flyball_types::LabelSelector;

use crate::condition::Condition;
use crate::error::Error;
use crate::int_or_percent::IntOrPercent;
use crate::key::Key;
use crate::meta::{Meta, OwnerReference, Selector};
use crate::quantity::{Quantity, QuantityError};
use crate::reference::ObjectReference;
use crate::time::{MicroTime, Time};

fn text(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

/// Converts an empty text to `None`.
fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl From<&meta_v1::ObjectMeta> for Key {
    fn from(meta: &meta_v1::ObjectMeta) -> Self {
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        }
    }
}

impl From<&meta_v1::ObjectMeta> for Meta {
    fn from(meta: &meta_v1::ObjectMeta) -> Self {
        let owners = meta.owner_references.iter().flatten();
        Self {
            name: text(&meta.name),
            generate_name: text(&meta.generate_name),
            namespace: text(&meta.namespace),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
            generation: meta.generation.unwrap_or_default(),
            creation_timestamp: meta.creation_timestamp.as_ref().map(Into::into),
            deletion_timestamp: meta.deletion_timestamp.as_ref().map(Into::into),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            owner_references: owners.map(Into::into).collect(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }
}

impl From<&meta_v1::OwnerReference> for OwnerReference {
    fn from(owner: &meta_v1::OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: owner.controller.unwrap_or_default(),
            block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
        }
    }
}

impl From<&OwnerReference> for meta_v1::OwnerReference {
    fn from(owner: &OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: owner.controller.then_some(true),
            block_owner_deletion: owner.block_owner_deletion.then_some(true),
        }
    }
}

/// The kind has the form `v1/Pod`.
impl From<&core_v1::ObjectReference> for ObjectReference {
    fn from(object: &core_v1::ObjectReference) -> Self {
        let (api_version, kind) = (text(&object.api_version), text(&object.kind));
        Self {
            kind: format!("{api_version}/{kind}"),
            namespace: text(&object.namespace),
            name: text(&object.name),
            uid: text(&object.uid),
            resource_version: text(&object.resource_version),
        }
    }
}

impl From<&meta_v1::Condition> for Condition {
    fn from(condition: &meta_v1::Condition) -> Self {
        Self {
            condition_type: condition.type_.clone(),
            status: condition.status.clone(),
            observed_generation: condition.observed_generation,
            last_transition_time: Some((&condition.last_transition_time).into()),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            ..Self::default()
        }
    }
}

/// A condition without a transition time gets 1970-01-01T00:00:00Z.
impl From<&Condition> for meta_v1::Condition {
    fn from(condition: &Condition) -> Self {
        Self {
            type_: condition.condition_type.clone(),
            status: condition.status.clone(),
            observed_generation: condition.observed_generation,
            last_transition_time: condition.last_transition_time.unwrap_or_default().into(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

impl From<&Timestamp> for Time {
    fn from(time: &Timestamp) -> Self {
        let nanos = time.as_nanosecond();
        Self {
            seconds: nanos.div_euclid(1_000_000_000) as i64,
            nanoseconds: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }
}

/// A time beyond the year 9999 becomes the last one before it.
impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        Self::new(time.seconds, time.nanoseconds as i32).unwrap_or(Self::MAX)
    }
}

impl From<&meta_v1::Time> for Time {
    fn from(time: &meta_v1::Time) -> Self {
        (&time.0).into()
    }
}

impl From<Time> for meta_v1::Time {
    fn from(time: Time) -> Self {
        Self(time.into())
    }
}

impl From<&meta_v1::MicroTime> for MicroTime {
    fn from(time: &meta_v1::MicroTime) -> Self {
        Self((&time.0).into())
    }
}

impl From<MicroTime> for meta_v1::MicroTime {
    fn from(time: MicroTime) -> Self {
        Self(time.0.into())
    }
}

impl TryFrom<&resource::Quantity> for Quantity {
    type Error = QuantityError;

    fn try_from(quantity: &resource::Quantity) -> Result<Self, QuantityError> {
        quantity.0.parse()
    }
}

impl From<Quantity> for resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl From<&IntOrString> for IntOrPercent {
    fn from(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(number) => Self::Int(*number),
            IntOrString::String(text) => Self::Percent(text.clone()),
        }
    }
}

impl From<&IntOrPercent> for IntOrString {
    fn from(value: &IntOrPercent) -> Self {
        match value {
            IntOrPercent::Int(number) => Self::Int(*number),
            IntOrPercent::Percent(text) => Self::String(text.clone()),
        }
    }
}

impl TryFrom<&meta_v1::LabelSelector> for Selector {
    type Error = Error;

    fn try_from(selector: &meta_v1::LabelSelector) -> Result<Self, Error> {
        let json = serde_json::to_vec(selector).expect("a selector is valid JSON");
        LabelSelector::of_json(&json)
            .map(Self)
            .map_err(|error| Error::terminal(format!("the label selector is invalid: {error}")))
    }
}

impl From<&ObjectReference> for core_v1::ObjectReference {
    fn from(object: &ObjectReference) -> Self {
        let (api_version, kind) = object.kind.rsplit_once('/').unwrap_or(("", &object.kind));
        Self {
            api_version: some(api_version),
            kind: some(kind),
            namespace: some(&object.namespace),
            name: some(&object.name),
            uid: some(&object.uid),
            resource_version: some(&object.resource_version),
            field_path: None,
        }
    }
}
