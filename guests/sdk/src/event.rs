//! Events about objects: `host.emit(Event::normal(&about, "Created", "Created pod web-1"))`.

use flyball_types::{EventOptions, EventReference};

use crate::imports::ObjectReference;

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
    /// An event of something that went as it should.
    pub fn normal(about: &'a ObjectReference, reason: &'a str, message: &'a str) -> Self {
        Self::new("Normal", about, reason, message)
    }

    /// An event of something that did not go as it should.
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
            options: EventOptions::default(),
        }
    }

    /// What was done, in one word in camel case.
    pub fn action(mut self, action: &str) -> Self {
        self.options.action = action.into();
        self
    }

    /// A second object that the event is about.
    pub fn related(mut self, object: &ObjectReference) -> Self {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        self.options.related = Some(EventReference {
            kind,
            namespace,
            name,
            uid,
        });
        self
    }

    /// Adds an annotation to the event.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.options.annotations.insert(name.into(), value.into());
        self
    }
}
