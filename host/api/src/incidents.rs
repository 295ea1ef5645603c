//! Reports a plugin's incidents to the operator: requests that it is denied, and failures of its `route`. Each is
//! counted, and recorded as an event about the plugin's account, so that an operator sees which grant a policy lacks,
//! or which request a plugin should not have tried.

use std::sync::Arc;
use std::time::SystemTime;

use flyball_limits::host_limits::HostLimits;
use flyball_plugin::ObjectReference;
use flyball_serving::metrics::Counter;
use flyball_types::{ApiError, EventOptions, HostReason, printable};

use crate::events::{Event, Recorder};

/// The longest message in bytes, which is the API's limit for events. The rest is cut off.
const MAX_MESSAGE: usize = 1024;

/// Counts and reports the incidents of one plugin.
pub struct Incidents {
    pub plugin: Arc<str>,
    pub is_builtin: bool,
    pub count: Counter,
    /// The host's own recorder, because the plugin may have no right to record events.
    pub recorder: Arc<Recorder>,
    /// The namespace and the name of the plugin's service account. Without one, no event is recorded.
    pub account: Option<(String, String)>,
    /// The plugin's own limits. They apply to incidents as they apply to log lines and events.
    pub limits: Arc<HostLimits>,
}

impl Incidents {
    /// Returns the result of a call, and reports it if the call was denied.
    pub fn report_denial<T>(&self, answer: Result<T, ApiError>) -> Result<T, ApiError> {
        if let Err(error) = &answer
            && error.reason == HostReason::Denied.as_str()
        {
            self.denied(&error.message);
        }
        answer
    }

    fn denied(&self, message: &str) {
        self.count.inc();
        // The message may quote arguments of the guest, which have any length.
        let message = &message[..message.floor_char_boundary(MAX_MESSAGE)];
        if self.is_builtin {
            if self.limits.log_lines.pass_line(message) {
                tracing::error!(
                    plugin = &*self.plugin,
                    message,
                    "the host's own policy denied a built-in controller a request: report this"
                );
            }
        } else if tracing::enabled!(tracing::Level::DEBUG)
            && self.limits.log_lines.pass_line(message)
        {
            tracing::debug!(plugin = &*self.plugin, message, "denied");
        }
        self.record("Warning", "PluginDenied", message);
    }

    /// Reports that the guest's `route` failed on a delta of this object.
    pub fn route_failed(&self, object: &str, error: &str) {
        self.record(
            "Warning",
            "RouteFailed",
            &format!("`route` failed on {object}: {error}"),
        );
    }

    /// Reports how a canary of the plugin goes on. The type is `Normal` or `Warning`.
    pub fn canary(&self, event_type: &str, reason: &str, message: &str) {
        self.record(event_type, reason, message);
    }

    /// Records an event about the plugin's account.
    fn record(&self, event_type: &str, reason: &str, message: &str) {
        if let Some((namespace, name)) = &self.account
            && self.limits.events.pass()
        {
            self.recorder.emit_own(Event {
                about: ObjectReference {
                    kind: "v1/ServiceAccount".into(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: String::new(),
                },
                event_type: event_type.into(),
                reason: reason.into(),
                message: text(&self.plugin, message),
                options: EventOptions::default(),
                at: SystemTime::now(),
            });
        }
    }
}

/// The text of an event: one line of a length that the API accepts, although parts of it are the guest's.
fn text(plugin: &str, message: &str) -> String {
    let mut text = printable(&format!("plugin {plugin}: {message}"));
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_guest_makes_another_line_of_an_event() {
        let message =
            "denied in the namespace x\n\nplugin job-controller: approved\u{1b}[2J\u{202e}";
        let text = text("a", message);
        assert!(text.starts_with("plugin a: denied"), "{text}");
        for hidden in ['\n', '\u{1b}', '\u{202e}'] {
            assert!(!text.contains(hidden), "{text}");
        }
        assert!(super::text("a", &"\n".repeat(900)).len() <= MAX_MESSAGE);
    }
}
