//! Records the writes of one guest call: for the log, for the consistency of the next call, and for the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use flyball_limits::counters::PluginCounters;
use flyball_plugin::{Operation, Write};
use flyball_types::{ApiError, Effect, Kind, printable};
use parking_lot::Mutex;

/// How many written objects of one call are remembered by name.
const TOUCHED: usize = 32;

/// An object that a call has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    pub verb: &'static str,
    pub kind: Kind,
    /// Empty for the object itself.
    pub subresource: String,
    /// `namespace/name`, or the name alone.
    pub key: String,
}

/// The writes of one guest call. Shared with the writes that outlive it.
#[derive(Default)]
pub struct Journal {
    state: Mutex<Recorded>,
    /// The plugin's counters; none if its writes are not counted.
    counters: Option<Arc<PluginCounters>>,
}

#[derive(Default)]
struct Recorded {
    /// In the order of the first write of each.
    done: Vec<(What, Names)>,
    touched: Vec<Touched>,
    unknown: BTreeSet<Kind>,
    /// With the namespace and the name of the written object; none if there are several, or if it is not known.
    unseen: BTreeMap<Kind, Option<(String, String)>>,
    has_lost_server: bool,
}

/// A verb, a kind's short name and a subresource.
type What = (&'static str, String, String);

#[derive(Default)]
struct Names {
    count: usize,
    /// The last one's.
    name: String,
}

impl Journal {
    /// A journal that counts its writes as the plugin's.
    pub fn counted_by(counters: Arc<PluginCounters>) -> Self {
        Self {
            counters: Some(counters),
            ..Self::default()
        }
    }

    /// Records a write's result. `name` is the object's, if it is known.
    pub fn record(&self, write: &Write, kind: &Kind, name: &str, result: Result<(), &ApiError>) {
        if let Some(counters) = &self.counters {
            counters.wrote(verb(&write.operation), result_label(result));
        }
        let mut state = self.state.lock();
        match result {
            Ok(()) => {
                let what = (
                    verb(&write.operation),
                    kind.kind.clone(),
                    write.subresource().to_owned(),
                );
                let known = state.done.iter().position(|(own, _)| *own == what);
                let at = known.unwrap_or_else(|| {
                    state.done.push((what, Names::default()));
                    state.done.len() - 1
                });
                let names = &mut state.done[at].1;
                names.count += 1;
                names.name = name.into();
                if state.touched.len() < TOUCHED {
                    let namespace = &write.target.namespace;
                    let key = if namespace.is_empty() {
                        name.to_owned()
                    } else {
                        format!("{namespace}/{name}")
                    };
                    state.touched.push(Touched {
                        verb: verb(&write.operation),
                        kind: kind.clone(),
                        subresource: write.subresource().to_owned(),
                        key,
                    });
                }
            }
            Err(error) => {
                // The effect may be that of an earlier attempt, which the server answered.
                if error.effect == Effect::Unknown {
                    state.unknown.insert(kind.clone());
                }
                state.has_lost_server |= error.is_unreachable();
            }
        }
    }

    /// Whether the API server could not be reached for the last attempt of a write.
    pub fn has_lost_server(&self) -> bool {
        self.state.lock().has_lost_server
    }

    /// Returns the kinds of the writes whose effect is unknown.
    pub fn take_unknown(&self) -> BTreeSet<Kind> {
        std::mem::take(&mut self.state.lock().unknown)
    }

    /// Records that the plugin's cached reads don't show an acknowledged write yet. `object` is the namespace and the name
    /// of the object, if the write can have changed no other object of the kind.
    pub(crate) fn record_unseen(&self, kind: &Kind, object: Option<(String, String)>) {
        let mut state = self.state.lock();
        let known = state
            .unseen
            .entry(kind.clone())
            .or_insert_with(|| object.clone());
        if *known != object {
            *known = None;
        }
    }

    /// Returns the kinds of the acknowledged writes that the plugin's cached reads don't show until the cache has caught
    /// up, with the namespace and the name of the object if there is one alone.
    pub fn take_unseen(&self) -> BTreeMap<Kind, Option<(String, String)>> {
        std::mem::take(&mut self.state.lock().unseen)
    }

    /// Returns the written objects; the first ones if there are many.
    pub fn take_touched(&self) -> Vec<Touched> {
        std::mem::take(&mut self.state.lock().touched)
    }

    /// Returns the number of successful writes.
    pub fn count(&self) -> u64 {
        let state = self.state.lock();
        let counts = state.done.iter().map(|(_, names)| names.count as u64);
        counts.sum()
    }

    /// Describes the successful writes in their order, as in `create 3 Pods, update ReplicaSet/status web`; empty if there
    /// were none.
    pub fn summary(&self) -> String {
        let state = self.state.lock();
        let words = state.done.iter().map(|((verb, kind, subresource), names)| {
            let slash = if subresource.is_empty() { "" } else { "/" };
            match names.count {
                1 => format!("{verb} {kind}{slash}{subresource} {}", names.name),
                count => format!("{verb} {count} {kind}s{slash}{subresource}"),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let (verb, kind, subresource) = (self.verb, &self.kind.kind, &self.subresource);
        write!(f, "{verb} {kind}{slash}{subresource} {}", self.key)
    }
}

/// Returns the API's verb of an operation, as in RBAC rules.
pub(crate) fn verb(operation: &Operation) -> &'static str {
    match operation {
        Operation::Create { .. } => "create",
        Operation::Update { .. } | Operation::UpdateStatus { .. } => "update",
        Operation::Patch { .. } => "patch",
        Operation::Delete => "delete",
        Operation::DeleteCollection { .. } => "deletecollection",
    }
}

/// A write without its object's name: `update apps/v1/ReplicaSet/status`.
pub(crate) fn what(write: &Write, kind: &Kind) -> String {
    let slash = if write.subresource().is_empty() {
        ""
    } else {
        "/"
    };
    let subresource = printable(write.subresource());
    format!("{} {kind}{slash}{subresource}", verb(&write.operation))
}

/// The result of a write, as a label of metrics.
fn result_label(result: Result<(), &ApiError>) -> &'static str {
    match result {
        Ok(()) => "success",
        Err(error) => match (error.effect, error.status) {
            (Effect::None, _) => "not_sent",
            (Effect::Refused, 404) => "not_found",
            (Effect::Refused, 409) => "conflict",
            (Effect::Refused, _) => "refused",
            (Effect::Unknown, _) => "unknown",
        },
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use flyball_plugin::Target;

    use super::*;

    fn write(operation: Operation, subresource: &str) -> Write {
        let target = Target {
            kind: "v1/Pod".into(),
            namespace: "demo".into(),
            name: String::new(),
            subresource: subresource.into(),
        };
        Write {
            target,
            operation,
            options: Bytes::new(),
            returns: Vec::new(),
        }
    }

    #[test]
    fn a_call_is_summed_up_in_words() {
        let journal = Journal::default();
        let pod = Kind::new("", "v1", "Pod");
        for _ in 0..3 {
            journal.record(
                &write(
                    Operation::Create {
                        object: "{}".into(),
                    },
                    "",
                ),
                &pod,
                "web-1",
                Ok(()),
            );
        }
        journal.record(&write(Operation::Delete, ""), &pod, "web-0", Ok(()));
        journal.record(
            &write(Operation::Delete, "eviction"),
            &pod,
            "web-0",
            Err(&ApiError::of_server(429, "TooManyRequests", "")),
        );
        let update = write(
            Operation::UpdateStatus {
                resource_version: String::new(),
                status: "{}".into(),
                metadata: Bytes::new(),
            },
            "",
        );
        journal.record(&update, &pod, "web-1", Ok(()));
        assert_eq!(
            journal.summary(),
            "create 3 Pods, delete Pod web-0, update Pod/status web-1"
        );
        let touched = journal.take_touched();
        assert_eq!(
            touched.last().map(Touched::to_string).as_deref(),
            Some("update Pod/status demo/web-1")
        );
        assert_eq!(journal.take_unknown(), BTreeSet::new());
    }

    #[test]
    fn writes_of_unknown_effect_are_remembered_once_for_their_kind() {
        let journal = Journal::default();
        let pod = Kind::new("", "v1", "Pod");
        for error in [
            ApiError::timeout("cut"),
            ApiError::of_server(500, "InternalError", "a webhook failed"),
            ApiError::of_server(409, "Conflict", "it changed"),
            ApiError::unreachable("refused"),
            ApiError::fenced(),
        ] {
            let write = write(Operation::Delete, "");
            journal.record(&write, &pod, "a", Err(&error));
        }
        assert_eq!(journal.summary(), "");
        assert_eq!(journal.take_unknown(), BTreeSet::from([pod]));
        assert_eq!(journal.take_unknown(), BTreeSet::new());
    }

    #[test]
    fn unseen_writes_of_one_object_name_it() {
        let (journal, pod) = (Journal::default(), Kind::new("", "v1", "Pod"));
        let object = |name: &str| Some(("demo".to_owned(), name.to_owned()));
        for (writes, expected) in [
            (vec![object("a"), object("a")], object("a")),
            (vec![object("a"), object("b"), object("a")], None),
            (vec![None, object("a")], None),
        ] {
            for write in writes {
                journal.record_unseen(&pod, write);
            }
            assert_eq!(
                journal.take_unseen(),
                BTreeMap::from([(pod.clone(), expected)])
            );
        }
    }

    #[test]
    fn only_a_server_that_can_t_be_reached_is_lost() {
        let pod = Kind::new("", "v1", "Pod");
        for (error, is_lost) in [
            (ApiError::unreachable("refused"), true),
            (
                ApiError::unreachable("refused").with_effect(Effect::Unknown),
                true,
            ),
            (ApiError::timeout("cut"), false),
            (
                ApiError::of_server(503, "ServiceUnavailable", "full"),
                false,
            ),
            (ApiError::fenced(), false),
        ] {
            let journal = Journal::default();
            let write = write(Operation::Delete, "");
            journal.record(&write, &pod, "a", Err(&error));
            assert_eq!(journal.has_lost_server(), is_lost, "{error}");
        }
    }
}
