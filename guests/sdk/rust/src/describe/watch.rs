//! Watches: the kinds that a plugin reads, and the keys that their changes enqueue.

use std::time::Duration;

use flyball_types::description::{Change, Discovered as DiscoveredDocument, Watch as Document};

use super::kinds::kind;
use super::mapping::Mapping;
use crate::time::millis;
use crate::view::View;

/// A kind that a plugin reads. Without a [mapping](Self::enqueue), its changes enqueue nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch(Document);

/// A watch of a view's kind with the view's fields.
pub fn watch<T: View>() -> Watch {
    watch_kind(T::KIND).fields(T::FIELDS)
}

/// A watch of a kind without fields.
pub fn watch_kind(kind_name: &str) -> Watch {
    Watch(Document {
        kind: Some(kind(kind_name)),
        ..Document::default()
    })
}

/// A watch of many kinds. It caches only metadata and declares no fields.
pub fn watch_discovered(kinds: Discovered) -> Watch {
    Watch(Document {
        discovered: Some(kinds.0),
        ..Document::default()
    })
}

/// The objects and fields that are watched.
impl Watch {
    /// Adds the fields of another view of the same kind.
    ///
    /// # Panics
    /// If the view has another kind.
    #[must_use]
    pub fn and_view<T: View>(self) -> Self {
        let own = self.0.kind.as_ref();
        assert_eq!(own, Some(&kind(T::KIND)), "the view has another kind");
        self.fields(T::FIELDS)
    }

    /// Adds fields; `.` means the whole object.
    #[must_use]
    pub fn fields(mut self, paths: &[&str]) -> Self {
        for &path in paths {
            if !self.0.fields.iter().any(|known| known == path) {
                self.0.fields.push(path.into());
            }
        }
        self
    }

    /// Watches only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.namespace = namespace.into();
        self
    }

    /// Watches only objects whose labels match.
    #[must_use]
    pub fn label_selector(mut self, selector: &str) -> Self {
        self.0.label_selector = selector.into();
        self
    }

    /// Watches only objects whose fields match, as in `metadata.name=kube-root-ca.crt`.
    #[must_use]
    pub fn field_selector(mut self, selector: &str) -> Self {
        self.0.field_selector = selector.into();
        self
    }

    /// Caches only metadata.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.0.metadata_only = true;
        self
    }
}

/// The mappings.
impl Watch {
    /// Adds a mapping.
    #[must_use]
    pub fn enqueue(mut self, mapping: Mapping) -> Self {
        self.0.map.push(mapping.into());
        self
    }

    /// Maps only modifications of this type; each call adds a type. Without any, all modifications
    /// are mapped.
    #[must_use]
    pub fn when(mut self, change: Change) -> Self {
        self.0.changes.push(change);
        self
    }

    /// Maps only modifications at these paths, in addition to the modifications that [`when`](Self::when) adds.
    #[must_use]
    pub fn when_at(mut self, paths: &[&str]) -> Self {
        // The loop adds one path at a time, because `extend` would be compiled for each caller.
        for &path in paths {
            self.0.changes.push(Change::Path(path.into()));
        }
        self
    }
}

impl From<Watch> for Document {
    fn from(watch: Watch) -> Self {
        watch.0
    }
}

/// The kinds that the API server serves, updated as kinds are added and removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered(DiscoveredDocument);

impl Discovered {
    /// All kinds. The host repeats discovery with this period.
    pub fn every(period: Duration) -> Self {
        Self(DiscoveredDocument {
            period_ms: millis(period),
            ..DiscoveredDocument::default()
        })
    }

    /// Only kinds with all of these verbs.
    #[must_use]
    pub fn verbs(mut self, verbs: &[&str]) -> Self {
        for &verb in verbs {
            self.0.verbs.insert(verb.into());
        }
        self
    }

    /// Excludes these kinds.
    #[must_use]
    pub fn except(mut self, kinds: &[&str]) -> Self {
        self.0.except = kinds.iter().map(|name| kind(name)).collect();
        self
    }

    /// Takes the period from this configuration key, if it is set.
    #[must_use]
    pub fn period_config(mut self, key: &str) -> Self {
        self.0.config = key.into();
        self
    }

    /// Increments this counter of the plugin when discovery fails.
    #[must_use]
    pub fn error_counter(mut self, counter: &str) -> Self {
        self.0.errors = counter.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn watches_are_serialized_in_the_hosts_format() {
        let watch = watch_kind("v1/Pod")
            .fields(&["spec.nodeName", "status.phase"])
            .fields(&["status.phase"])
            .namespace("kube-system")
            .label_selector("app=web")
            .field_selector("status.phase!=Failed")
            .when(Change::Labels)
            .when_at(&["status.phase"])
            .enqueue(Mapping::itself());
        assert_eq!(
            serde_json::to_value(watch.0).unwrap(),
            json!({"kind": "v1/Pod", "fields": ["spec.nodeName", "status.phase"],
                   "namespace": "kube-system", "labelSelector": "app=web",
                   "fieldSelector": "status.phase!=Failed",
                   "changes": ["labels", {"path": "status.phase"}], "map": [{"to": "itself"}]}),
        );
    }

    #[test]
    fn watches_of_discovered_kinds_are_serialized_in_the_hosts_format() {
        let kinds = Discovered::every(Duration::from_secs(30))
            .verbs(&["delete"])
            .except(&["v1/Event"])
            .period_config("sync-period")
            .error_counter("errors_total");
        assert_eq!(
            serde_json::to_value(watch_discovered(kinds).0).unwrap(),
            json!({"discovered": {"verbs": ["delete"], "except": ["v1/Event"], "periodMs": 30000,
                                  "config": "sync-period", "errors": "errors_total"}, "fields": []}),
        );
    }
}
