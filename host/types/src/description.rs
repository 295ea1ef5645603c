//! What a plugin says of itself: the JSON document that `describe` returns, and its checks.
//!
//! Fields that a host does not know are ignored, so that a plugin made for a newer host loads on an older one; a `format`
//! above [`FORMAT`] is refused, because then what is not known may matter.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Kind, KindPattern};

mod check;

pub use check::DescriptionError;

/// The newest format of the document that this host reads.
pub const FORMAT: u32 = 1;

/// A plugin's own description.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Description {
    /// The version of this document's format: [`FORMAT`].
    pub format: u32,
    /// The plugin's name: lower-case letters, digits and dashes.
    pub name: String,
    /// The plugin's own version, for people.
    pub version: String,
    /// The kinds that it reads, and how their changes become keys.
    pub watches: Vec<Watch>,
    /// Indexes over kinds that it watches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// Its queues. The first is the primary one: every key of it is enqueued again after a reload.
    pub queues: Vec<Queue>,
    /// Keys that are enqueued at a period.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tickers: Vec<Ticker>,
    /// What it wants to be allowed beyond reading what it watches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// Imports that need a grant: `discovery`, `signer`, `raw` (GETs of arbitrary paths).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub imports: BTreeSet<String>,
    /// Keys of `config` and their defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, ConfigKey>,
    /// Its own metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// How many keys it can reconcile at once, if the operator says nothing else. 0 means 1.
    pub concurrency: u32,
    /// What `source.component` of its events says; the plugin's name if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event_source: String,
    /// The schema of its memo: a reload with another number empties it.
    pub memo_schema: u32,
}

/// A kind that a plugin reads, and how its changes become keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Watch {
    /// The kind, as in `apps/v1/ReplicaSet`; none if the kinds are `discovered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Instead of one kind, whichever the API server serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovered: Option<Discovered>,
    /// Only this namespace; all if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Only objects whose labels match this selector.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// Only objects whose fields match, as in `metadata.name=kube-root-ca.crt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Whether metadata alone will do.
    #[serde(skip_serializing_if = "is_false")]
    pub metadata_only: bool,
    /// The fields that the plugin reads; `.` for all but `metadata.managedFields`. Name, namespace, UID and resource
    /// version are always there.
    pub fields: Vec<String>,
    /// Which modifications count; all, if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// How a change becomes keys; none, if the kind is only read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<Mapping>,
}

/// Every kind that the API server serves in its preferred version, as kinds come and go. Of their objects metadata alone is
/// kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Discovered {
    /// Only kinds with all of these verbs, beside `list` and `watch`, without which none can be followed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub verbs: BTreeSet<String>,
    /// Without these kinds; their version does not matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Kind>,
    /// How often the server is asked what it serves.
    pub period_ms: u32,
    /// A key of `config` whose value, a duration such as `10s`, goes before `period_ms`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// A counter among `metrics`, raised when the server does not say what it serves, and for kinds that can't be listed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub errors: String,
}

/// A modification that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// `metadata.generation` differs.
    Generation,
    /// `metadata.labels` differ.
    Labels,
    /// What lies at this path differs.
    Path(String),
}

/// What kind of delta a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeltaType {
    /// The object is new to the cache.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone.
    Deleted,
}

/// How a delta becomes keys. It is applied to the old and to the new object, and the union is enqueued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// What the keys are.
    #[serde(flatten)]
    pub to: To,
    /// Only for these types of delta; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<DeltaType>,
    /// The queue; the first one, if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Enqueue only after this time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u32,
    /// Only for objects that have no controller.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orphans: bool,
    /// Only for objects that are being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// Only for objects with these values in these fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_more")]
    pub having: Vec<Having>,
}

/// A value that a field must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Having {
    /// A field path to a string or to strings, of which one must be it.
    pub path: String,
    /// The value.
    pub value: String,
}

/// One value is written as it is, several as a list.
mod one_or_more {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Having;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(Having),
        More(Vec<Having>),
    }

    pub(super) fn serialize<S: Serializer>(
        having: &[Having],
        output: S,
    ) -> Result<S::Ok, S::Error> {
        match having {
            [one] => one.serialize(output),
            more => more.serialize(output),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Vec<Having>, D::Error> {
        Ok(match OneOrMore::deserialize(input)? {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        })
    }
}

/// What the keys of a mapping are. Keys of objects are `namespace/name`, or `name` if cluster-scoped; mappings across kinds
/// make [references](crate::Reference).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum To {
    /// The object itself.
    Itself,
    /// Its controller owner, if that is of this kind and in the cache under the same UID.
    Controller {
        /// The owner's kind; its version does not matter.
        kind: Kind,
    },
    /// Each owner of this kind, the controller or not.
    Owner {
        /// The owners' kind; its version does not matter.
        kind: Kind,
    },
    /// The object that a field names.
    Named {
        /// A field path to a string or to strings.
        path: String,
        /// Whether the named object is in this object's namespace; else the key is the bare name.
        namespaced: bool,
    },
    /// Every object of a kind, in this object's namespace, whose selector matches this object's labels.
    Selecting {
        /// The kind of the selecting objects; the plugin must watch it.
        kind: Kind,
        /// Where their selector is: a LabelSelector or a map of labels.
        path: String,
        /// Only those with these values in these fields, as they are when this object changes.
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_more")]
        whose: Vec<Having>,
    },
    /// Every object of a kind in this object's namespace.
    InNamespace {
        /// The kind; the plugin must watch it.
        kind: Kind,
    },
    /// Every object of a kind.
    All {
        /// The kind; the plugin must watch it.
        kind: Kind,
    },
    /// The object's namespace, as a key.
    Namespace,
    /// One key, whatever the object.
    Constant {
        /// The key.
        key: String,
    },
    /// A reference to the object itself.
    Reference,
    /// References to all objects, of any kind that the plugin watches, that name this one as an owner by its UID.
    Dependents,
    /// References to its owners, as it names them: an owner may not exist, or lie elsewhere.
    OwnerReferences {
        /// Which of them.
        which: Owners,
    },
    /// What the guest's `route` says.
    Route,
}

/// Some of an object's owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owners {
    /// Those that the caches don't hold as they are named (by UID, group, kind, namespace and name), while the object itself
    /// is not being deleted.
    Missing,
    /// Those that the caches hold, under that UID, and that are being deleted.
    Deleting,
}

/// An index over objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The name under which `lister` finds it.
    pub name: String,
    /// The kind; the plugin must watch it.
    pub kind: Kind,
    /// A field path to a string or to strings.
    pub path: String,
}

/// A workqueue. The defaults are client-go's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queue {
    /// Its name, also in metrics.
    pub name: String,
    /// The delay after a key's first failure; doubled with each one more.
    pub base_delay_ms: u32,
    /// The greatest delay.
    pub max_delay_ms: u32,
    /// Retries of all keys together: as many in a second; 0 for no such limit.
    pub qps: f64,
    /// Retries of all keys together: as many at once.
    pub burst: u32,
    /// How often a key is retried before it is forgotten until something changes; without end, if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            name: String::new(),
            base_delay_ms: 5,
            max_delay_ms: 1_000_000,
            qps: 10.0,
            burst: 100,
            max_retries: None,
        }
    }
}

/// A key that is enqueued at a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticker {
    /// The key.
    pub key: String,
    /// The queue; the first one, if empty.
    #[serde(default)]
    pub queue: String,
    /// The time between two ticks.
    pub period_ms: u32,
    /// A key of `config` whose value, a duration such as `10s`, goes before `period_ms`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
}

/// What a plugin wants to be allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// The kind, or `*` for all.
    pub kind: KindPattern,
    /// A subresource, or empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The API's verbs: `get` and `list` (live, by `reader`), `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: BTreeSet<String>,
}

/// A key of `config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigKey {
    /// The value where the operator gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What it does, in which unit.
    pub help: String,
}

/// A metric of the plugin's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Its whole name, as Prometheus shows it.
    pub name: String,
    /// What it counts, in which unit.
    pub help: String,
    /// The names of its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// What it is.
    #[serde(rename = "type")]
    pub metric_type: MetricType,
}

/// What a metric is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations into buckets with these upper bounds.
    Histogram(Vec<f64>),
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
