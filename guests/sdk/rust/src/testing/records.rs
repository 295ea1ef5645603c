//! The records of a fake cluster: writes, events, tokens and enqueued keys.

use std::fmt;
use std::time::Duration;

use flyball_types::{ApiError, EventOptions};
use serde_json::Value;

use crate::log::Level;
use crate::reference::ObjectReference;
use crate::write::PatchType;

/// A write that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The API's verb: `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    pub kind: String,
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    /// The name, including one that the server generated.
    pub name: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The type, if it is a patch.
    pub patch_type: Option<PatchType>,
    /// The body: the object, the change or the patch.
    pub body: Value,
    /// The API's options object.
    pub options: Value,
    /// The server's warnings: `unknown field "spec.txt"` for a field that it dropped.
    pub warnings: Vec<String>,
    /// The error, if the write failed.
    pub error: Option<ApiError>,
}

impl Written {
    /// The verb and the target: `create v1/Pod default/web-1`.
    pub(super) fn target(&self) -> String {
        let mut line = format!("{} {}", self.verb, self.kind);
        if !self.subresource.is_empty() {
            line = format!("{line}/{}", self.subresource);
        }
        match self.name.as_str() {
            "" => format!("{line} {}", self.namespace),
            name => format!("{line} {}", crate::Key::new(&self.namespace, name)),
        }
    }
}

/// `create v1/Pod default/web-1`; `update v1/Pod/status default/web-1: … (409 Conflict)`;
/// `deletecollection v1/Pod default`; `create a.b/v1/C d/e: warning: unknown field "spec.txt"`
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.target())?;
        let mut warnings = self.warnings.iter();
        warnings.try_for_each(|warning| write!(f, ": warning: {warning}"))?;
        self.error
            .iter()
            .try_for_each(|error| write!(f, ": {error}"))
    }
}

/// An emitted event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: ObjectReference,
    /// `Normal` or `Warning`.
    pub event_type: String,
    pub reason: String,
    pub message: String,
    /// The event's action, related object, annotations and resource version.
    pub options: EventOptions,
}

/// The identity of an event: the object's kind, namespace, name and UID, and the event's type, reason and message.
pub(super) type EventIdentity = [String; 7];

impl Event {
    pub(super) fn identity(&self) -> EventIdentity {
        let about = &self.about;
        let object = [&about.kind, &about.namespace, &about.name, &about.uid];
        let [kind, namespace, name, uid] = object.map(String::clone);
        let [event_type, reason, message] =
            [&self.event_type, &self.reason, &self.message].map(String::clone);
        [kind, namespace, name, uid, event_type, reason, message]
    }
}

/// `Normal SuccessfulCreate Created pod: web-1`
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.event_type, self.reason, self.message)
    }
}

/// A logged message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub level: Level,
    pub message: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

/// A signed token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub key: String,
    pub claims: Value,
    pub token: String,
}

/// A key that was enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    pub queue: String,
    pub key: String,
    /// The delay.
    pub delay: Duration,
}
