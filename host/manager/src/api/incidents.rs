//! Reports what an operator should know of a plugin: what it is denied, and what its `route` fails on. Each is counted, and
//! recorded as an event about the plugin's account, so that an operator sees what a policy lacks, or what a plugin should
//! not have tried.

use std::sync::Arc;
use std::time::SystemTime;

use flyball_plugin::ObjectReference;
use flyball_serving::metrics::Counter;
use flyball_types::{ApiError, EventOptions, HostReason};

use crate::api::events::{Event, Recorder};
use crate::limits::host_limits::HostLimits;

/// The longest message in bytes, which is the API's limit for events. The rest is cut off.
const MAX_MESSAGE: usize = 1024;

/// Counts and reports the incidents of one plugin.
pub(crate) struct Incidents {
    pub(crate) plugin: Arc<str>,
    pub(crate) count: Counter,
    /// The host's own, because the plugin may have no right to record events.
    pub(crate) recorder: Arc<Recorder>,
    /// The namespace and the name of the plugin's service account. Without one, no event is recorded.
    pub(crate) account: Option<(String, String)>,
    /// The plugin's own: a flood of incidents is no more than a flood of log lines and events.
    pub(crate) limits: Arc<HostLimits>,
}

impl Incidents {
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
        // It may name what the guest asked for, which has any length.
        let message = &message[..message.floor_char_boundary(MAX_MESSAGE)];
        if tracing::enabled!(tracing::Level::DEBUG) && self.limits.log_lines.pass_line(message) {
            tracing::debug!(plugin = &*self.plugin, message, "denied");
        }
        self.record("PluginDenied", message);
    }

    /// Reports that the guest's `route` failed on a delta of this object.
    pub(crate) fn route_failed(&self, object: &str, error: &str) {
        self.record(
            "RouteFailed",
            &format!("`route` failed on {object}: {error}"),
        );
    }

    fn record(&self, reason: &str, message: &str) {
        if let Some((namespace, name)) = &self.account
            && self.limits.events.pass()
        {
            self.recorder.emit(Event {
                about: ObjectReference {
                    kind: "v1/ServiceAccount".into(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: String::new(),
                },
                event_type: "Warning".into(),
                reason: reason.into(),
                message: format!("plugin {}: {message:.900}", self.plugin),
                options: EventOptions::default(),
                at: SystemTime::now(),
            });
        }
    }
}
