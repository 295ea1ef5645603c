//! Descriptions of plugins: the JSON document that `describe` returns, and its checks.
//!
//! A field that the host does not know is refused, with the name that may have been meant. A `format` above [`FORMAT`]
//! is refused first, because a newer format may have other fields.
//!
//! `wit/describe.schema.json` is generated from these types and their comments: see `schema.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Kind, KindPattern};

mod check;
mod mapping;
mod paths;
#[cfg(feature = "host")]
mod read;
#[cfg(test)]
mod schema;

pub use check::{DescriptionError, MAX_KEY};
pub use paths::WatchedPaths;

/// The newest format of the document that this host reads.
pub const FORMAT: u32 = 1;

/// The verbs of the API, in the order in which people write them.
pub const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// The imports that need a grant; `cloud` stands for calls of a cloud, and `raw` for live GETs of arbitrary paths.
pub const IMPORTS: [&str; 4] = ["cloud", "discovery", "raw", "signer"];

/// The description of a plugin: the document that `describe` returns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Description {
    /// Version of the document's format.
    #[cfg_attr(test, schemars(range(min = 1, max = 1)))]
    pub format: u32,
    /// Name of the plugin: a DNS label.
    #[cfg_attr(
        test,
        schemars(length(max = 63), pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
    )]
    pub name: String,
    /// Version of the plugin, for people.
    #[serde(default)]
    pub version: String,
    /// Kinds that the plugin reads, and how their changes become keys.
    #[serde(default)]
    pub watches: Vec<Watch>,
    /// Indexes over watched kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// Workqueues. The first one is the primary queue: after a reload each of its keys is enqueued again.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub queues: Vec<Queue>,
    /// Keys that are enqueued periodically.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tickers: Vec<Ticker>,
    /// Permissions that the plugin needs beyond reading the kinds that it watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// Imports that need a grant: `cloud` for calls of a cloud, `discovery`, `signer`, and `raw` for live GETs of
    /// arbitrary paths.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeSet<schema::Import>"))]
    pub imports: BTreeSet<String>,
    /// Configuration keys and their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, ConfigKey>,
    /// Metrics of the plugin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Default number of keys that are reconciled at once; 0 means 1. The operator may set another.
    #[serde(default)]
    pub concurrency: u32,
    /// Value of `source.component` in a built-in's events; empty for the plugin's name. The events of other plugins
    /// always have the plugin's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event_source: String,
    /// Asks for an event about each object that does not fit what the plugin reads. The plugin's SDK emits it, once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub malformed_events: bool,
    /// Version of the memo's schema. A reload with another version empties the memo.
    #[serde(default)]
    pub memo_schema: u32,
}

/// A kind that the plugin reads, and how its changes become keys. It names one kind, or discovers kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("oneOf" = [{"required": ["kind"]}, {"required": ["discovered"]}])))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Watch {
    /// The watched kind, such as `apps/v1/ReplicaSet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Kind"))]
    pub kind: Option<Kind>,
    /// Watches the kinds that the API server serves, instead of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Discovered"))]
    pub discovered: Option<Discovered>,
    /// Restricts the watch to this namespace; empty for all namespaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Restricts the watch to objects whose labels match this selector.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// Restricts the watch to objects whose fields match this selector, such as `metadata.name=kube-root-ca.crt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Watches only the metadata of the objects.
    #[serde(skip_serializing_if = "is_false")]
    pub metadata_only: bool,
    /// Paths of the fields that the plugin reads; `.` for all fields except `metadata.managedFields`. Name, namespace,
    /// UID and resource version are always included.
    pub fields: Vec<String>,
    /// Updates that are routed; empty for all. An update is routed if one of these predicates holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The mappings from changes to keys; empty if the kind is only read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<Mapping>,
}

/// Every kind that the API server serves in its preferred version. Kinds are followed as they are added and removed.
/// The cache keeps only the metadata of their objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Discovered {
    /// Restricts the watch to kinds that support all of these verbs, in addition to `list` and `watch`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeSet<schema::Verb>"))]
    pub verbs: BTreeSet<String>,
    /// Kinds that are left out, in any version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Kind>,
    /// Time between two discovery requests, in milliseconds.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub period_ms: u32,
    /// Configuration key whose value, a duration such as `10s`, takes precedence over `periodMs`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// A counter among `metrics`. It counts failed discovery requests and kinds that can't be listed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub errors: String,
}

/// A predicate on updates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// `metadata.generation` differs.
    Generation,
    /// `metadata.labels` differ.
    Labels,
    /// The value at this field path differs.
    Path(String),
}

/// The type of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum DeltaType {
    /// The object was added to the cache.
    Added,
    /// The object was updated.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// A mapping from a delta to keys. The mapping is applied to the old and to the new object, and the union is enqueued.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// The keys that are enqueued.
    #[serde(flatten)]
    pub to: To,
    /// Restricts the mapping to these types of delta; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<DeltaType>,
    /// The queue; empty for the first one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Delay before the keys are enqueued, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u32,
    /// Restricts the mapping to objects without a controller owner.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orphans: bool,
    /// Restricts the mapping to objects with a deletion timestamp.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// Restricts the mapping to objects with these values in these fields.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "mapping::one_or_more"
    )]
    #[cfg_attr(test, schemars(with = "schema::OneOrMore"))]
    pub having: Vec<Having>,
    /// Restricts the mapping to objects with a string in at least one of these fields; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub having_any: Vec<String>,
    /// Skips deltas whose newest version has one of these values: objects that need no more reconciles. (All other
    /// conditions hold for a modification if one version meets them.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<Unless>,
    /// Restricts the mapping to objects in whose namespace the cache holds an object of at least one of these kinds;
    /// empty for all. For a cluster-scoped object, all namespaces count. The plugin must watch the kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub while_any: Vec<Kind>,
}

/// A value that a field must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Having {
    /// Path of a string, or of a list of strings that must contain the value.
    pub path: String,
    /// The required value.
    pub value: String,
}

/// A value that a field must not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Unless {
    /// Path of a string, or of a list of strings.
    pub path: String,
    /// The value; any string if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The keys that a mapping enqueues. Keys of objects are `namespace/name`, or `name` if the object is cluster-scoped;
/// mappings across kinds enqueue [references](crate::Reference).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "to", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum To {
    /// The object itself.
    Itself,
    /// The object's controller owner, if it is of this kind and the cache holds it under the same UID.
    Controller {
        /// Kind of the owner, in any version.
        kind: Kind,
    },
    /// Each owner of this kind, whether it is the controller or not.
    Owner {
        /// Kind of the owners, in any version.
        kind: Kind,
    },
    /// The object that a field names.
    Named {
        /// Path of a string or of a list of strings.
        path: String,
        /// Whether the named object is in the namespace of this object. If not, the key is the bare name.
        namespaced: bool,
        /// Kind of the named object, which `whose` and `missing` need. The plugin must watch it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Kind"))]
        kind: Option<Kind>,
        /// Restricts the mapping to named objects that the cache holds with these values in these fields.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            serialize_with = "mapping::one_or_more"
        )]
        #[cfg_attr(test, schemars(with = "schema::OneOrMore"))]
        whose: Vec<Having>,
        /// Restricts the mapping to names that no object of the kind has in the cache.
        #[serde(default, skip_serializing_if = "is_false")]
        missing: bool,
    },
    /// Every object of a kind, in this object's namespace, whose selector matches this object's labels.
    Selecting {
        /// Kind of the selecting objects. The plugin must watch it.
        kind: Kind,
        /// Path of their selector: a LabelSelector or a map of labels.
        path: String,
        /// Restricts the mapping to selecting objects with these values in these fields.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            serialize_with = "mapping::one_or_more"
        )]
        #[cfg_attr(test, schemars(with = "schema::OneOrMore"))]
        whose: Vec<Having>,
    },
    /// Every object of a kind in this object's namespace.
    InNamespace {
        /// Kind of the objects. The plugin must watch it.
        kind: Kind,
    },
    /// Every object of a kind.
    All {
        /// Kind of the objects. The plugin must watch it.
        kind: Kind,
    },
    /// The name of the object's namespace.
    Namespace,
    /// A constant key.
    Constant {
        /// The key.
        key: String,
    },
    /// A reference to the object itself, such as `apps/v1/ReplicaSet/namespace/name/uid`. In its parts, `~1` stands for
    /// `/` and `~0` for `~`.
    Reference,
    /// References to the objects, of every kind that the plugin watches, that name this one as an owner by its UID.
    Dependents,
    /// References to the owners that the object names. Such an owner may not exist.
    OwnerReferences {
        /// Selects the owners.
        which: Owners,
    },
    /// The keys that the guest's `route` returns.
    Route,
}

/// Selects owners of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Owners {
    /// Owners that no cache holds under the UID, group, kind, namespace and name of the reference. None if the object
    /// itself has a deletion timestamp.
    Missing,
    /// Owners that a cache holds under the UID of the reference and that have a deletion timestamp.
    Deleting,
}

/// An index over the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// Name of the index in queries.
    pub name: String,
    /// Kind of the objects. The plugin must watch it.
    pub kind: Kind,
    /// Path of a string or of a list of strings.
    pub path: String,
}

/// A workqueue. The defaults are client-go's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("required" = ["name"])))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Queue {
    /// Name of the queue, also in metrics.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub name: String,
    /// Backoff after the first failure of a key, in milliseconds. Each further failure doubles it.
    pub base_delay_ms: u32,
    /// Greatest backoff, in milliseconds.
    pub max_delay_ms: u32,
    /// Retries per second of all keys together; 0 for no limit.
    #[cfg_attr(test, schemars(range(min = 0.0)))]
    pub qps: f64,
    /// Retries of all keys together that may happen at once.
    pub burst: u32,
    /// Retries of a key before it is dropped until something changes. Without it, a key is retried forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u32"))]
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

/// A key that is enqueued periodically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ticker {
    /// The key.
    pub key: String,
    /// The queue; empty for the first one.
    #[serde(default)]
    pub queue: String,
    /// Time between two ticks, in milliseconds. Less than 100 counts as 100.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub period_ms: u32,
    /// Configuration key whose value, a duration such as `10s`, takes precedence over `periodMs`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
}

/// Verbs on a kind that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permission {
    /// The kind, or `*` for all kinds.
    pub kind: KindPattern,
    /// A subresource such as `status`; empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Verbs of the API, or `*` for all of them. `get` and `list` are live reads.
    #[cfg_attr(test, schemars(with = "BTreeSet<schema::VerbOrAll>"))]
    pub verbs: BTreeSet<String>,
    /// Namespaces that the plugin asks for; empty for all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub namespaces: BTreeSet<String>,
}

/// A configuration key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConfigKey {
    /// Value that applies if the operator sets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub default: Option<String>,
    /// Meaning of the value, and its unit.
    pub help: String,
}

/// A metric of the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    /// Full name of the metric, as Prometheus shows it.
    pub name: String,
    /// Meaning of the value, and its unit.
    pub help: String,
    /// Names of the labels.
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(rename = "type")]
    pub metric_type: MetricType,
}

/// The type of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum MetricType {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// A gauge that shows the sum of the last values of all keys. In a reconcile, `set` replaces the part of its key in
    /// the series; 0 removes the part.
    Sum,
    /// Counts of observations in buckets with these upper bounds.
    Histogram(Vec<f64>),
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
