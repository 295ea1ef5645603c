//! Removes random values from objects, so that two runs can be compared. Each rule here has the
//! reason why it hides no real difference.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan, tz};
use serde_json::{Map, Value};

use crate::certificates::{self, CERTIFICATE};
use crate::generated_names::is_generated;
use crate::{endpoints, secrets};

/// Fields that are random, depend on other requests in the cluster, or depend on the node.
const RANDOM_FIELDS: &[&str] = &[
    "uid",
    "resourceVersion",
    "nodeName",
    "podIP",
    "podIPs",
    "clusterIP",
    "clusterIPs",
    "hostIP",
    "hostIPs",
    "containerID",
    "imageID",
    "authentication.kubernetes.io/credential-id",
];
/// Compared separately: see `managers.rs`.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";
/// The suffixes of fields that are a time.
const TIMES: &[&str] = &["Time", "Timestamp", "At", "timeAdded"];
/// The prefix of the volume that the API server adds to pods. It has a random suffix.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The prefix of the names of the API server's bundles.
const PUBLISHED: &str = "kubernetes.io:kube-apiserver-serving:";
/// The length of the bundle's hash after this prefix.
const PUBLISHED_HASH: usize = 24;
/// The annotation with the time for which a CronJob's Job was created.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The label in which the cleaner of tokens stores the current day. A scenario may also set it.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The random values that occur in the texts of objects, and their replacements.
pub(crate) struct Random(Vec<(String, String)>);

impl Random {
    pub(crate) fn of(objects: &[Value]) -> Self {
        Self(random_values(objects))
    }

    /// Values that are all replaced by this word.
    pub(crate) fn named(values: impl Iterator<Item = String>, word: &str) -> Self {
        Self(values.map(|value| (value, word.to_owned())).collect())
    }

    /// Replaces the values wherever they occur in a text.
    pub(crate) fn replace(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (value, name)| {
            text.replace(value.as_str(), name)
        })
    }
}

fn random_values(objects: &[Value]) -> Vec<(String, String)> {
    // UIDs occur in the labels and the selector of Jobs. Names are replaced first, since they contain hashes; claims
    // before pods, since their names contain those of pods.
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let owner = |object: &Value| {
        object["metadata"]["ownerReferences"][0]["uid"]
            .as_str()
            .map(str::to_owned)
    };
    let uids = objects
        .iter()
        .flat_map(|object| [uid(object), owner(object)])
        .flatten();
    (objects.iter().flat_map(generated_claims))
        .chain(objects.iter().filter_map(generated_name))
        .chain(scheduled_minutes(objects))
        .chain(uids.map(|uid| (uid, "UID".to_owned())))
        .chain(
            objects
                .iter()
                .filter_map(hash)
                .map(|hash| (hash, "HASH".to_owned())),
        )
        .collect()
}

/// Removes random values from objects, and sorts them.
pub fn objects(objects: Vec<Value>) -> Vec<Value> {
    let random = Random::of(&objects);
    let mut objects: Vec<Value> = objects
        .into_iter()
        .map(|mut object| {
            replace_generation(&mut object);
            replace_day(&mut object);
            replace_scheduled_day(&mut object);
            secrets::decode(&mut object);
            certificates::decode(&mut object);
            endpoints::clean(&mut object);
            clean(&mut object);
            let mut object = replace_random(&object, &random);
            endpoints::sort(&mut object);
            object
        })
        .collect();
    sort(&mut objects);
    objects
}

pub(crate) fn sort(objects: &mut [Value]) {
    objects.sort_by_cached_key(|object| format!("{} {object}", object["kind"]));
}

/// The reasons of events of the scheduler and the API server that depend on timing.
const IGNORED: [&str; 2] = ["FailedScheduling", "ClusterIPNotAllocated"];

/// The events: component, type, kind of the object, reason, and whether they lack the object's version.
/// Their counts, and the numbers in their messages, depend on the order in which pods become ready. The
/// reporting component is left out, because client-go drops it when it combines similar events, and
/// Flyball keeps it.
pub fn events(events: &[Value]) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    events
        .iter()
        .filter(|event| IGNORED.iter().all(|reason| event["reason"] != **reason))
        .map(|event| {
            let version = match &event["involvedObject"]["resourceVersion"] {
                Value::String(_) => "",
                _ => " without version",
            };
            let parts = [
                &event["source"]["component"],
                &event["type"],
                &event["involvedObject"]["kind"],
                &event["reason"],
            ];
            parts.map(text).join(" ") + version
        })
        .collect()
}

/// Returns the hash in an object's name that differs between two runs:
/// - of a Job's UID, in the name of its Workload, and of that name, in the name of the PodGroup;
/// - of the API server's bundle, which differs between control planes.
///
/// Hashes of pod templates are the same in all runs.
fn hash(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    if object["kind"] == "ClusterTrustBundle" {
        let hash = metadata["name"].as_str()?.strip_prefix(PUBLISHED)?;
        return (hash.len() == PUBLISHED_HASH).then(|| hash.to_owned());
    }
    let owner = &metadata["ownerReferences"][0]["kind"];
    let is_of_job =
        owner == "Job" && (object["kind"] == "Workload" || object["kind"] == "PodGroup");
    let (_, hash) = metadata["name"].as_str()?.rsplit_once('-')?;
    is_of_job.then(|| hash.to_owned())
}

/// A generated name and its replacement. It has a random suffix, and occurs in messages. The pods of
/// a StatefulSet have the prefix of one, and names of their own. Slices may have lost the prefix.
fn generated_name(object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    if metadata["labels"]["statefulset.kubernetes.io/pod-name"] == metadata["name"] {
        return None;
    }
    let name = metadata["name"].as_str()?;
    let prefix = match metadata["generateName"].as_str() {
        Some(prefix) => prefix.to_owned(),
        None => endpoints::prefix(object)?,
    };
    Some((name.to_owned(), format!("{prefix}*")))
}

/// The names of the claims that were generated for a pod, as its status has them, and their replacements. The claims
/// may have been deleted.
fn generated_claims(pod: &Value) -> Vec<(String, String)> {
    let statuses = pod["status"]["resourceClaimStatuses"].as_array();
    let generated = |status: &Value| {
        let prefix = [&pod["metadata"]["name"], &status["name"]]
            .map(|name| name.as_str().unwrap_or_default())
            .join("-")
            + "-";
        let name = status["resourceClaimName"].as_str()?;
        let suffix = name.strip_prefix(&prefix)?;
        is_generated(suffix).then(|| (name.to_owned(), format!("{prefix}*")))
    };
    (statuses.into_iter().flatten())
        .filter_map(generated)
        .collect()
}

/// The generation of a ReplicaSet depends on the number of scaling steps, and so on when its pods
/// become ready. Whether the controller has observed it does not.
fn replace_generation(object: &mut Value) {
    if object["kind"] != "ReplicaSet" {
        return;
    }
    let generation = object["metadata"]["generation"].take();
    if object["status"]["observedGeneration"] == generation {
        object["status"]["observedGeneration"] = "its generation".into();
    }
}

/// Replaces today's date, or yesterday's, since a run may begin before midnight.
fn replace_day(object: &mut Value) {
    let days = [Timestamp::now(), Timestamp::now() - 24.hours()]
        .map(|time| time.to_zoned(tz::TimeZone::UTC).date());
    let labels = object
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut);
    let Some(label) = labels.and_then(|labels| labels.get_mut(INVALID_SINCE)) else {
        return;
    };
    if days.iter().any(|day| *label == day.to_string()) {
        *label = "the day of the run".into();
    }
}

/// The minutes in the names of CronJobs' Jobs, numbered in their order. They depend on when the scenario runs.
fn scheduled_minutes(objects: &[Value]) -> Vec<(String, String)> {
    let minutes = |object: &Value| {
        let time: Timestamp = scheduled_at(object)?.parse().ok()?;
        Some(time.as_second() / 60)
    };
    let all: BTreeSet<i64> = objects.iter().filter_map(minutes).collect();
    all.iter()
        .enumerate()
        .map(|(index, minutes)| (minutes.to_string(), format!("MINUTES-{index}")))
        .collect()
}

/// Replaces the day in the annotation with a scheduled time. The time of day and the offset remain.
fn replace_scheduled_day(object: &mut Value) {
    let clock = scheduled_at(object)
        .and_then(|time| time.split_once('T'))
        .map(|(_, clock)| clock.to_owned());
    if let Some(clock) = clock {
        object["metadata"]["annotations"][SCHEDULED_AT] = format!("a day at {clock}").into();
    }
}

fn scheduled_at(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][SCHEDULED_AT].as_str()
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(fields) => clean_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::String(text) if text.starts_with(CERTIFICATE) => *text = "certificates".into(),
        Value::String(text) if text.starts_with(TOKEN_VOLUME) => *text = format!("{TOKEN_VOLUME}*"),
        _ => {}
    }
}

fn clean_fields(fields: &mut Map<String, Value>) {
    fields.retain(|name, value| {
        let is_time =
            TIMES.iter().any(|end| name.ends_with(end)) && (value.is_string() || value.is_null());
        !is_time && !RANDOM_FIELDS.contains(&name.as_str()) && name != MANAGED_FIELDS
    });
    fields.values_mut().for_each(clean);
    // In the API's schema, conditions are a map by type. Their order depends on the times of their
    // last changes.
    if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
        conditions.sort_by_cached_key(|condition| condition["type"].to_string());
    }
    // A node's taints are a set. Several loops of stock's controller add them, in an order that depends on timing.
    if let Some(Value::Array(taints)) = fields.get_mut("taints") {
        taints.sort_by_cached_key(|taint| format!("{} {}", taint["key"], taint["effect"]));
    }
}

/// Replaces random and hashed values wherever they occur.
pub(crate) fn replace_random(object: &Value, random: &Random) -> Value {
    match object {
        Value::String(text) => Value::String(random.replace(text)),
        Value::Array(items) => items
            .iter()
            .map(|item| replace_random(item, random))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), replace_random(value, random)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_of_pod_templates_remain() {
        let run = |kind: &str, label: &str, hash: &str| {
            objects(vec![json!({
                "kind": kind, "metadata": {"name": format!("web-{hash}"), "labels": {label: hash}},
            })])
        };
        for (kind, label) in [
            ("ReplicaSet", "pod-template-hash"),
            ("ControllerRevision", "controller-revision-hash"),
        ] {
            assert_ne!(run(kind, label, "abc"), run(kind, label, "def"));
        }
    }

    #[test]
    fn the_hashes_in_names_of_workloads_and_groups_are_replaced_only_for_jobs() {
        let run = |owner: &str, hashes: [&str; 2]| {
            let [workload, group] = hashes;
            let named = |kind: &str, name: String| json!({"kind": kind, "metadata": {"name": name, "ownerReferences": [{"kind": owner}]}});
            objects(vec![
                named("Workload", format!("job-{workload}")),
                named("PodGroup", format!("job-{workload}-job-pgt-0-{group}")),
            ])
        };
        let (first, second) = (["abc", "xyz"], ["def", "uvw"]);
        assert_eq!(run("Job", first), run("Job", second));
        assert_ne!(run("JobSet", first), run("JobSet", second));
    }

    #[test]
    fn two_runs_that_differ_in_random_values_are_equal() {
        let run = |generation: u32, end: &str, time: &str| {
            objects(vec![
                json!({"kind": "ReplicaSet", "metadata": {"name": "web-abc", "generation": generation},
                "status": {"observedGeneration": generation, "conditions": []}}),
                json!({"kind": "Pod", "metadata": {"generateName": "web-abc-", "name": format!("web-abc-{end}"),
                "creationTimestamp": time}, "spec": {"volumes": [{"name": format!("kube-api-access-{end}")}]}}),
            ])
        };
        assert_eq!(
            run(3, "x1", "2000-01-01T00:00:00Z"),
            run(4, "y2", "2001-01-01T00:00:00Z")
        );
    }

    #[test]
    fn scheduled_times_are_equal_but_for_their_order_clock_and_offset() {
        let run = |day: u32, minutes: [u32; 2], offset: &str| {
            objects(
                minutes
                    .into_iter()
                    .map(|minutes| {
                        let time = format!("2026-01-{:02}T00:0{}:00{offset}", day, minutes % 10);
                        let annotations = json!({SCHEDULED_AT: time});
                        json!({"kind": "Job", "metadata": {"name": format!("cron-{minutes}"), "annotations": annotations}})
                    })
                    .collect(),
            )
        };
        // 2026-01-02T00:00:00Z, and a day later.
        let first = run(2, [29_455_200, 29_455_201], "Z");
        assert_eq!(first, run(3, [29_456_640, 29_456_641], "Z"));
        assert_eq!(first[1]["metadata"]["name"], "cron-MINUTES-1");
        assert_ne!(first, run(2, [29_454_855, 29_454_856], "+05:45"));
    }

    #[test]
    fn names_of_claims_that_were_generated_for_a_pod_are_equal() {
        let run = |claim: &str| {
            objects(vec![json!({
                "kind": "Pod", "metadata": {"name": "web"},
                "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]},
            })])
        };
        assert_eq!(run("web-gpu-sr4jw"), run("web-gpu-z8wf2"));
        assert_ne!(run("web-gpu-sr4jw"), run("web-cpu-sr4jw"));
        assert_ne!(run("web-gpu-first"), run("web-gpu-other"));
    }

    #[test]
    fn taints_are_a_set_without_times() {
        let run = |taints: Value| {
            objects(vec![
                json!({"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}}),
            ])
        };
        let taint =
            |key: &str, time: &str| json!({"key": key, "effect": "NoExecute", "timeAdded": time});
        let [early, late] = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"];
        assert_eq!(
            run(json!([taint("a", early), taint("b", early)])),
            run(json!([taint("b", late), taint("a", early)]))
        );
        assert_ne!(
            run(json!([taint("a", early)])),
            run(json!([taint("b", early)]))
        );
    }

    #[test]
    fn other_differences_remain() {
        let run = |replicas: u32| {
            objects(vec![
                json!({"kind": "Deployment", "metadata": {"name": "web"}, "status": {"replicas": replicas}}),
            ])
        };
        assert_ne!(run(1), run(2));
    }
}
