//! Records the events of one plugin: correlates them as client-go does, and sends them one after another in the background,
//! so that emitting an event never waits and never fails.

mod correlator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::source::PROTOBUF_METADATA;
use flyball_cache::{ApiResource, PathSegmentError};
use flyball_plugin::ObjectReference;
use flyball_types::{ApiError, EventOptions, EventReference, Kind};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::correlator::{Correlated, Correlator};
use crate::api::client::{ApiClient, ApiRequest};
use crate::limits::rate::RateGate;

/// The longest options of an event, in bytes.
const OPTIONS: usize = 8192;
/// How many events may wait to be sent. More are dropped, as in client-go.
const WAITING: usize = 1000;
/// How often an event is retried if the server can't be reached, and how long each retry waits.
const RETRIES: u32 = 12;
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// An event of a guest or of the host.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) about: ObjectReference,
    pub(crate) event_type: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) options: EventOptions,
    pub(crate) at: SystemTime,
}

pub(crate) struct Recorder {
    sender: mpsc::Sender<Event>,
    task: JoinHandle<()>,
    plugin: Arc<str>,
    /// Whether malformed options were logged: once is enough.
    warned: AtomicBool,
    /// Lines of the log about dropped events.
    drops: RateGate,
}

impl Recorder {
    /// Starts a recorder. `source` becomes the events' `source.component`.
    pub(crate) fn start(client: ApiClient, plugin: Arc<str>, source: String) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let sending = Sending {
            client,
            source,
            correlator: Correlator::default(),
        };
        Self {
            sender,
            task: tokio::spawn(sending.run(receiver)),
            plugin,
            warned: AtomicBool::new(false),
            drops: RateGate::new(1.0, 10),
        }
    }

    /// Reads the options that a guest gives to an event. Malformed ones are logged once and dropped.
    pub(crate) fn options(&self, document: &[u8]) -> EventOptions {
        let malformed = |error: String| {
            if !self.warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    plugin = &*self.plugin,
                    error,
                    "dropped the malformed options of an event; later ones are dropped without a log line"
                );
            }
            EventOptions::default()
        };
        if document.len() > OPTIONS {
            return malformed(format!(
                "they have {} bytes, more than {OPTIONS}",
                document.len()
            ));
        }
        EventOptions::parse(document).unwrap_or_else(|error| malformed(error.to_string()))
    }

    /// Records an event, or drops it if too many are waiting.
    pub(crate) fn emit(&self, event: Event) {
        if let Err(error) = self.sender.try_send(event)
            && self.drops.pass()
        {
            let event = error.into_inner();
            tracing::warn!(
                plugin = &*self.plugin,
                reason = event.reason,
                "dropped an event: too many are waiting to be sent"
            );
        }
    }

    /// Sends the waiting events, for so long at most, and ends.
    pub(crate) async fn drain(self, at_most: Duration) {
        drop(self.sender);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(at_most, self.task).await.is_err() {
            tracing::warn!(plugin = &*self.plugin, "gave up sending the last events");
            abort.abort();
        }
    }
}

struct Sending {
    client: ApiClient,
    source: String,
    correlator: Correlator,
}

impl Sending {
    async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            let Some(correlated) = self.correlator.correlate(event, Instant::now()) else {
                continue;
            };
            self.send(correlated).await;
        }
    }

    async fn send(&mut self, event: Correlated) {
        for retry in 0..=RETRIES {
            if retry > 0 {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            match self.try_send(&event).await {
                Ok(name) => return self.correlator.sent(&event, name),
                Err(error) if error.status >= 500 => {
                    tracing::debug!(%error, reason = event.event.reason, "an event could not be sent yet");
                }
                Err(error) => {
                    // A terminating namespace accepts no more events: this is not an error.
                    tracing::debug!(%error, reason = event.event.reason, "the server refused an event");
                    return;
                }
            }
        }
        tracing::warn!(
            reason = event.event.reason,
            "gave up on an event: the server could not be reached"
        );
    }

    /// Sends an event and returns its name.
    async fn try_send(&self, correlated: &Correlated) -> Result<String, ApiError> {
        let event = &correlated.event;
        let namespace = if event.about.namespace.is_empty() {
            "default"
        } else {
            &event.about.namespace
        };
        let time = format_time(event.at);
        let events = ApiResource::new(Kind::new("", "v1", "Event"), "events", true);
        let invalid = |error: PathSegmentError| ApiError::invalid(error.to_string());
        let collection = events.collection(namespace).map_err(invalid)?;
        if let Some(name) = &correlated.known_as {
            let patch =
                json!({"count": correlated.count, "lastTimestamp": time, "message": event.message});
            let path = events.object(namespace, name, "").map_err(invalid)?;
            let call = ApiRequest::patch(
                path,
                "application/strategic-merge-patch+json",
                Bytes::from(patch.to_string()),
            );
            match self.client.send(call.accept(PROTOBUF_METADATA)).await {
                Ok(_) => return Ok(name.clone()),
                // The event has expired: it is created again below.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let nanoseconds = event
            .at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let name = format!("{}.{nanoseconds:x}", event.about.name);
        let body = object(correlated, namespace, &name, &self.source)?;
        // The answer is not used: this form is the shortest.
        let call =
            ApiRequest::post(collection, Bytes::from(body.to_string())).accept(PROTOBUF_METADATA);
        self.client.send(call).await.map(|_| name)
    }
}

/// An event as the API has it.
fn object(
    correlated: &Correlated,
    namespace: &str,
    name: &str,
    source: &str,
) -> Result<Value, ApiError> {
    let event = &correlated.event;
    let time = format_time(event.at);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": reference(&event.about)?,
        "type": event.event_type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": source},
        "reportingComponent": source,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": correlated.count,
    });
    let EventOptions {
        action,
        related,
        annotations,
    } = &event.options;
    if !action.is_empty() {
        object["action"] = action.as_str().into();
    }
    if let Some(related) = related {
        let EventReference {
            kind,
            namespace,
            name,
            uid,
        } = related.clone();
        object["related"] = reference(&ObjectReference {
            kind,
            namespace,
            name,
            uid,
        })?;
    }
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = json!(annotations);
    }
    Ok(object)
}

/// An object as an event names it.
fn reference(object: &ObjectReference) -> Result<Value, ApiError> {
    let kind: Kind = object
        .kind
        .parse()
        .map_err(|error| ApiError::invalid(format!("{error}")))?;
    Ok(json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "namespace": object.namespace, "name": object.name, "uid": object.uid,
    }))
}

fn format_time(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let timestamp = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_an_event_go_into_its_object() {
        let document = br#"{"action": "Binding", "annotations": {"a": "b"},
                            "related": {"kind": "v1/Node", "name": "n"}}"#;
        let about = ObjectReference {
            kind: "v1/Pod".into(),
            namespace: "demo".into(),
            name: "web".into(),
            uid: "1".into(),
        };
        let event = |options| Event {
            about: about.clone(),
            event_type: "Normal".into(),
            reason: "Scheduled".into(),
            message: "m".into(),
            options,
            at: SystemTime::UNIX_EPOCH,
        };
        let object = |options| {
            let correlated = Correlator::default()
                .correlate(event(options), Instant::now())
                .unwrap();
            object(&correlated, "demo", "web.1", "scheduler").unwrap()
        };
        let with = object(EventOptions::parse(document).unwrap());
        assert_eq!(with["action"], "Binding");
        assert_eq!(with["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(
            with["related"],
            json!({"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "n", "uid": ""})
        );
        let without = object(EventOptions::default());
        assert!(without.get("action").is_none() && without.get("related").is_none());
        assert!(without["metadata"].get("annotations").is_none());
    }

    #[test]
    fn times_are_written_in_whole_seconds() {
        assert_eq!(
            format_time(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_900)),
            "2023-11-14T22:13:20Z"
        );
    }
}
