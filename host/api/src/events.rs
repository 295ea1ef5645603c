//! Records the events of one plugin: correlates them as client-go does, and sends them one after another in the
//! background, so that emitting an event never waits and never fails. An event that names a reporting controller is one
//! of `events.k8s.io/v1`, and others are of the core API; client-go has a recorder for each.

mod correlator;
mod object;
mod recent;
mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::source::PROTOBUF_METADATA;
use flyball_cache::{ApiResource, PathSegmentError};
use flyball_limits::rate::RateGate;
use flyball_policy::imports::MayRecord;
use flyball_types::{ApiError, EventOptions, HostReason, Kind};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::correlator::Correlator;
use self::object::Correlated;
pub use self::object::Event;
use self::series::{Recount, Reported, Series};
use crate::client::{ApiClient, ApiRequest, Failed};
use crate::rights::{HostRight, HostScope, HostVerb};

/// The host records events about its lease, and about the accounts of plugins.
const CREATE: HostRight = HostRight {
    verb: HostVerb::Create,
    group: "",
    resource: "events",
    scope: HostScope::LeaseAndAccountNamespaces,
};
const PATCH: HostRight = HostRight {
    verb: HostVerb::Patch,
    ..CREATE
};
pub(super) const RIGHTS: [HostRight; 2] = [CREATE, PATCH];
/// Only plugins record these events, with the rights of their own accounts.
const CREATE_REPORTED: HostRight = HostRight {
    group: REPORTED,
    ..CREATE
};
const PATCH_REPORTED: HostRight = HostRight {
    group: REPORTED,
    ..PATCH
};

/// The group of events that name a reporting controller.
const REPORTED: &str = "events.k8s.io";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// The longest options of an event, in bytes.
const OPTIONS: usize = 8192;
/// The maximum number of events that wait to be sent. More are dropped, like in client-go.
const WAITING: usize = 1000;
/// The maximum number of attempts to send an event while the server does not answer, and the pause between them. The
/// first pause is a random part of it.
const ATTEMPTS: u32 = 12;
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The types that an event may have.
const TYPES: [&str; 2] = ["Normal", "Warning"];

pub struct Recorder {
    /// Boxed, because a channel has room for 32 values from the start, and few plugins emit many events.
    sender: mpsc::Sender<Box<Waiting>>,
    task: JoinHandle<()>,
    plugin: Arc<str>,
    /// Whether malformed options were logged. They are logged only once.
    warned: AtomicBool,
    /// Lines of the log about dropped events.
    drops: RateGate,
}

/// An event that waits to be sent.
struct Waiting {
    /// Without its options.
    event: Event,
    /// The document of the options: parsed, small annotations take many times as much memory.
    options: Box<[u8]>,
}

impl Recorder {
    /// Starts a recorder. `source` becomes the events' `source.component`.
    pub fn start(client: ApiClient, plugin: Arc<str>, source: String) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let sending = Sending {
            client,
            source,
            correlator: Correlator::default(),
            series: Series::default(),
            host: hostname(),
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
    pub fn options(&self, document: &[u8]) -> EventOptions {
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

    /// Records an event of a guest. The event is dropped if too many are waiting, or if the API does not have its type.
    pub fn emit(&self, _: &MayRecord, event: Event) {
        self.emit_own(event);
    }

    /// Like [`emit`](Self::emit), for the host's own events.
    pub(super) fn emit_own(&self, mut event: Event) {
        if !TYPES.contains(&&*event.event_type) {
            if self.drops.pass() {
                tracing::warn!(
                    plugin = &*self.plugin,
                    reason = event.reason,
                    event_type = event.event_type,
                    "dropped an event of an unknown type"
                );
            }
            return;
        }
        let options = std::mem::take(&mut event.options).to_document().into();
        let waiting = Box::new(Waiting { event, options });
        if let Err(error) = self.sender.try_send(waiting)
            && self.drops.pass()
        {
            let dropped = error.into_inner();
            tracing::warn!(
                plugin = &*self.plugin,
                reason = dropped.event.reason,
                "dropped an event: too many are waiting to be sent"
            );
        }
    }

    /// Sends the waiting events, for at most this time, and ends.
    pub async fn drain(self, at_most: Duration) {
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
    series: Series,
    /// The name of this machine.
    host: String,
}

/// An event, or a count, as it is sent.
enum ToSend {
    Correlated(Correlated),
    Reported(Reported),
    Recount(Recount),
}

impl Sending {
    async fn run(mut self, mut waiting: mpsc::Receiver<Box<Waiting>>) {
        loop {
            let due = self.series.due();
            let recount = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                next = waiting.recv() => match next {
                    Some(next) => self.record(*next).await,
                    None => return,
                },
                () = recount => {
                    for count in self.series.recount(Instant::now()) {
                        self.send(&ToSend::Recount(count)).await;
                    }
                }
            }
        }
    }

    async fn record(&mut self, Waiting { mut event, options }: Waiting) {
        event.options =
            EventOptions::parse(&options).expect("the document was written from options");
        let now = Instant::now();
        let sent = if event.options.reporting_controller.is_empty() {
            let correlated = self.correlator.correlate(event, now, SystemTime::now());
            correlated.map(ToSend::Correlated)
        } else if self.correlator.is_repeated(&event, now) {
            None
        } else {
            self.series.add(event, now).map(ToSend::Reported)
        };
        if let Some(sent) = sent {
            self.send(&sent).await;
        }
    }

    /// Sends an event. Like in client-go, other events wait only while the server does not answer at all. An event that
    /// the server refuses, or that makes it fail, is dropped.
    async fn send(&self, event: &ToSend) {
        let reason = event.reason();
        for attempt in 1..=ATTEMPTS {
            let sent = match event {
                ToSend::Correlated(correlated) => self.try_send(correlated).await,
                ToSend::Reported(reported) => self.try_report(reported).await,
                ToSend::Recount(recount) => self.try_recount(recount).await,
            };
            let Err(failed) = sent else {
                return;
            };
            let Failed { error, .. } = &failed;
            if !is_retried(&failed) {
                // A terminating namespace accepts no more events: this is not an error.
                tracing::debug!(%error, reason, "the server refused an event");
                return;
            }
            tracing::debug!(%error, reason, "an event could not be sent yet");
            match attempt {
                ATTEMPTS => {}
                1 => tokio::time::sleep(RETRY_DELAY.mul_f64(rand::random())).await,
                _ => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
        tracing::warn!(
            reason,
            "gave up on an event: the server could not be reached"
        );
    }

    async fn try_send(&self, correlated: &Correlated) -> Result<(), Failed> {
        let namespace = object::namespace(&correlated.event.about);
        let (events, name) = (resource(""), &correlated.name);
        if correlated.count > 1 {
            let path = events.object(namespace, name, "").map_err(invalid)?;
            let patch = object::patch(correlated);
            match self.send_patch(PATCH, path, &patch).await {
                // The event has expired, or was never created. It is created below, with the same name and count.
                Err(failed) if failed.is_answer && failed.error.is_not_found() => {}
                result => return result,
            }
        }
        let body = object::object(correlated, namespace, &self.source)?;
        let collection = events.collection(namespace).map_err(invalid)?;
        self.send_new(CREATE, collection, &body).await
    }

    async fn try_report(&self, reported: &Reported) -> Result<(), Failed> {
        let namespace = object::namespace(&reported.event.about);
        let (events, name) = (resource(REPORTED), &reported.name);
        if let Some(count) = reported.series {
            let path = events.object(namespace, name, "").map_err(invalid)?;
            let patch = object::recount(count);
            match self.send_patch(PATCH_REPORTED, path, &patch).await {
                // As above.
                Err(failed) if failed.is_answer && failed.error.is_not_found() => {}
                result => return result,
            }
        }
        let body = object::reported(reported, namespace, &self.host)?;
        let collection = events.collection(namespace).map_err(invalid)?;
        self.send_new(CREATE_REPORTED, collection, &body).await
    }

    async fn try_recount(&self, recount: &Recount) -> Result<(), Failed> {
        let Recount {
            namespace,
            name,
            count,
        } = recount;
        let path = resource(REPORTED).object(namespace, name, "");
        let path = path.map_err(invalid)?;
        let patch = object::recount(*count);
        self.send_patch(PATCH_REPORTED, path, &patch).await
    }

    async fn send_patch(
        &self,
        right: HostRight,
        path: String,
        patch: &Value,
    ) -> Result<(), Failed> {
        let patch = Bytes::from(patch.to_string());
        let request = ApiRequest::own(right, path, patch).content_type(STRATEGIC_PATCH);
        self.send_request(request).await
    }

    async fn send_new(&self, right: HostRight, path: String, body: &Value) -> Result<(), Failed> {
        let body = Bytes::from(body.to_string());
        self.send_request(ApiRequest::own(right, path, body)).await
    }

    async fn send_request(&self, request: ApiRequest) -> Result<(), Failed> {
        // The answer is not used: this form is the shortest.
        let request = request.accept(PROTOBUF_METADATA);
        self.client.send_noting_answer(request).await.map(drop)
    }
}

impl ToSend {
    /// The reason, for the log; the event's name if it is not known.
    fn reason(&self) -> &str {
        match self {
            Self::Correlated(correlated) => &correlated.event.reason,
            Self::Reported(reported) => &reported.event.reason,
            Self::Recount(recount) => &recount.name,
        }
    }
}

/// The resource of events in a group.
fn resource(group: &str) -> ApiResource {
    ApiResource::new(Kind::new(group, "v1", "Event"), "events", true)
}

fn invalid(error: PathSegmentError) -> ApiError {
    ApiError::invalid(error.to_string())
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Whether an event is sent again. It is if no answer came, unless the host itself refused to send it.
fn is_retried(failed: &Failed) -> bool {
    let Failed { error, is_answer } = failed;
    !is_answer && error.status >= 500 && error.reason != HostReason::Fenced.as_str()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use flyball_cache::Connection;
    use flyball_fakes::server::{Log, Reply, serve};
    use flyball_plugin::ObjectReference;
    use serde_json::json;

    use super::*;
    use crate::fence::Fence;

    fn event(name: &str, reason: &str) -> Event {
        Event {
            about: ObjectReference {
                kind: "v1/Pod".into(),
                namespace: "demo".into(),
                name: name.into(),
                uid: "1".into(),
            },
            event_type: "Normal".into(),
            reason: reason.into(),
            message: "m".into(),
            options: EventOptions::default(),
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        }
    }

    /// Sends events through a recorder until all are sent or dropped.
    async fn send(connection: Connection, fence: Fence, events: Vec<Event>) {
        let client = ApiClient::new(connection, None, "test", Arc::new(fence));
        let recorder = Recorder::start(client, "plugin".into(), "component".into());
        events
            .into_iter()
            .for_each(|event| recorder.emit_own(event));
        recorder.drain(Duration::from_secs(1000)).await;
    }

    fn created(log: &Log) -> Vec<String> {
        let reason = |body: Value| body["reason"].as_str().unwrap_or_default().to_owned();
        let requests = log.take_requests().into_iter();
        requests.map(|request| reason(request.body)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_makes_the_server_fail_does_not_hold_up_others() {
        for status in [400, 409, 500, 503, 504] {
            let (connection, log) = serve(move |request| match &request.body["reason"] {
                reason if reason == "Bad" => Reply::refusal(status, "Timeout"),
                _ => Reply::Json(201, json!({})),
            });
            let begun = Instant::now();
            let events = vec![event("web", "Bad"), event("web", "Good")];
            send(connection, Fence::open(), events).await;
            assert_eq!(created(&log), ["Bad", "Good"], "{status}");
            assert!(begun.elapsed() < Duration::from_secs(1), "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_without_an_answer_is_sent_twelve_times() {
        let (connection, log) = serve(|request| match &request.body["reason"] {
            reason if reason == "Lost" => Reply::Nothing,
            _ => Reply::Json(201, json!({})),
        });
        let events = vec![event("web", "Lost"), event("web", "Good")];
        send(connection, Fence::open(), events).await;
        let created = created(&log);
        assert_eq!(created.len(), 13);
        assert_eq!(created.last().map(String::as_str), Some("Good"));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_while_another_process_leads() {
        let (connection, log) = serve(|_| Reply::Json(201, json!({})));
        let begun = Instant::now();
        send(connection, Fence::closed(), vec![event("web", "A")]).await;
        assert!(log.take().is_empty());
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_event_is_patched_and_created_again_once_it_has_expired() {
        let patches = AtomicU32::new(0);
        let (connection, log) = serve(move |request| match request.method.as_str() {
            "PATCH" if patches.fetch_add(1, Ordering::Relaxed) == 1 => {
                Reply::refusal(404, "NotFound")
            }
            _ => Reply::Json(201, json!({})),
        });
        let later = |seconds| Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            ..event("web", "A")
        };
        send(
            connection,
            Fence::open(),
            vec![later(1), later(2), later(3)],
        )
        .await;
        let requests = log.take_requests();
        let sent: Vec<(&str, &str)> = requests
            .iter()
            .map(|request| (request.method.as_str(), request.path.as_str()))
            .collect();
        let (all, one) = (
            "/api/v1/namespaces/demo/events",
            "/api/v1/namespaces/demo/events/web.3b9aca00",
        );
        assert_eq!(
            sent,
            [("POST", all), ("PATCH", one), ("PATCH", one), ("POST", all)]
        );
        assert_eq!(
            requests[1].body,
            json!({"count": 2, "lastTimestamp": "1970-01-01T00:00:02Z", "message": "m"})
        );
        let again = &requests[3].body;
        assert_eq!(again["metadata"]["name"], "web.3b9aca00");
        assert_eq!(again["count"], 3);
        assert_eq!(again["firstTimestamp"], "1970-01-01T00:00:01Z");
        assert_eq!(again["lastTimestamp"], "1970-01-01T00:00:03Z");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_with_a_reporting_controller_becomes_a_series_of_the_newer_api() {
        let (connection, log) = serve(|_| Reply::Json(201, json!({})));
        let reported = || {
            let mut event = event("web", "A");
            event.options.reporting_controller = "example.com/web".into();
            event.options.action = "Creating".into();
            event
        };
        send(
            connection,
            Fence::open(),
            vec![reported(), reported(), reported()],
        )
        .await;
        let requests = log.take_requests();
        let sent: Vec<(&str, &str)> = requests
            .iter()
            .map(|request| (request.method.as_str(), request.path.as_str()))
            .collect();
        let (all, one) = (
            "/apis/events.k8s.io/v1/namespaces/demo/events",
            "/apis/events.k8s.io/v1/namespaces/demo/events/web.3b9aca00",
        );
        assert_eq!(sent, [("POST", all), ("PATCH", one)]);
        assert_eq!(requests[0].body["reportingController"], "example.com/web");
        assert_eq!(requests[1].body["series"]["count"], 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_combined_event_has_no_more_fields_than_that_of_client_go() {
        let (connection, log) = serve(|_| Reply::Json(201, json!({})));
        let annotated = |number: u32| {
            let mut event = event("web", "A");
            event.message = format!("m{number}");
            event.options.annotations = [("a".to_owned(), "b".to_owned())].into();
            event.options.resource_version = "7".into();
            event
        };
        send(connection, Fence::open(), (0..10).map(annotated).collect()).await;
        let requests = log.take_requests();
        let (separate, combined) = (&requests[0].body, &requests[9].body);
        assert_eq!(separate["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(separate["reportingComponent"], "component");
        assert!(combined["metadata"].get("annotations").is_none());
        assert!(combined.get("reportingComponent").is_none());
        assert_eq!(combined["source"]["component"], "component");
        assert_eq!(combined["involvedObject"]["resourceVersion"], "7");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_of_an_unknown_type_is_dropped() {
        let (connection, log) = serve(|_| Reply::Json(201, json!({})));
        let mut odd = event("web", "A");
        odd.event_type = "Odd".into();
        send(connection, Fence::open(), vec![odd]).await;
        assert!(log.take().is_empty());
    }
}
