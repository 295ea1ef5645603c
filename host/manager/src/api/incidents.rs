//! Counts what plugins are denied, and records it as an event about the plugin's account, so that an operator sees what a
//! policy lacks, or what a plugin should not have tried.

use std::sync::Arc;
use std::time::SystemTime;

use flyball_plugin::ObjectReference;
use flyball_serving::metrics::Counter;
use flyball_types::{ApiError, EventOptions, HostReason};

use crate::api::events::{Event, Recorder};

/// Counts and reports what one plugin is denied.
pub(crate) struct Denials {
    pub(crate) plugin: Arc<str>,
    pub(crate) count: Counter,
    /// The host's own, because the plugin may have no right to record events.
    pub(crate) recorder: Arc<Recorder>,
    /// The namespace and the name of the plugin's service account. Without one, no event is recorded.
    pub(crate) account: Option<(String, String)>,
}

impl Denials {
    /// Returns the result of a call, and reports it if the call was denied.
    pub(crate) fn seen<T>(&self, answer: Result<T, ApiError>) -> Result<T, ApiError> {
        if let Err(error) = &answer
            && error.reason == HostReason::Denied.as_str()
        {
            self.denied(&error.message);
        }
        answer
    }

    fn denied(&self, message: &str) {
        self.count.inc();
        tracing::debug!(plugin = &*self.plugin, message, "denied");
        if let Some((namespace, name)) = &self.account {
            self.recorder.emit(Event {
                about: ObjectReference {
                    kind: "v1/ServiceAccount".into(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: String::new(),
                },
                event_type: "Warning".into(),
                reason: "PluginDenied".into(),
                message: format!("plugin {}: {message}", self.plugin),
                options: EventOptions::default(),
                at: SystemTime::now(),
            });
        }
    }
}
