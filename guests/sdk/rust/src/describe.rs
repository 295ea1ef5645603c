//! Builders for the result of `describe`.
//!
//! A description has watches; a watch has mappings, which turn a change of an object into the keys
//! to enqueue.
//!
//! ```
//! use flyball_sdk::prelude::*;
//!
//! #[derive(View, Debug, Default)]
//! #[view(kind = "apps/v1/ReplicaSet")]
//! struct ReplicaSet {
//!     #[view(path = "metadata")]
//!     meta: Meta,
//!     #[view(path = "spec.replicas")]
//!     replicas: i32,
//! }
//!
//! #[derive(View, Debug, Default)]
//! #[view(kind = "v1/Pod")]
//! struct Pod {
//!     #[view(path = "metadata", fields("labels", "ownerReferences"))]
//!     meta: Meta,
//! }
//!
//! let description = describe("replicaset-controller", "1.0.0")
//!     .watch(watch::<ReplicaSet>().enqueue(Mapping::itself()))
//!     .watch(
//!         watch::<Pod>()
//!             .enqueue(Mapping::controller(ReplicaSet::KIND))
//!             .enqueue(Mapping::selecting(ReplicaSet::KIND, "spec.selector").orphans()),
//!     )
//!     .queue("replicaset")
//!     .permission("v1/Pod", ["create", "delete", "patch"])
//!     .permission_on("apps/v1/ReplicaSet", "status", ["update"])
//!     .concurrency(5);
//! assert_eq!(description.watches[1].map.len(), 2);
//! ```
//!
//! Panics if a kind does not have the form `apps/v1/ReplicaSet`, so that the first test that calls
//! `describe` fails.

use std::ops::Deref;
use std::time::Duration;

pub use flyball_types::description::{
    Change, ConfigKey, DeltaType, Index, Metric, MetricType, Owners, Permission, Queue, Ticker,
};
use flyball_types::description::{Description as Document, FORMAT};
use serde::Serialize;

use crate::host::Host;
use crate::time::millis;
use crate::view::View;

mod kinds;
mod mapping;
mod watch;

use kinds::{kind, pattern};

pub use mapping::Mapping;
pub use watch::{Discovered, Watch, watch, watch_discovered, watch_kind};

/// The document that `describe` returns, and its builder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Description(Document);

/// Starts a description. `name` is the controller's canonical name: lower-case letters, digits and
/// dashes.
pub fn describe(name: &str, version: &str) -> Description {
    Description(Document {
        format: FORMAT,
        name: name.into(),
        version: version.into(),
        concurrency: 1,
        ..Document::default()
    })
}

/// A queue with client-go's defaults.
pub fn queue(name: &str) -> Queue {
    Queue {
        name: name.into(),
        ..Queue::default()
    }
}

/// The document, for tests and for the host.
impl Deref for Description {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.0
    }
}

impl From<Description> for Document {
    fn from(description: Description) -> Self {
        description.0
    }
}

impl From<Document> for Description {
    fn from(document: Document) -> Self {
        Self(document)
    }
}

impl Description {
    /// Adds a watch.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.0.watches.push(watch.into());
        self
    }

    /// Adds a queue with client-go's defaults. The first queue is the primary one.
    #[must_use]
    pub fn queue(self, name: &str) -> Self {
        self.queue_with(queue(name))
    }

    /// Adds a queue with other settings.
    #[must_use]
    pub fn queue_with(mut self, queue: Queue) -> Self {
        self.0.queues.push(queue);
        self
    }

    /// Adds an index of a watched kind by the value of a field.
    #[must_use]
    pub fn index(mut self, name: &str, kind_name: &str, path: &str) -> Self {
        self.0.indexes.push(Index {
            name: name.into(),
            kind: kind(kind_name),
            path: path.into(),
        });
        self
    }

    /// Adds a key that is enqueued periodically in the primary queue.
    #[must_use]
    pub fn ticker(self, key: &str, period: Duration) -> Self {
        self.ticker_with(Ticker {
            key: key.into(),
            queue: String::new(),
            period_ms: millis(period),
            config: String::new(),
        })
    }

    /// Adds a key that is enqueued periodically, in another queue or with a configurable period.
    #[must_use]
    pub fn ticker_with(mut self, ticker: Ticker) -> Self {
        self.0.tickers.push(ticker);
        self
    }

    /// Requests verbs on a kind; `*` means all kinds.
    #[must_use]
    pub fn permission<'v>(self, kind: &str, verbs: impl IntoIterator<Item = &'v str>) -> Self {
        self.permission_on(kind, "", verbs)
    }

    /// Requests verbs on a subresource of a kind; `*` means all kinds.
    #[must_use]
    pub fn permission_on<'v>(
        mut self,
        kind_name: &str,
        subresource: &str,
        verbs: impl IntoIterator<Item = &'v str>,
    ) -> Self {
        let mut permission = Permission {
            kind: pattern(kind_name),
            subresource: subresource.into(),
            verbs: Default::default(),
            namespaces: Default::default(),
        };
        // Inserted one by one: `collect` would add a sorting algorithm to every guest.
        for verb in verbs {
            permission.verbs.insert(verb.into());
        }
        self.0.permissions.push(permission);
        self
    }

    /// Restricts the permission that was requested last to these namespaces.
    ///
    /// # Panics
    /// No permission was requested before.
    #[must_use]
    pub fn in_namespaces<'v>(mut self, namespaces: impl IntoIterator<Item = &'v str>) -> Self {
        let permission = self.0.permissions.last_mut();
        let permission = permission.expect("`in_namespaces` follows a permission");
        for namespace in namespaces {
            permission.namespaces.insert(namespace.into());
        }
        self
    }

    /// Requests an import that needs a grant: `cloud`, `discovery`, `signer`, `raw`.
    #[must_use]
    pub fn import(mut self, name: &str) -> Self {
        self.0.imports.insert(name.into());
        self
    }

    /// Declares a configuration key with its default and help text.
    #[must_use]
    pub fn config(mut self, key: &str, default: Option<&str>, help: &str) -> Self {
        self.0.config.insert(
            key.into(),
            ConfigKey {
                default: default.map(str::to_owned),
                help: help.into(),
            },
        );
        self
    }

    /// Declares a feature gate of Kubernetes that the controller reads with
    /// [`Host::feature_enabled`](crate::Host::feature_enabled), with its default. It is the configuration key
    /// `feature-gates.NAME`; for built-in controllers the flag `--feature-gates` sets it.
    #[must_use]
    pub fn feature_gate(self, name: &str, default: bool) -> Self {
        let (key, default) = (feature_gate_key(name), default.to_string());
        self.config(
            &key,
            Some(&default),
            "A feature gate of Kubernetes: true or false.",
        )
    }

    /// Declares that the controller reads the emulated release of Kubernetes with
    /// [`Host::release_at_least`](crate::Host::release_at_least). It is the configuration key `emulated-version`; for
    /// built-in controllers the flag `--emulated-version` sets it.
    #[must_use]
    pub fn emulated_version(self) -> Self {
        self.config(
            EMULATED_VERSION,
            None,
            "The release of Kubernetes whose behaviour is emulated, such as 1.36.",
        )
    }

    /// Replaces the kind of a view with the [kind of the emulated release](Host::kind), in the watches, the indexes and the
    /// permissions. For `describe_configured`. Declares [`emulated_version`](Self::emulated_version).
    #[must_use]
    pub fn kind_of_release<T: View>(mut self, host: &Host) -> Self {
        let emulated = host.kind::<T>();
        if emulated != T::KIND {
            let (current, emulated) = (kind(T::KIND), kind(emulated));
            let watches = self.0.watches.iter_mut();
            let watched = watches.filter_map(|watch| watch.kind.as_mut());
            let indexed = self.0.indexes.iter_mut().map(|index| &mut index.kind);
            for kind in watched.chain(indexed).filter(|kind| **kind == current) {
                *kind = emulated.clone();
            }
            let (current, emulated) = (pattern(T::KIND), pattern(host.kind::<T>()));
            let permitted = self.0.permissions.iter_mut();
            for permission in permitted.filter(|permission| permission.kind == current) {
                permission.kind = emulated.clone();
            }
        }
        self.emulated_version()
    }

    /// Declares a metric.
    #[must_use]
    pub fn metric(
        mut self,
        metric_type: MetricType,
        name: &str,
        labels: &[&str],
        help: &str,
    ) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.0.metrics.push(Metric {
            name: name.into(),
            help: help.into(),
            labels,
            metric_type,
        });
        self
    }

    /// Sets how many keys are reconciled concurrently; 1 by default.
    #[must_use]
    pub fn concurrency(mut self, keys: u32) -> Self {
        self.0.concurrency = keys;
        self
    }

    /// Sets `source.component` of the plugin's events; its name by default.
    #[must_use]
    pub fn event_source(mut self, component: &str) -> Self {
        self.0.event_source = component.into();
        self
    }

    /// Asks for an event about each object that does not fit a view, once.
    ///
    /// The event has the type `Warning` and the reason `MalformedObject`. It names the field, its value and the
    /// expected type.
    #[must_use]
    pub fn malformed_events(mut self) -> Self {
        self.0.malformed_events = true;
        self
    }

    /// Sets the schema of the memo. A reload with another schema empties the memo.
    #[must_use]
    pub fn memo_schema(mut self, schema: u32) -> Self {
        self.0.memo_schema = schema;
        self
    }
}

/// The configuration key that holds the emulated release.
pub(crate) const EMULATED_VERSION: &str = "emulated-version";

/// The configuration key that holds the value of a feature gate.
pub(crate) fn feature_gate_key(name: &str) -> String {
    format!("feature-gates.{name}")
}
