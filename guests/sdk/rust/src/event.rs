//! Events about objects: `host.emit(Event::normal(&about, "Created", "Created pod web-1"))`.

use flyball_types::{EventOptions, EventReference};

use crate::reference::ObjectReference;

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an event is recorded when it is emitted"]
pub struct Event<'a> {
    pub(crate) about: &'a ObjectReference,
    pub(crate) event_type: &'static str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    pub(crate) options: EventOptions,
}

impl<'a> Event<'a> {
    /// An event about a success.
    pub fn normal(about: &'a ObjectReference, reason: &'a str, message: &'a str) -> Self {
        Self::new("Normal", about, reason, message)
    }

    /// An event about a problem.
    pub fn warning(about: &'a ObjectReference, reason: &'a str, message: &'a str) -> Self {
        Self::new("Warning", about, reason, message)
    }

    fn new(
        event_type: &'static str,
        about: &'a ObjectReference,
        reason: &'a str,
        message: &'a str,
    ) -> Self {
        Self {
            about,
            event_type,
            reason,
            message,
            options: EventOptions {
                resource_version: about.resource_version.clone(),
                ..EventOptions::default()
            },
        }
    }

    /// Sets the action, in CamelCase.
    pub fn action(mut self, action: &str) -> Self {
        self.options.action = action.into();
        self
    }

    /// Sets a second object that the event refers to.
    pub fn related(mut self, object: &ObjectReference) -> Self {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            resource_version: _,
        } = object.clone();
        self.options.related = Some(EventReference {
            kind,
            namespace,
            name,
            uid,
        });
        self
    }

    /// Makes it an event of `events.k8s.io/v1`, reported by a controller of this name. It needs an action.
    pub fn reporting_controller(mut self, name: &str) -> Self {
        self.options.reporting_controller = name.into();
        self
    }

    /// Emits the event only if the plugin has not emitted the same one within the last hour.
    pub fn once(mut self) -> Self {
        self.options.once = true;
        self
    }

    /// Adds an annotation to the event.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.options.annotations.insert(name.into(), value.into());
        self
    }
}
