//! Builders for what `describe` returns.
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
//!     .watch(watch::<ReplicaSet>().itself())
//!     .watch(watch::<Pod>().to_controller(ReplicaSet::KIND).selecting(ReplicaSet::KIND, "spec.selector").orphans())
//!     .queue("replicaset")
//!     .allow("v1/Pod", ["create", "delete", "patch"])
//!     .allow_on("apps/v1/ReplicaSet", "status", ["update"])
//!     .concurrency(5);
//! assert_eq!(description.watches[1].map.len(), 2);
//! ```

use std::time::Duration;

pub use flyball_types::description::{
    Change, ConfigKey, DeltaType, Description, Discovered, FORMAT, Having, Index, Mapping, Metric,
    MetricType, Owners, Permission, Queue, Ticker, To, Watch,
};
use flyball_types::{Kind, KindPattern};

use crate::host::millis;
use crate::view::View;

/// A description to be filled. `name` is the controller's canonical name: lower-case letters, digits and dashes.
pub fn describe(name: &str, version: &str) -> Description {
    Description {
        format: FORMAT,
        name: name.into(),
        version: version.into(),
        concurrency: 1,
        ..Description::default()
    }
}

/// A watch of a view's kind that declares the view's fields.
pub fn watch<T: View>() -> Watch {
    watch_kind(T::KIND).and_view::<T>()
}

/// A watch of a kind that declares no field.
pub fn watch_kind(kind_name: &str) -> Watch {
    Watch {
        kind: Some(kind(kind_name)),
        ..Watch::default()
    }
}

/// A watch of whatever the API server serves, to be narrowed by [`can`](WatchExt::can) and [`except`](WatchExt::except). It
/// keeps metadata alone, and declares no field.
pub fn watch_discovered(period: Duration) -> Watch {
    let discovered = Discovered {
        period_ms: millis(period),
        ..Discovered::default()
    };
    Watch {
        discovered: Some(discovered),
        ..Watch::default()
    }
}

/// A queue with client-go's defaults.
pub fn queue(name: &str) -> Queue {
    Queue {
        name: name.into(),
        ..Queue::default()
    }
}

/// Builds a [`Description`].
pub trait DescriptionExt: Sized {
    /// Adds a watch.
    fn watch(self, watch: Watch) -> Self;
    /// Adds a queue with client-go's defaults. The first one is the primary one.
    fn queue(self, name: &str) -> Self;
    /// Adds a queue.
    fn queue_with(self, queue: Queue) -> Self;
    /// Adds an index of a watched kind over a field.
    fn index(self, name: &str, kind: &str, path: &str) -> Self;
    /// Adds a key that is put into the primary queue at a period.
    fn ticker(self, key: &str, period: Duration) -> Self;
    /// Asks for verbs on a kind; `*` for all kinds.
    fn allow<'v>(self, kind: &str, verbs: impl IntoIterator<Item = &'v str>) -> Self;
    /// Asks for verbs on a subresource of a kind, or of all.
    fn allow_on<'v>(
        self,
        kind: &str,
        subresource: &str,
        verbs: impl IntoIterator<Item = &'v str>,
    ) -> Self;
    /// Asks for an import that needs a grant: `discovery`, `signer`, `raw`.
    fn import(self, name: &str) -> Self;
    /// Declares a key of the configuration and its default.
    fn config(self, key: &str, default: Option<&str>, help: &str) -> Self;
    /// Declares a metric.
    fn metric(self, metric_type: MetricType, name: &str, labels: &[&str], help: &str) -> Self;
    /// How many keys are reconciled at once.
    fn concurrency(self, keys: u32) -> Self;
    /// What `source.component` of the events says.
    fn event_source(self, component: &str) -> Self;
    /// The schema of the memo.
    fn memo_schema(self, schema: u32) -> Self;
}

impl DescriptionExt for Description {
    fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    fn queue(self, name: &str) -> Self {
        self.queue_with(queue(name))
    }

    fn queue_with(mut self, queue: Queue) -> Self {
        self.queues.push(queue);
        self
    }

    fn index(mut self, name: &str, kind_name: &str, path: &str) -> Self {
        self.indexes.push(Index {
            name: name.into(),
            kind: kind(kind_name),
            path: path.into(),
        });
        self
    }

    fn ticker(mut self, key: &str, period: Duration) -> Self {
        let ticker = Ticker {
            key: key.into(),
            queue: String::new(),
            period_ms: millis(period),
            config: String::new(),
        };
        self.tickers.push(ticker);
        self
    }

    fn allow<'v>(self, kind: &str, verbs: impl IntoIterator<Item = &'v str>) -> Self {
        self.allow_on(kind, "", verbs)
    }

    fn allow_on<'v>(
        mut self,
        kind_name: &str,
        subresource: &str,
        verbs: impl IntoIterator<Item = &'v str>,
    ) -> Self {
        let mut permission = Permission {
            kind: pattern(kind_name),
            subresource: subresource.into(),
            verbs: Default::default(),
        };
        // Not collected: that would bring a sorting algorithm into every guest.
        for verb in verbs {
            permission.verbs.insert(verb.into());
        }
        self.permissions.push(permission);
        self
    }

    fn import(mut self, name: &str) -> Self {
        self.imports.insert(name.into());
        self
    }

    fn config(mut self, key: &str, default: Option<&str>, help: &str) -> Self {
        self.config.insert(
            key.into(),
            ConfigKey {
                default: default.map(str::to_owned),
                help: help.into(),
            },
        );
        self
    }

    fn metric(mut self, metric_type: MetricType, name: &str, labels: &[&str], help: &str) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.metrics.push(Metric {
            name: name.into(),
            help: help.into(),
            labels,
            metric_type,
        });
        self
    }

    fn concurrency(mut self, keys: u32) -> Self {
        self.concurrency = keys;
        self
    }

    fn event_source(mut self, component: &str) -> Self {
        self.event_source = component.into();
        self
    }

    fn memo_schema(mut self, schema: u32) -> Self {
        self.memo_schema = schema;
        self
    }
}

/// Builds a [`Watch`]: first what it is of, then its mappings. `orphans`, `deleting`, `on`, `having`, `whose`, `to_queue`
/// and `after` are about the mapping that was added last.
pub trait WatchExt: Sized {
    /// Declares the fields of another view of the same kind as well.
    fn and_view<T: View>(self) -> Self;
    /// Declares these fields as well.
    fn fields(self, paths: &[&str]) -> Self;
    /// Only this namespace.
    fn within(self, namespace: &str) -> Self;
    /// Only objects whose labels match.
    fn labelled(self, selector: &str) -> Self;
    /// Only objects whose fields match, as in `metadata.name=kube-root-ca.crt`.
    fn fields_match(self, selector: &str) -> Self;
    /// Metadata alone will do.
    fn metadata_only(self) -> Self;
    /// Only modifications of this kind count; each call adds one.
    fn when(self, change: Change) -> Self;
    /// Of discovered kinds only those with all of these verbs.
    fn can(self, verbs: &[&str]) -> Self;
    /// Of discovered kinds all but these.
    fn except(self, kinds: &[&str]) -> Self;
    /// The period of discovery is the value of this key of the configuration, where it has one.
    fn every_config(self, key: &str) -> Self;
    /// Failures of discovery raise this counter of the plugin's own.
    fn errors_to(self, counter: &str) -> Self;

    /// Adds a mapping.
    fn map(self, to: To) -> Self;
    /// The key is the object.
    fn itself(self) -> Self {
        self.map(To::Itself)
    }
    /// The key is the controller owner, if it is of this kind.
    fn to_controller(self, kind_name: &str) -> Self {
        self.map(To::Controller {
            kind: kind(kind_name),
        })
    }
    /// The keys are the owners of this kind.
    fn to_owners(self, kind_name: &str) -> Self {
        self.map(To::Owner {
            kind: kind(kind_name),
        })
    }
    /// The keys are the names at this path, each in the object's namespace.
    fn named(self, path: &str) -> Self {
        self.map(To::Named {
            path: path.into(),
            namespaced: true,
        })
    }
    /// The keys are the names at this path, of cluster-scoped objects.
    fn named_in_cluster(self, path: &str) -> Self {
        self.map(To::Named {
            path: path.into(),
            namespaced: false,
        })
    }
    /// The keys are the objects of this kind, in the object's namespace, whose selector (at `path`) matches its labels.
    fn selecting(self, kind_name: &str, path: &str) -> Self {
        self.map(To::Selecting {
            kind: kind(kind_name),
            path: path.into(),
            whose: Vec::new(),
        })
    }
    /// The last mapping, which is [`selecting`](Self::selecting), yields only objects with this value in this field, as they
    /// are when the watched object changes. Each call adds one.
    fn whose(self, path: &str, value: &str) -> Self;
    /// The keys are all objects of this kind in the object's namespace.
    fn in_namespace(self, kind_name: &str) -> Self {
        self.map(To::InNamespace {
            kind: kind(kind_name),
        })
    }
    /// The keys are all objects of this kind.
    fn all_of(self, kind_name: &str) -> Self {
        self.map(To::All {
            kind: kind(kind_name),
        })
    }
    /// The key is the object's namespace.
    fn to_namespace(self) -> Self {
        self.map(To::Namespace)
    }
    /// The key is always this one.
    fn to_key(self, key: &str) -> Self {
        self.map(To::Constant { key: key.into() })
    }
    /// The key is a [`Reference`](crate::Reference) to the object.
    fn reference(self) -> Self {
        self.map(To::Reference)
    }
    /// The keys are references to all objects, of any watched kind, that name this one as an owner.
    fn dependents(self) -> Self {
        self.map(To::Dependents)
    }
    /// The keys are references to some of its owners, as it names them.
    fn owner_references(self, which: Owners) -> Self {
        self.map(To::OwnerReferences { which })
    }
    /// The keys are what [`Controller::route`](crate::Controller::route) says.
    fn to_route(self) -> Self {
        self.map(To::Route)
    }

    /// The last mapping is only for objects without a controller.
    fn orphans(self) -> Self;
    /// The last mapping is only for objects that are being deleted.
    fn deleting(self) -> Self;
    /// The last mapping is only for these types of delta.
    fn on(self, types: &[DeltaType]) -> Self;
    /// The last mapping is only for objects with this value in this field, or among its strings. Each call adds one.
    fn having(self, path: &str, value: &str) -> Self;
    /// The last mapping goes to this queue.
    fn to_queue(self, name: &str) -> Self;
    /// The last mapping enqueues after this time.
    fn after(self, delay: Duration) -> Self;
}

impl WatchExt for Watch {
    fn and_view<T: View>(self) -> Self {
        assert_eq!(
            self.kind,
            Some(kind(T::KIND)),
            "the view is of another kind"
        );
        self.fields(T::FIELDS)
    }

    fn fields(mut self, paths: &[&str]) -> Self {
        for &path in paths {
            if !self.fields.iter().any(|known| known == path) {
                self.fields.push(path.into());
            }
        }
        self
    }

    fn within(mut self, namespace: &str) -> Self {
        self.namespace = namespace.into();
        self
    }

    fn labelled(mut self, selector: &str) -> Self {
        self.label_selector = selector.into();
        self
    }

    fn fields_match(mut self, selector: &str) -> Self {
        self.field_selector = selector.into();
        self
    }

    fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    fn when(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    fn can(mut self, verbs: &[&str]) -> Self {
        for &verb in verbs {
            discovered(&mut self).verbs.insert(verb.into());
        }
        self
    }

    fn except(mut self, kinds: &[&str]) -> Self {
        discovered(&mut self).except = kinds.iter().map(|name| kind(name)).collect();
        self
    }

    fn every_config(mut self, key: &str) -> Self {
        discovered(&mut self).config = key.into();
        self
    }

    fn errors_to(mut self, counter: &str) -> Self {
        discovered(&mut self).errors = counter.into();
        self
    }

    fn map(mut self, to: To) -> Self {
        let (on, queue) = (Vec::new(), String::new());
        self.map.push(Mapping {
            to,
            on,
            queue,
            delay_ms: 0,
            orphans: false,
            deleting: false,
            having: Vec::new(),
        });
        self
    }

    fn orphans(mut self) -> Self {
        last(&mut self).orphans = true;
        self
    }

    fn deleting(mut self) -> Self {
        last(&mut self).deleting = true;
        self
    }

    fn on(mut self, types: &[DeltaType]) -> Self {
        last(&mut self).on = types.to_vec();
        self
    }

    fn having(mut self, path: &str, value: &str) -> Self {
        last(&mut self).having.push(Having {
            path: path.into(),
            value: value.into(),
        });
        self
    }

    fn whose(mut self, path: &str, value: &str) -> Self {
        let To::Selecting { whose, .. } = &mut last(&mut self).to else {
            panic!("`whose` is about `selecting` alone")
        };
        whose.push(Having {
            path: path.into(),
            value: value.into(),
        });
        self
    }

    fn to_queue(mut self, name: &str) -> Self {
        last(&mut self).queue = name.into();
        self
    }

    fn after(mut self, delay: Duration) -> Self {
        last(&mut self).delay_ms = millis(delay);
        self
    }
}

fn last(watch: &mut Watch) -> &mut Mapping {
    watch
        .map
        .last_mut()
        .expect("a mapping comes before what is said of it")
}

fn discovered(watch: &mut Watch) -> &mut Discovered {
    watch
        .discovered
        .as_mut()
        .expect("the watch is one of discovered kinds")
}

/// A kind by its name. A wrong one is a mistake in the guest's source, found by the first test that calls `describe`.
fn kind(name: &str) -> Kind {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// As [`kind`], of a pattern.
fn pattern(text: &str) -> KindPattern {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
