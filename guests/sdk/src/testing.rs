//! Tests of controllers without a cluster and without a sandbox: given objects, reconcile a key,
//! expect writes.
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
//!             .allow("v1/Namespace", ["get", "update"])
//!     }
//!
//!     fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
//!         if let Some(namespace) = host.get_key::<Namespace>(&request.key)? {
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
//! The plugin's own description is enforced: what it does not declare, it can't read; what it does
//! not ask for, it can't write. The cache holds every write at once, as the host's cache does for a
//! plugin's own writes.
//!
//! The server knows resource versions, finalizers and graceful deletion, subresources, the types of
//! patches, server-side apply with field managers and conflicts (`testing/apply.rs` says what it
//! leaves out), and a [rate limit](Cluster::limit_rate). It has no schemas: it neither validates
//! nor defaults objects. The memo honours times to live, by the cluster's clock, and the deletion
//! of objects.

mod apply;
mod imports;
mod memo;
mod metadata;
mod namespace;
mod patch;
mod rate;
mod reads;
mod store;
mod writes;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, EventOptions, Kind, Projection, Query, ServedKind,
};
use serde_json::Value;

use crate::controller::{Controller, Delta, DeltaType, Outcome, Request};
use crate::describe::{Description, Permission};
use crate::error::Error;
use crate::host::Host;
use crate::imports::{MetricOperation, ObjectReference, Page};
use crate::log::Level;
use crate::time::Time;

use memo::Memo;
use rate::RateLimit;
use store::{Id, Store};

/// An API server in memory, with the host's other imports around it.
pub struct Cluster {
    state: RefCell<State>,
}

/// What a test may look at and change between two calls.
struct State {
    store: Store,
    /// What live reads see in place of what the cache holds; none where the object is gone.
    live: HashMap<Id, Option<Value>>,
    /// Objects whose deletion was observed.
    deleted: Vec<ObjectReference>,
    description: Option<Description>,
    faults: Vec<Fault>,
    writes: Vec<Written>,
    live_reads: Vec<String>,
    events: Vec<Event>,
    enqueued: Vec<Enqueued>,
    logs: Vec<(Level, String)>,
    metrics: Vec<(MetricOperation, String, Vec<String>, f64)>,
    config: BTreeMap<String, String>,
    /// The keys that sign.
    keys: Vec<String>,
    /// The tokens that they signed.
    signed: Vec<Signed>,
    memo: Memo,
    rate_limit: Option<RateLimit>,
    raw: HashMap<String, Value>,
    catalogue: Catalogue,
    random: u64,
    lister: Option<Box<Lister>>,
}

/// Runs a query of the cache.
type Lister = dyn Fn(&Query, &Projection) -> Page;

/// A failure to be injected.
struct Fault {
    verb: String,
    kind: String,
    skip: usize,
    error: ApiError,
}

/// A write that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The API's verb: `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The kind.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// The name, also where the server made it.
    pub name: String,
    /// Empty, or the subresource.
    pub subresource: String,
    /// What was sent: the object, the change or the patch.
    pub body: Value,
    /// The API's options.
    pub options: Value,
    /// Why it was refused, if it was.
    pub error: Option<ApiError>,
}

/// `create v1/Pod default/web-1`; `update v1/Pod/status default/web-1: … (409 Conflict)`;
/// `deletecollection v1/Pod default`
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match self.name.as_str() {
            "" => write!(f, " {}", self.namespace)?,
            name => write!(f, " {}", crate::Key::new(&self.namespace, name))?,
        }
        self.error
            .iter()
            .try_for_each(|error| write!(f, ": {error}"))
    }
}

/// An event that was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub about: ObjectReference,
    /// `Normal` or `Warning`.
    pub event_type: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Its action, its related object and its annotations.
    pub options: EventOptions,
}

/// `Normal SuccessfulCreate Created pod: web-1`
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.event_type, self.reason, self.message)
    }
}

/// What a description asks for, a line for each permission: `v1/Pod status patch,update`.
pub fn permissions(description: &Description) -> Vec<String> {
    let line = |asked: &Permission| {
        let verbs: Vec<_> = asked.verbs.iter().map(String::as_str).collect();
        format!("{} {} {}", asked.kind, asked.subresource, verbs.join(","))
    };
    description.permissions.iter().map(line).collect()
}

/// Sets the field of an object at a JSON pointer; its parents are made, where they are missing.
pub fn set_at(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/"));
    *keys.fold(object, |at, key| {
        match (at.is_array(), key.parse::<usize>()) {
            (true, Ok(item)) => &mut at[item],
            _ => &mut at[key],
        }
    }) = value.into();
}

/// A token that was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The key's name.
    pub key: String,
    /// What was to be signed.
    pub claims: Value,
    /// What came of it.
    pub token: String,
}

/// A key that was put into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The queue.
    pub queue: String,
    /// The key.
    pub key: String,
    /// When.
    pub delay: Duration,
}

impl Default for Cluster {
    fn default() -> Self {
        let state = State {
            store: Store::new("2026-01-01T00:00:00Z".parse().expect("it is a time")),
            live: HashMap::new(),
            deleted: Vec::new(),
            description: None,
            faults: Vec::new(),
            writes: Vec::new(),
            live_reads: Vec::new(),
            events: Vec::new(),
            enqueued: Vec::new(),
            logs: Vec::new(),
            metrics: Vec::new(),
            config: BTreeMap::new(),
            keys: Vec::new(),
            signed: Vec::new(),
            memo: Memo::default(),
            rate_limit: None,
            raw: HashMap::new(),
            catalogue: Catalogue::default(),
            random: 0x9e37_79b9_7f4a_7c15,
            lister: None,
        };
        Self {
            state: RefCell::new(state),
        }
    }
}

/// What is given.
impl Cluster {
    /// A cluster that holds nothing. Its clock stands at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cluster that holds these objects.
    pub fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let cluster = Self::default();
        objects.into_iter().for_each(|object| cluster.put(object));
        cluster
    }

    /// Puts an object, with `apiVersion` and `kind`, as it is, in place of an older one. What a
    /// server would set (UID, resource version, creation time) is filled in where it is absent.
    pub fn put(&self, object: Value) {
        self.state.borrow_mut().store.put(object);
    }

    /// Changes an object as another client would: the resource version moves on.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn edit(&self, kind: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let state = &mut *self.state.borrow_mut();
        state.store.edit(&Id::new(kind, namespace, name), change);
    }

    /// Takes an object away at once.
    pub fn remove(&self, kind: &str, namespace: &str, name: &str) {
        self.state
            .borrow_mut()
            .store
            .remove(&Id::new(kind, namespace, name));
    }

    /// Lets live reads see this object while the cache still holds another, or none.
    pub fn put_live(&self, object: Value) {
        self.state
            .borrow_mut()
            .live
            .insert(Id::of_object(&object), Some(object));
    }

    /// Lets live reads find no such object while the cache still holds it.
    pub fn remove_live(&self, kind: &str, namespace: &str, name: &str) {
        self.state
            .borrow_mut()
            .live
            .insert(Id::new(kind, namespace, name), None);
    }

    /// Lets the host have observed the deletion of this object.
    pub fn observe_deletion(&self, kind: &str, namespace: &str, name: &str, uid: &str) {
        let [kind, namespace, name, uid] = [kind, namespace, name, uid].map(str::to_owned);
        self.state.borrow_mut().deleted.push(ObjectReference {
            kind,
            namespace,
            name,
            uid,
        });
    }

    /// Answers a raw GET of this path.
    pub fn put_raw(&self, path: &str, answer: Value) {
        self.state.borrow_mut().raw.insert(path.into(), answer);
    }

    /// Sets what `discovery.kinds` returns.
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        self.state.borrow_mut().catalogue = catalogue;
    }

    /// Lets `discovery.kinds` return this kind as well, after those that were served before; of two
    /// versions of a group the first one served is the preferred one.
    pub fn serve(&self, kind: &str, plural: &str, namespaced: bool, verbs: &[&str]) {
        let kinds = &mut self.state.borrow_mut().catalogue.kinds;
        let own = kind_of(kind);
        let first = kinds
            .iter()
            .map(|known| kind_of(&known.kind))
            .find(|known| known.group == own.group);
        kinds.push(ServedKind {
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            preferred: first.is_none_or(|first| first.version == own.version),
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
            subresources: Vec::new(),
        });
    }

    /// Lets `discovery.kinds` name this group version as one whose discovery failed.
    pub fn fail_discovery(&self, group_version: &str, message: &str) {
        let failures = &mut self.state.borrow_mut().catalogue.failures;
        failures.push(DiscoveryFailure {
            group_version: group_version.into(),
            message: message.into(),
        });
    }

    /// Fails the next write (or live `get` or `list`) of this verb and kind; `discover` of no kind
    /// is discovery itself.
    pub fn fail(&self, verb: &str, kind: &str, error: ApiError) {
        self.fail_nth(verb, kind, 1, error);
    }

    /// Fails the `nth` write of this verb and kind from now; 1 is the next one. The kind may name a
    /// subresource: `apps/v1/ReplicaSet/status`.
    pub fn fail_nth(&self, verb: &str, kind: &str, nth: usize, error: ApiError) {
        let fault = Fault {
            verb: verb.into(),
            kind: kind.into(),
            skip: nth.saturating_sub(1),
            error,
        };
        self.state.borrow_mut().faults.push(fault);
    }

    /// Lets the API server admit so many writes and live reads in each window of time, by the
    /// cluster's clock. It refuses the others with 429 and the time until the next window.
    pub fn limit_rate(&self, calls: usize, window: Duration) {
        let state = &mut *self.state.borrow_mut();
        state.rate_limit = Some(RateLimit::new(calls, window, state.store.now));
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Time) {
        self.state.borrow_mut().store.now = now;
    }

    /// Moves the clock on.
    pub fn advance(&self, time: Duration) {
        let store = &mut self.state.borrow_mut().store;
        store.now = store.now + time;
    }

    /// Sets the operator's value of a key.
    pub fn set_config(&self, key: &str, value: &str) {
        self.state
            .borrow_mut()
            .config
            .insert(key.into(), value.into());
    }

    /// Runs queries elsewhere, in place of on what the cluster holds.
    pub fn set_lister(&self, lister: impl Fn(&Query, &Projection) -> Page + 'static) {
        self.state.borrow_mut().lister = Some(Box::new(lister));
    }

    /// Gives the signer a key of this name. Its tokens are a toy, each another one.
    pub fn add_key(&self, name: &str) {
        self.state.borrow_mut().keys.push(name.into());
    }
}

/// What is done.
impl Cluster {
    /// Reconciles a key of the plugin's first queue, under its description.
    ///
    /// # Errors
    /// What the controller answers.
    pub fn reconcile<C: Controller>(&self, key: &str) -> Result<Outcome, Error> {
        let queue = C::describe()
            .queues
            .first()
            .map(|queue| queue.name.clone())
            .unwrap_or_default();
        self.reconcile_request::<C>(&Request::new(&queue, key))
    }

    /// Reconciles a request, under the plugin's description.
    ///
    /// # Errors
    /// What the controller answers.
    pub fn reconcile_request<C: Controller>(&self, request: &Request) -> Result<Outcome, Error> {
        let description = C::describe();
        description.check().expect("the description is sound");
        self.state.borrow_mut().description = Some(description);
        C::reconcile(&Host::new(self), request)
    }

    /// A host that may do everything: for tests of single steps.
    pub fn host(&self) -> Host<'_> {
        self.state.borrow_mut().description = None;
        Host::new(self)
    }
}

/// What is expected.
impl Cluster {
    /// An object, whole.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state
            .borrow()
            .store
            .get(&Id::new(kind, namespace, name))
            .cloned()
    }

    /// All objects of a kind, in order of namespace and name.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        self.state.borrow().store.of_kind(kind).cloned().collect()
    }

    /// Every write since the last call of a function of this group, refused ones too.
    pub fn writes(&self) -> Vec<Written> {
        std::mem::take(&mut self.state.borrow_mut().writes)
    }

    /// As [`writes`](Self::writes), each as a line: `create v1/Pod default/web-1`.
    pub fn written(&self) -> Vec<String> {
        self.writes().iter().map(Written::to_string).collect()
    }

    /// Every live read since the last call, refused ones too, each as a line: `list v1/Pod
    /// default`.
    pub fn live_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().live_reads)
    }

    /// Every event since the last call of a function of this group, each as a line: `Normal Created
    /// Created pod: web-1`.
    pub fn events(&self) -> Vec<String> {
        self.recorded_events()
            .iter()
            .map(Event::to_string)
            .collect()
    }

    /// As [`events`](Self::events), as they were emitted.
    pub fn recorded_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.borrow_mut().events)
    }

    /// Every key that was put into a queue since the last call.
    pub fn enqueued(&self) -> Vec<Enqueued> {
        std::mem::take(&mut self.state.borrow_mut().enqueued)
    }

    /// Every line that was logged since the last call.
    pub fn logged(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.state.borrow_mut().logs)
    }

    /// Every token that was ever signed.
    pub fn signed(&self) -> Vec<Signed> {
        self.state.borrow().signed.clone()
    }

    /// What was done to metrics since the last call: operation, name, labels and value.
    pub fn metrics(&self) -> Vec<(MetricOperation, String, Vec<String>, f64)> {
        std::mem::take(&mut self.state.borrow_mut().metrics)
    }
}

/// An error as the API server writes it, for [`Cluster::fail`].
pub fn refusal(status: u16, reason: &str) -> ApiError {
    ApiError::of_server(status, reason, format!("the test refuses this: {reason}"))
}

/// A change of an object, from its versions before and after, for [`Controller::route`].
///
/// # Panics
/// If there is neither.
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

/// Reads a view from a literal object.
///
/// # Panics
/// If it is not as the view wants it.
pub fn view<T: crate::View>(object: Value) -> T {
    serde_json::from_value(object).expect("the object fits the view")
}

fn kind_of(text: &str) -> Kind {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
