//! Tests of controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.
//!
//! ```
//! use flyball_sdk::prelude::*;
//! use flyball_sdk::testing::Cluster;
//!
//! #[derive(View, Debug, Default)]
//! #[view(kind = "v1/Namespace")]
//! struct Namespace {
//!     #[view(path = "metadata")]
//!     meta: Meta,
//! }
//!
//! struct Marker;
//!
//! impl Controller for Marker {
//!     fn describe() -> Description {
//!         describe("marker", "1.0.0")
//!             .watch(watch::<Namespace>().enqueue(Mapping::itself()))
//!             .queue("marker")
//!             .permission("v1/Namespace", ["get", "update"])
//!     }
//!
//!     fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
//!         if let Some(namespace) = host.get_by_key::<Namespace>(&request.key)? {
//!             host.update(Namespace::KIND, &namespace.meta, &json!({"metadata": {"labels": {"marked": "yes"}}}))?;
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! let cluster = Cluster::with([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})]);
//! assert_eq!(cluster.reconcile::<Marker>("a").unwrap(), Outcome::Done);
//! assert_eq!(cluster.written(), ["update v1/Namespace a"]);
//! assert_eq!(cluster.object("v1/Namespace", "", "a").unwrap()["metadata"]["labels"]["marked"], "yes");
//! ```
//!
//! The plugin's own description is enforced: it can read only what it declares, and write only with the permissions
//! that it requests. The cache shows every write at once, as the host's cache does for a plugin's own writes.
//!
//! The server supports resource versions, finalizers and graceful deletion, subresources, all patch types, server-side
//! apply with field managers and conflicts (`testing/apply.rs` lists the limitations), and a [rate
//! limit](Cluster::limit_rate). Memo entries expire by the cluster's clock and are removed with their objects.
//!
//! Once a CustomResourceDefinition is [put](Cluster::put) into the cluster, its objects are pruned, defaulted and
//! validated by its schema, except for rules in CEL. A dropped field is a warning, in the log and in the line of the
//! [write](Cluster::written); an object of the test itself that does not fit is a mistake of the test, and so is a
//! description that declares a field which the schema lacks. Other kinds have no schemas: their objects are neither
//! checked nor defaulted.
//!
//! `flyball test-server` serves the same cluster to tests in other languages.
//!
//! A [`Recording`] of calls on a cluster is a test, too.

mod adopt;
mod apply;
mod exported;
mod imports;
mod memo;
mod metadata;
mod namespace;
mod patch;
mod rate;
mod reads;
mod recording;
mod records;
mod replayed;
mod schema;
mod setup;
mod store;
mod writes;

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use flyball_types::{ApiError, Catalogue, Kind, Projection, Query};
use serde_json::Value;

use crate::certificate::CertificateTemplate;
use crate::controller::Controller;
use crate::describe::{DeltaType, Description, Permission};
use crate::error::Error;
use crate::host::Host;
use crate::imports::{MetricOperation, Page};
use crate::log::Level;
use crate::reconcile::{Outcome, Request};
use crate::reference::ObjectReference;
use crate::route::{Delta, RoutedKey};

pub use adopt::Saved;
pub use exported::Exported;
use memo::Memo;
use rate::RateLimit;
pub use recording::Recording;
use records::EventIdentity;
pub use records::{Enqueued, Event, Logged, Signed, Written};
pub use replayed::Replayed;
use store::{Id, Store};

/// An in-memory API server with the host's other imports.
pub struct Cluster {
    state: Rc<RefCell<ClusterState>>,
}

/// The state of a [`Cluster`].
struct ClusterState {
    store: Store,
    /// Objects that live reads return instead of the cache's; `None` for objects that live reads don't find.
    live: HashMap<Id, Option<Value>>,
    /// Objects whose deletion the host has observed.
    deleted: Vec<ObjectReference>,
    description: Option<Description>,
    faults: Vec<Fault>,
    /// The responses to the next creates of a kind whose objects are not stored.
    answers: Vec<(String, Value)>,
    writes: Vec<Written>,
    live_reads: Vec<String>,
    events: Vec<Event>,
    /// The events that are emitted once.
    once: HashSet<EventIdentity>,
    enqueued: Vec<Enqueued>,
    logs: Vec<Logged>,
    /// Whether the server's warnings are written to standard error, too.
    shows_warnings: bool,
    metrics: Vec<(MetricOperation, String, Vec<String>, f64)>,
    config: BTreeMap<String, String>,
    /// The signing keys.
    keys: Vec<String>,
    /// The tokens signed so far.
    signed: Vec<Signed>,
    /// The signers with an authority.
    authorities: Vec<String>,
    /// The certificates signed so far: the signer and the template.
    certificates: Vec<(String, CertificateTemplate)>,
    memo: Memo,
    rate_limit: Option<RateLimit>,
    raw: HashMap<String, Value>,
    catalogue: Catalogue,
    random: u64,
    lister: Option<Box<Lister>>,
    /// The stand-ins for imports of other packages, by their types.
    extensions: HashMap<TypeId, Rc<dyn Any>>,
}

/// Runs a cached query.
type Lister = dyn Fn(&Query, &Projection) -> Page;

/// An injected failure.
struct Fault {
    verb: String,
    kind: String,
    skip: usize,
    error: ApiError,
}

/// Returns the permissions that a description requests, one per line: `v1/Pod status patch,update`.
pub fn permissions(description: &Description) -> Vec<String> {
    let line = |permission: &Permission| {
        let verbs: Vec<_> = permission.verbs.iter().map(String::as_str).collect();
        let namespaces: Vec<_> = permission.namespaces.iter().map(String::as_str).collect();
        let place = match namespaces.as_slice() {
            [] => String::new(),
            namespaces => format!(" in {}", namespaces.join(",")),
        };
        format!(
            "{} {} {}{place}",
            permission.kind,
            permission.subresource,
            verbs.join(",")
        )
    };
    description.permissions.iter().map(line).collect()
}

/// Sets the field of an object at a JSON pointer and creates missing parents.
pub fn set_at(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/"));
    *keys.fold(object, |at, key| {
        match (at.is_array(), key.parse::<usize>()) {
            (true, Ok(item)) => &mut at[item],
            _ => &mut at[key],
        }
    }) = value.into();
}

impl Default for Cluster {
    fn default() -> Self {
        let state = ClusterState {
            store: Store::new("2026-01-01T00:00:00Z".parse().expect("a valid time")),
            live: HashMap::new(),
            deleted: Vec::new(),
            description: None,
            faults: Vec::new(),
            answers: Vec::new(),
            writes: Vec::new(),
            live_reads: Vec::new(),
            events: Vec::new(),
            once: HashSet::new(),
            enqueued: Vec::new(),
            logs: Vec::new(),
            shows_warnings: true,
            metrics: Vec::new(),
            config: BTreeMap::new(),
            keys: Vec::new(),
            signed: Vec::new(),
            authorities: Vec::new(),
            certificates: Vec::new(),
            memo: Memo::default(),
            rate_limit: None,
            raw: HashMap::new(),
            catalogue: Catalogue::default(),
            random: 0x9e37_79b9_7f4a_7c15,
            lister: None,
            extensions: HashMap::new(),
        };
        Self {
            state: Rc::new(RefCell::new(state)),
        }
    }
}

/// Actions.
impl Cluster {
    /// Reconciles a key of the plugin's primary queue, under its description.
    ///
    /// # Errors
    /// The error of the controller.
    pub fn reconcile<C: Controller>(&self, key: &str) -> Result<Outcome, Error> {
        let queue = C::describe()
            .queues
            .first()
            .map(|queue| queue.name.clone())
            .unwrap_or_default();
        self.reconcile_request::<C>(&Request::new(&queue, key))
    }

    /// Reconciles a request, under the plugin's description for the cluster's configuration.
    ///
    /// # Errors
    /// The error of the controller.
    pub fn reconcile_request<C: Controller>(&self, request: &Request) -> Result<Outcome, Error> {
        Exported::of::<C>().reconcile(self, request)
    }

    /// Routes deltas, under the plugin's description for the cluster's configuration.
    ///
    /// # Errors
    /// The error of the controller.
    pub fn route<C: Controller>(&self, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        Exported::of::<C>().route(self, deltas)
    }

    /// Restricts the host to what a description declares and requests, until [`host`](Self::host) is called. Reconciles
    /// and routes do this with the controller's own description.
    ///
    /// # Panics
    /// If the description is not valid, or declares a field that the kind's CustomResourceDefinition lacks.
    pub fn restrict(&self, description: Description) {
        if let Err(error) = description.check() {
            panic!("the description is not valid: {error}");
        }
        if let Err(mistake) = self.check_fields(&description) {
            panic!("{mistake}");
        }
        self.state.borrow_mut().description = Some(description);
    }

    /// Checks that the fields which a description declares are in the CustomResourceDefinitions of this cluster.
    ///
    /// # Errors
    /// A field that the definition of its kind lacks: it would be absent from every object.
    pub fn check_fields(&self, description: &Description) -> Result<(), String> {
        self.state.borrow().store.definitions().check(description)
    }

    /// Returns a host without restrictions, for tests of single steps.
    pub fn host(&self) -> Host<'_> {
        self.state.borrow_mut().description = None;
        Host::new(self)
    }
}

/// Checks.
impl Cluster {
    /// Returns an object.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state
            .borrow()
            .store
            .get(&Id::new(kind, namespace, name))
            .cloned()
    }

    /// Returns all objects of a kind, ordered by namespace and name.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        self.state.borrow().store.of_kind(kind).cloned().collect()
    }

    /// Returns all writes since the last call of `writes` or `written`, including failed ones.
    pub fn writes(&self) -> Vec<Written> {
        std::mem::take(&mut self.state.borrow_mut().writes)
    }

    /// Returns the same as [`writes`](Self::writes) as lines: `create v1/Pod default/web-1`.
    pub fn written(&self) -> Vec<String> {
        self.writes().iter().map(Written::to_string).collect()
    }

    /// Returns the server's warnings about the last write. [`writes`](Self::writes) has those of all writes.
    pub fn last_warnings(&self) -> Vec<String> {
        let state = self.state.borrow();
        state
            .writes
            .last()
            .map(|written| written.warnings.clone())
            .unwrap_or_default()
    }

    /// Returns all live reads since the last call, including failed ones, as lines: `list v1/Pod default`.
    pub fn live_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().live_reads)
    }

    /// Returns all events since the last call of `events` or `recorded_events` as lines: `Normal Created Created pod:
    /// web-1`.
    pub fn events(&self) -> Vec<String> {
        self.recorded_events()
            .iter()
            .map(Event::to_string)
            .collect()
    }

    /// Returns the same as [`events`](Self::events), unformatted.
    pub fn recorded_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.borrow_mut().events)
    }

    /// Returns all keys enqueued since the last call.
    pub fn enqueued(&self) -> Vec<Enqueued> {
        std::mem::take(&mut self.state.borrow_mut().enqueued)
    }

    /// Returns all messages logged since the last call of `logged` or `recorded_logs`.
    pub fn logged(&self) -> Vec<(Level, String)> {
        let line = |logged: Logged| (logged.level, logged.message);
        self.recorded_logs().into_iter().map(line).collect()
    }

    /// Returns the same as [`logged`](Self::logged), with the fields.
    pub fn recorded_logs(&self) -> Vec<Logged> {
        std::mem::take(&mut self.state.borrow_mut().logs)
    }

    /// Returns all tokens signed so far.
    pub fn signed(&self) -> Vec<Signed> {
        self.state.borrow().signed.clone()
    }

    /// Returns the signers and the templates of all certificates signed so far.
    pub fn certificates(&self) -> Vec<(String, CertificateTemplate)> {
        self.state.borrow().certificates.clone()
    }

    /// Returns all metric operations since the last call: operation, name, labels and value.
    pub fn metrics(&self) -> Vec<(MetricOperation, String, Vec<String>, f64)> {
        std::mem::take(&mut self.state.borrow_mut().metrics)
    }
}

/// An API error for [`Cluster::fail`].
pub fn refusal(status: u16, reason: &str) -> ApiError {
    ApiError::of_server(status, reason, format!("the test refuses this: {reason}"))
}

/// A delta for [`Controller::route`], from the object's versions before and after.
///
/// # Panics
/// If both are `None`.
pub fn delta(watch: &str, old: Option<&Value>, new: Option<&Value>) -> Delta {
    let delta_type = match (old, new) {
        (Some(_), Some(_)) => DeltaType::Modified,
        (None, Some(_)) => DeltaType::Added,
        (Some(_), None) => DeltaType::Deleted,
        (None, None) => panic!("a delta has an old object or a new one"),
    };
    let json = |object: &Value| object.to_string().into_bytes();
    Delta {
        watch: watch.into(),
        delta_type,
        old: old.map(json),
        new: new.map(json),
        initial: false,
    }
}

/// Parses a view from a literal object.
///
/// # Panics
/// If the object does not fit the view.
pub fn view<T: crate::View>(object: Value) -> T {
    serde_json::from_value(object).expect("the object fits the view")
}

fn kind_of(text: &str) -> Kind {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
