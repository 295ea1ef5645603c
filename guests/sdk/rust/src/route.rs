//! The argument and the result of [`Controller::route`](crate::Controller::route).

use std::time::Duration;

use flyball_types::description::DeltaType;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::key::Key;
use crate::malformed;

/// A change of an object, for [`Controller::route`](crate::Controller::route).
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

/// A key that [`Controller::route`](crate::Controller::route) enqueues.
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
