//! The trait that a controller implements, and the types of its functions.

use std::fmt;
use std::time::Duration;

use flyball_types::{Reference, ReferenceError};
use serde::de::DeserializeOwned;

use crate::describe::Description;
use crate::error::Error;
use crate::host::Host;
use crate::malformed;

/// A controller. [`export!`](crate::export) makes a guest of it.
///
/// Its functions must not depend on state between calls: the host runs many instances at once, and creates and drops
/// them at any time.
pub trait Controller {
    /// Describes what the controller watches and needs. Called once, when the plugin is loaded.
    fn describe() -> Description;

    /// The description under the operator's configuration, if the description depends on it, such as a mapping's delay.
    /// Only the configuration (without declared defaults) and the log of `host` are available.
    fn describe_configured(host: &Host) -> Description {
        let _ = host;
        Self::describe()
    }

    /// Brings the cluster to the state that the key's object asks for.
    ///
    /// # Errors
    /// The host retries errors with backoff, except [`Error::Terminal`], which it reports and does not retry until
    /// something changes.
    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error>;

    /// Turns changes into keys, for watches that [map to `route`](crate::describe::Mapping::route). Needed if no
    /// declared mapping can express the rule.
    ///
    /// # Errors
    /// The host retries the batch with backoff, one delta at a time.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let _ = (host, deltas);
        Ok(Vec::new())
    }
}

/// A key to reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The queue that the key came from.
    pub queue: String,
    pub key: Key,
    /// Number of failures of this key since it last succeeded.
    pub attempt: u32,
}

impl Request {
    /// A first attempt.
    pub fn new(queue: &str, key: &str) -> Self {
        Self {
            queue: queue.into(),
            key: Key::parse(key),
            attempt: 0,
        }
    }

    /// Parses the key as a reference to an object of any kind, for mappings that enqueue [references](Reference).
    ///
    /// # Errors
    /// The key is not a reference. The error is terminal.
    pub fn reference(&self) -> Result<Reference, Error> {
        self.key
            .to_string()
            .parse()
            .map_err(|error: ReferenceError| Error::Terminal(error.to_string()))
    }
}

/// A key that names an object: `namespace/name`, or `name` if it is cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    /// The object's name; or the whole key if it does not name an object.
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Parses a key. Every text is valid: without a slash it is only a name.
    pub fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }
}

impl From<&Reference> for Key {
    fn from(reference: &Reference) -> Self {
        Self::parse(&reference.to_string())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}", self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do. Resets the key's backoff.
    Done,
    /// Like `Done`, and reconciles the key again after this time.
    RequeueAfter(Duration),
}

/// A change of an object, for [`Controller::route`].
#[derive(Clone, Debug)]
pub struct Delta {
    /// The watch's kind; for a discovery watch, the object's kind.
    pub watch: String,
    pub delta_type: DeltaType,
    /// The object before the change, reduced to the declared fields; `None` if it was added. If the object was added
    /// and deleted since the last call, this is its last version.
    pub old: Option<Vec<u8>>,
    /// The object after the change; `None` if it was deleted.
    pub new: Option<Vec<u8>>,
    /// Whether the delta belongs to the initial list of the watch.
    pub initial: bool,
}

impl Delta {
    /// Parses the object before the change.
    ///
    /// # Errors
    /// The object does not fit the view.
    pub fn before<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.parse(self.old.as_deref())
    }

    /// Parses the object after the change.
    ///
    /// # Errors
    /// The object does not fit the view.
    pub fn after<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.parse(self.new.as_deref())
    }

    fn parse<T: DeserializeOwned>(&self, object: Option<&[u8]>) -> Result<Option<T>, Error> {
        let parse = |object: &[u8]| {
            flyball_types::read(object)
                .map_err(|error| malformed::object(&self.watch, None, object, error))
        };
        object.map(parse).transpose()
    }
}

pub use flyball_types::description::DeltaType;

/// A key that [`Controller::route`] enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedKey {
    /// The queue; the primary one if empty.
    pub queue: String,
    pub key: Key,
    /// The delay before the key is enqueued.
    pub delay: Duration,
}

impl RoutedKey {
    /// A key for the primary queue, without delay.
    pub fn now(key: Key) -> Self {
        Self {
            queue: String::new(),
            key,
            delay: Duration::ZERO,
        }
    }
}
