//! How many writes controllers made in a namespace, by the API server's audit log.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The accounts of controllers begin with this; what they do together is done as `system:kube-controller-manager`.
const ACCOUNTS: &str = "system:serviceaccount:kube-system:";
const MANAGER: &str = "system:kube-controller-manager";
const VERBS: [&str; 4] = ["create", "update", "patch", "delete"];

/// How many writes there were, by their verb, resource and the answer's code if it is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Writes(pub BTreeMap<String, usize>);

impl Writes {
    /// Counts what an audit log holds of a namespace. Refused writes count as well; renewals of leases don't.
    pub fn count(audit: &[Value], namespace: &str) -> Self {
        let mut writes = BTreeMap::new();
        for event in audit.iter().filter(|event| is_write(event, namespace)) {
            *writes.entry(describe(event)).or_default() += 1;
        }
        Self(writes)
    }

    /// All writes.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        write!(f, "{}", parts.join(", "))
    }
}

fn is_write(event: &Value, namespace: &str) -> bool {
    let user = event["user"]["username"].as_str().unwrap_or_default();
    event["stage"] == "ResponseComplete"
        && (user.starts_with(ACCOUNTS) || user == MANAGER)
        && VERBS.iter().any(|verb| event["verb"] == *verb)
        && event["objectRef"]["namespace"] == namespace
        && event["objectRef"]["resource"] != "leases"
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
            event(account, "list", "a", 200),
            event(account, "create", "b", 201),
            event("admin", "create", "a", 201),
        ];
        let writes = Writes::count(&audit, "a");
        assert_eq!(writes.to_string(), "1 × create pods, 1 × create pods (409)");
        assert_eq!(writes.total(), 2);
    }
}
