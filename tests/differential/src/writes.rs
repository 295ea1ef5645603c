//! The number of the controllers' writes, from the API server's audit log.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api;
use crate::scenario::{Compared, Scenario};

/// The prefix of the users of the controllers' service accounts.
pub(crate) const ACCOUNTS: &str = "system:serviceaccount:kube-system:";
/// The user of kube-controller-manager itself.
const MANAGER: &str = "system:kube-controller-manager";
/// The verbs that count. `deletecollection` doesn't count: while objects remain in a namespace, the
/// number of its requests depends on timing.
const VERBS: [&str; 4] = ["create", "update", "patch", "delete"];
/// How the patch of an event is described.
const PATCH_OF_EVENT: &str = "patch events";

/// The numbers of writes by verb, resource and, if it is an error, the status code of the response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Writes(pub BTreeMap<String, usize>);

impl Writes {
    /// Counts the writes to a namespace in an audit log. Refused writes also count, but not writes of
    /// leases, nor writes that the API server fails to handle: how often they are repeated depends on timing.
    pub fn count(audit: &[Value], namespace: &str) -> Self {
        Self::all(
            audit
                .iter()
                .filter(|event| event["objectRef"]["namespace"] == namespace),
        )
    }

    /// Adds an event of an audit log, unless it belongs to this namespace. Events of cluster-scoped objects are added.
    pub fn note_outside(&mut self, event: &Value, namespace: &str) {
        if event["objectRef"]["namespace"] != namespace {
            self.note(event);
        }
    }

    /// Counts the writes of a scenario up to its end: those in its namespaces, and those to the
    /// cluster-scoped kinds and the single objects that it compares. The number of writes after its end
    /// depends on how long other scenarios take.
    pub(crate) fn of(scenario: &Scenario, audit: &[Value], end: Timestamp) -> Self {
        let namespaces = scenario.compared_namespaces();
        let is_of_it = |event: &Value| {
            let object = &event["objectRef"];
            let in_namespace = object["namespace"].as_str();
            let is_compared = |compared: &Compared| match compared {
                Compared::Kind(kind) => {
                    in_namespace.is_none()
                        && api::plural(kind).is_ok_and(|plural| object["resource"] == plural)
                }
                Compared::Object {
                    namespace, name, ..
                } => namespace.as_deref() == in_namespace && object["name"] == *name,
            };
            scenario.compare.iter().any(is_compared)
                || namespaces
                    .iter()
                    .any(|own| Some(own.as_str()) == in_namespace)
        };
        let is_in_time = |event: &Value| {
            let time: Option<Timestamp> = event["stageTimestamp"]
                .as_str()
                .and_then(|time| time.parse().ok());
            time.is_none_or(|time| time <= end)
        };
        Self::all(
            audit
                .iter()
                .filter(|event| is_of_it(event) && is_in_time(event)),
        )
    }

    fn all<'a>(audit: impl Iterator<Item = &'a Value>) -> Self {
        let mut writes = Self::default();
        audit.for_each(|event| writes.note(event));
        writes
    }

    /// Adds an event of an audit log, if it is a write.
    fn note(&mut self, event: &Value) {
        if is_write(event) {
            *self.0.entry(describe(event)).or_default() += 1;
        }
    }

    /// Adds calls that change the cloud, such as `PUT load-balancers`.
    pub(crate) fn add_calls(&mut self, calls: &[String]) {
        for call in calls {
            *self.0.entry(format!("cloud {call}")).or_default() += 1;
        }
    }

    /// Counts refused writes, and the patches of the events that tell of them, once each. How often a write is tried while
    /// a policy refuses it depends on when the API server reads its policies again, which it does once in a second.
    pub(crate) fn count_refusals_once(&mut self) {
        for (what, count) in &mut self.0 {
            if what.ends_with(" (403)") || what.ends_with(" (422)") || what == PATCH_OF_EVENT {
                *count = 1;
            }
        }
    }

    /// The number of all writes.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(what, count)| format!("{count} × {what}"))
            .collect();
        write!(f, "{}", parts.join(", "))
    }
}

fn is_write(event: &Value) -> bool {
    let user = event["user"]["username"].as_str().unwrap_or_default();
    event["stage"] == "ResponseComplete"
        && (user.starts_with(ACCOUNTS) || user == MANAGER)
        && VERBS.iter().any(|verb| event["verb"] == *verb)
        && event["objectRef"]["resource"] != "leases"
        && event["responseStatus"]["code"] != 500
}

fn describe(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (verb, object) = (text(&event["verb"]), &event["objectRef"]);
    let mut what = format!("{verb} {}", text(&object["resource"]));
    if let Some(part) = object["subresource"].as_str() {
        what += &format!("/{part}");
    }
    match event["responseStatus"]["code"].as_u64() {
        Some(code) if code >= 300 => format!("{what} ({code})"),
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_controllers_writes_in_the_namespace_count() {
        let event = |user: &str, verb: &str, namespace: &str, code: u32| {
            json!({"stage": "ResponseComplete", "user": {"username": user}, "verb": verb,
                "objectRef": {"resource": "pods", "namespace": namespace}, "responseStatus": {"code": code}})
        };
        let account = "system:serviceaccount:kube-system:replicaset-controller";
        let audit = [
            event(account, "create", "a", 201),
            event(account, "create", "a", 409),
            event(account, "create", "a", 500),
            event(account, "list", "a", 200),
            event(account, "create", "b", 201),
            event("admin", "create", "a", 201),
        ];
        let writes = Writes::count(&audit, "a");
        assert_eq!(writes.to_string(), "1 × create pods, 1 × create pods (409)");
        assert_eq!(writes.total(), 2);
    }

    #[test]
    fn refusals_count_once() {
        let numbers = [
            ("create events", 2),
            ("create pods (409)", 2),
            ("delete pods", 3),
            ("delete pods (403)", 9),
            ("patch events", 9),
            ("update pods/status (422)", 4),
        ];
        let mut writes = Writes(numbers.map(|(what, count)| (what.to_owned(), count)).into());
        writes.count_refusals_once();
        let counts: Vec<usize> = writes.0.into_values().collect();
        assert_eq!(counts, [2, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn writes_of_cluster_scoped_objects_are_outside_each_namespace() {
        let event = |object: Value| json!({"stage": "ResponseComplete", "user": {"username": MANAGER}, "verb": "update", "objectRef": object});
        let audit = [
            event(json!({"resource": "nodes", "name": "node-0"})),
            event(json!({"resource": "pods", "namespace": "a"})),
            event(json!({"resource": "configmaps", "namespace": "b"})),
        ];
        let mut writes = Writes::default();
        audit
            .iter()
            .for_each(|event| writes.note_outside(event, "a"));
        assert_eq!(
            writes.to_string(),
            "1 × update configmaps, 1 × update nodes"
        );
    }
}
