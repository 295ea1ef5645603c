//! What a controller is: the trait that an author implements, and the words of its functions.

use std::fmt;
use std::time::Duration;

use flyball_types::{Reference, ReferenceError};
use serde::de::DeserializeOwned;

use crate::describe::Description;
use crate::error::Error;
use crate::host::Host;

/// A controller. [`export!`](crate::export) makes a guest of it.
///
/// Its functions have no state but what crosses to the host and back: the host runs many instances at once, and drops and
/// makes them as it likes.
pub trait Controller {
    /// What this controller is and wants. Called once, when it is loaded.
    fn describe() -> Description;

    /// What this controller is under the operator's configuration, for one whose description depends on it, as a delay of a
    /// mapping can. Of the host, only the configuration (without declared defaults) and the log answer.
    fn describe_configured(host: &Host) -> Description {
        let _ = host;
        Self::describe()
    }

    /// Brings the world to what the object of this key asks for.
    ///
    /// # Errors
    /// An error is retried with backoff, but [`Error::Terminal`], which is reported and not tried again until something
    /// changes.
    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error>;

    /// Turns changes into keys, for the watches that [map to `route`](crate::describe::Mapping::route); for what no
    /// declared mapping can say.
    ///
    /// # Errors
    /// The batch is repeated, one delta at a time, with backoff.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let _ = (host, deltas);
        Ok(Vec::new())
    }
}

/// What is to be reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The queue that the key came from.
    pub queue: String,
    /// The key.
    pub key: Key,
    /// How often this key has failed since it last succeeded: 0 at first.
    pub attempt: u32,
}

impl Request {
    /// The first attempt at this key.
    pub fn new(queue: &str, key: &str) -> Self {
        Self {
            queue: queue.into(),
            key: Key::parse(key),
            attempt: 0,
        }
    }

    /// The object of whatever kind that the key names, where mappings make [references](Reference).
    ///
    /// # Errors
    /// The key is none; no retry can help.
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
    /// The object's name; for a key that names no object, the key itself.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Reads a key. Every text is one: what has no slash is a name alone.
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

/// How a reconcile ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key is as it should be: its backoff ends.
    Done,
    /// As `Done`, and reconcile it again after this time.
    RequeueAfter(Duration),
}

/// A change, as [`Controller::route`] gets it.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The watch's kind; of a discovery watch, the object's own kind.
    pub watch: String,
    pub delta_type: DeltaType,
    /// The object before the change, reduced to the declared fields; none if it was added. Of an object that was added and
    /// deleted since the last call, its last version.
    pub old: Option<Vec<u8>>,
    /// The object after the change; none if it was deleted.
    pub new: Option<Vec<u8>>,
    /// True if the object was there when the watch began.
    pub initial: bool,
}

impl Delta {
    /// The object before the change, if there was one.
    ///
    /// # Errors
    /// It is not as the view wants it.
    pub fn before<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.parse(self.old.as_deref())
    }

    /// The object after the change, if there is one.
    ///
    /// # Errors
    /// It is not as the view wants it.
    pub fn after<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.parse(self.new.as_deref())
    }

    fn parse<T: DeserializeOwned>(&self, object: Option<&[u8]>) -> Result<Option<T>, Error> {
        let parse = |object| {
            flyball_types::read(object)
                .map_err(|error| Error::Malformed(format!("a delta of {}", self.watch), error))
        };
        object.map(parse).transpose()
    }
}

pub use flyball_types::description::DeltaType;

/// A key that [`Controller::route`] enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedKey {
    /// The queue; the first one, if empty.
    pub queue: String,
    /// The key.
    pub key: Key,
    /// When.
    pub delay: Duration,
}

impl RoutedKey {
    /// A key for the first queue, at once.
    pub fn now(key: Key) -> Self {
        Self {
            queue: String::new(),
            key,
            delay: Duration::ZERO,
        }
    }
}
