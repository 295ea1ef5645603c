//! An event, as it is emitted and as the two APIs have it, and its name.

use std::time::SystemTime;

use flyball_plugin::ObjectReference;
use flyball_types::{ApiError, EventOptions, EventReference, Kind};
use serde_json::{Value, json};

use super::series::{Count, Reported};

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;
/// The longest name of a reporting instance.
const MAX_INSTANCE: usize = 128;

/// An event of a guest or of the host.
#[derive(Clone, Debug)]
pub struct Event {
    pub about: ObjectReference,
    pub event_type: String,
    pub reason: String,
    pub message: String,
    pub options: EventOptions,
    pub at: SystemTime,
}

/// An event to send.
#[derive(Clone, Debug)]
pub(crate) struct Correlated {
    /// The event as it occurred last.
    pub event: Event,
    /// The name that its first occurrence got.
    pub name: String,
    /// Time of its first occurrence.
    pub first: SystemTime,
    /// Number of occurrences. Occurrences above the limit count too.
    pub count: u32,
    /// Whether it stands for similar events.
    pub(crate) is_combined: bool,
}

/// Returns the event's object, to create it.
pub(super) fn object(
    correlated: &Correlated,
    namespace: &str,
    source: &str,
) -> Result<Value, ApiError> {
    let event = &correlated.event;
    let EventOptions {
        action,
        related,
        annotations,
        resource_version,
        reporting_controller: _,
        once: _,
    } = &event.options;
    let mut about = reference(&event.about)?;
    if !resource_version.is_empty() {
        about["resourceVersion"] = resource_version.as_str().into();
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": correlated.name, "namespace": namespace},
        "involvedObject": about,
        "type": event.event_type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": source},
        "firstTimestamp": format_time(correlated.first),
        "lastTimestamp": format_time(event.at),
        "count": correlated.count,
    });
    // client-go's combined event has these fields and no more.
    if correlated.is_combined {
        return Ok(object);
    }
    object["reportingComponent"] = source.into();
    if !action.is_empty() {
        object["action"] = action.as_str().into();
    }
    if let Some(related) = related {
        object["related"] = related_reference(related)?;
    }
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = json!(annotations);
    }
    Ok(object)
}

/// Returns the patch of an event that occurred again.
pub(super) fn patch(correlated: &Correlated) -> Value {
    let event = &correlated.event;
    let mut patch = json!({"count": correlated.count, "lastTimestamp": format_time(event.at)});
    if !event.message.is_empty() {
        patch["message"] = event.message.as_str().into();
    }
    patch
}

/// Returns the object of `events.k8s.io/v1`, to create it. `host` is the name of this machine.
pub(super) fn reported(
    reported: &Reported,
    namespace: &str,
    host: &str,
) -> Result<Value, ApiError> {
    let event = &reported.event;
    let options = &event.options;
    let mut about = reference(&event.about)?;
    if !options.resource_version.is_empty() {
        about["resourceVersion"] = options.resource_version.as_str().into();
    }
    let controller = options.reporting_controller.as_str();
    let instance: String = format!("{controller}-{host}")
        .chars()
        .take(MAX_INSTANCE)
        .collect();
    let mut object = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": reported.name, "namespace": namespace},
        "eventTime": format_micro_time(event.at),
        "reportingController": controller,
        "reportingInstance": instance,
        "action": options.action,
        "reason": event.reason,
        "regarding": about,
        "note": event.message,
        "type": event.event_type,
    });
    if let Some(related) = &options.related {
        object["related"] = related_reference(related)?;
    }
    if !options.annotations.is_empty() {
        object["metadata"]["annotations"] = json!(options.annotations);
    }
    if let Some(count) = reported.series {
        object["series"] = series(count);
    }
    Ok(object)
}

/// Returns the patch of an event of `events.k8s.io/v1` that occurred again.
pub(super) fn recount(count: Count) -> Value {
    json!({"series": series(count)})
}

fn series(of: Count) -> Value {
    json!({"count": of.count, "lastObservedTime": format_micro_time(of.last)})
}

/// Returns the namespace of an event about the object `about`.
pub(super) fn namespace(about: &ObjectReference) -> &str {
    match about.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// Returns the name of a new event about the object `about`. Names of some kinds, such as `system:node`, can't be part
/// of an event's name; then it is a random UUID, as in client-go.
pub(super) fn name(about: &str, at: SystemTime) -> String {
    let nanoseconds = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let name = format!("{about}.{nanoseconds:x}");
    if is_subdomain(&name) { name } else { uuid() }
}

/// Whether it is a DNS subdomain (RFC 1123), which the names of most kinds must be.
fn is_subdomain(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_alphanumeric)
            && bytes.last().is_some_and(is_alphanumeric)
            && bytes
                .iter()
                .all(|byte| is_alphanumeric(byte) || *byte == b'-')
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

/// A random UUID (version 4 of RFC 9562).
fn uuid() -> String {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let (a, b, c, d, e) = (
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    );
    format!("{a}-{b}-{c}-{d}-{e}")
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

fn related_reference(related: &EventReference) -> Result<Value, ApiError> {
    let EventReference {
        kind,
        namespace,
        name,
        uid,
    } = related.clone();
    reference(&ObjectReference {
        kind,
        namespace,
        name,
        uid,
    })
}

/// Writes a time with microseconds, as the API's `MicroTime` has it.
fn format_micro_time(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = format_time(time);
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:06}Z", since.subsec_micros())
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
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::correlator::Correlator;
    use super::*;

    fn created(options: EventOptions) -> Value {
        let about = ObjectReference {
            kind: "v1/Pod".into(),
            namespace: "demo".into(),
            name: "web".into(),
            uid: "1".into(),
        };
        let event = Event {
            about,
            event_type: "Normal".into(),
            reason: "Scheduled".into(),
            message: "m".into(),
            options,
            at: SystemTime::UNIX_EPOCH,
        };
        let correlated = Correlator::default()
            .correlate(event, Instant::now(), SystemTime::UNIX_EPOCH)
            .unwrap();
        object(&correlated, "demo", "scheduler").unwrap()
    }

    #[test]
    fn the_options_of_an_event_go_into_its_object() {
        let document = br#"{"action": "Binding", "annotations": {"a": "b"}, "resourceVersion": "7",
                            "related": {"kind": "v1/Node", "name": "n"}}"#;
        let with = created(EventOptions::parse(document).unwrap());
        assert_eq!(with["action"], "Binding");
        assert_eq!(with["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(with["involvedObject"]["resourceVersion"], "7");
        assert_eq!(
            with["related"],
            json!({"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "n", "uid": ""})
        );
        let without = created(EventOptions::default());
        assert!(without.get("action").is_none() && without.get("related").is_none());
        assert!(without["metadata"].get("annotations").is_none());
        assert!(without["involvedObject"].get("resourceVersion").is_none());
    }

    #[test]
    fn a_name_that_events_cannot_have_is_replaced_by_a_uuid() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(255);
        assert_eq!(name("web-1.example", at), "web-1.example.ff");
        for about in [
            "system:node",
            "Upper",
            "-web",
            "web-",
            "a..b",
            "a_b",
            "",
            "ö",
        ] {
            let name = name(about, at);
            let lengths: Vec<usize> = name.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{about}: {name}");
            assert_eq!(&name[14..15], "4");
            assert!(is_subdomain(&name));
        }
        let longest = "a".repeat(MAX_NAME - ".ff".len());
        assert_eq!(name(&longest, at), format!("{longest}.ff"));
        assert_eq!(name(&format!("{longest}a"), at).len(), 36);
        assert_ne!(name("a_b", at), name("a_b", at));
    }

    #[test]
    fn an_event_of_the_newer_api_names_its_controller_and_counts_its_series() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_002);
        let document = br#"{"action": "Binding", "reportingController": "example.com/web", "resourceVersion": "7",
                            "related": {"kind": "v1/Node", "name": "n"}}"#;
        let mut event = Reported {
            event: Event {
                about: ObjectReference {
                    kind: "apps/v1/Deployment".into(),
                    namespace: "demo".into(),
                    name: "web".into(),
                    uid: "1".into(),
                },
                event_type: "Normal".into(),
                reason: "Scheduled".into(),
                message: "m".into(),
                options: EventOptions::parse(document).unwrap(),
                at,
            },
            name: "web.1".into(),
            series: None,
        };
        let first = reported(&event, "demo", "machine").unwrap();
        assert_eq!(first["apiVersion"], "events.k8s.io/v1");
        assert_eq!(first["eventTime"], "1970-01-01T00:00:01.000002Z");
        assert_eq!(first["reportingController"], "example.com/web");
        assert_eq!(first["reportingInstance"], "example.com/web-machine");
        assert_eq!(
            (&first["action"], &first["note"]),
            (&json!("Binding"), &json!("m"))
        );
        assert_eq!(first["regarding"]["resourceVersion"], "7");
        assert_eq!(first["related"]["kind"], "Node");
        assert!(first.get("series").is_none());
        let count = Count { count: 2, last: at };
        event.series = Some(count);
        let again = reported(&event, "demo", &"m".repeat(200)).unwrap();
        let series = json!({"count": 2, "lastObservedTime": "1970-01-01T00:00:01.000002Z"});
        assert_eq!(again["series"], series);
        assert_eq!(recount(count), json!({"series": series}));
        let instance = again["reportingInstance"].as_str().unwrap();
        assert_eq!(instance.len(), MAX_INSTANCE);
    }

    #[test]
    fn times_are_written_in_whole_seconds() {
        assert_eq!(
            format_time(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_900)),
            "2023-11-14T22:13:20Z"
        );
    }
}
