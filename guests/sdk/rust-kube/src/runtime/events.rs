//! Events about objects, as kube has them. The host aggregates and limits them.

use flyball_sdk::{Event as SdkEvent, ObjectReference as SdkReference};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::client::Client;
use crate::current;
use crate::error::Result;

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    pub type_: EventType,
    /// The reason, in CamelCase.
    pub reason: String,
    /// A sentence for people.
    pub note: Option<String>,
    /// The action, in CamelCase.
    pub action: String,
    /// A second object that the event refers to.
    pub secondary: Option<ObjectReference>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// The name under which events are reported. It has no effect: the host reports events under the plugin's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reporter {
    pub controller: String,
    pub instance: Option<String>,
}

impl From<String> for Reporter {
    fn from(controller: String) -> Self {
        Self {
            controller,
            instance: None,
        }
    }
}

impl From<&str> for Reporter {
    fn from(controller: &str) -> Self {
        controller.to_owned().into()
    }
}

/// Publishes events.
#[derive(Clone, Debug)]
pub struct Recorder {
    _private: (),
}

impl Recorder {
    /// Returns a recorder. Neither argument has an effect.
    #[must_use]
    pub fn new(_client: Client, _reporter: Reporter) -> Self {
        Self { _private: () }
    }

    /// Publishes an event about an object.
    ///
    /// # Errors
    /// The function is called outside of a reconcile. It doesn't wait for the API server's answer.
    pub async fn publish(&self, event: &Event, reference: &ObjectReference) -> Result<()> {
        let about = SdkReference::from(reference);
        let note = event.note.as_deref().unwrap_or_default();
        let new = match event.type_ {
            EventType::Normal => SdkEvent::normal,
            EventType::Warning => SdkEvent::warning,
        };
        let mut emitted = new(&about, &event.reason, note).action(&event.action);
        if let Some(secondary) = &event.secondary {
            emitted = emitted.related(&secondary.into());
        }
        current::with(|host, _| {
            host.emit(emitted);
            Ok(())
        })
    }
}
