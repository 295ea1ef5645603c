//! Plays the kubelet for the pods that a plan creates or deletes, so that rollouts go on: a created pod runs and is ready at
//! once, one of a Job succeeds, and a deleted one ends. Pods of the base that nobody writes stay as they are.

use flyball_sdk::time::Time;
use flyball_testserver::api::request::now;
use serde_json::{Value, json};

use crate::overlay::{Id, Overlay};

pub(crate) const KIND: &str = "v1/Pod";
/// For how many seconds a created pod counts as ready. Longer than any `minReadySeconds`.
const READY_FOR: i64 = 86_400;

/// Lets the kubelet act on a pod that was just written.
pub(crate) fn act(overlay: &mut Overlay, id: &Id) {
    let Some(pod) = overlay.current(id) else {
        return;
    };
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        end(overlay, id, pod);
        return;
    }
    let before = overlay
        .taken()
        .get(id)
        .and_then(|taken| taken.before.as_ref());
    let is_new = before.is_none_or(|before| before["metadata"]["uid"] != pod["metadata"]["uid"]);
    let is_pending = matches!(pod["status"]["phase"].as_str(), None | Some("" | "Pending"));
    let is_gated = pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());
    if is_new && is_pending && !is_gated {
        let mut running = pod.clone();
        running["status"] = status(&pod, overlay.order(), now());
        replace(overlay, id, pod, running);
    }
}

/// Ends a pod that is being deleted. Its finalizers may keep the object.
fn end(overlay: &mut Overlay, id: &Id, pod: Value) {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    if finalizers.is_none_or(|finalizers| finalizers.is_empty()) {
        overlay.cluster.remove(&id.kind, &id.namespace, &id.name);
        overlay.publish(id, Some(pod));
    } else if pod["metadata"]["deletionGracePeriodSeconds"] != 0 {
        let mut ended = pod.clone();
        // The object goes with its last finalizer.
        ended["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        replace(overlay, id, pod, ended);
    }
}

fn replace(overlay: &mut Overlay, id: &Id, old: Value, mut new: Value) {
    let version = overlay.cluster.next_version();
    new["metadata"]["resourceVersion"] = version.to_string().into();
    overlay.cluster.overwrite(new);
    overlay.publish(id, Some(old));
}

/// The status of a pod that runs and is ready, or has succeeded.
fn status(pod: &Value, number: u64, now: Time) -> Value {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let is_job = owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Job"));
    let since = Time::of_seconds(now.seconds - READY_FOR).to_string();
    let now = now.to_string();
    let condition = |name: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        json!({"type": name, "status": status, "lastTransitionTime": since})
    };
    let state = match is_job {
        true => {
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}})
        }
        false => json!({"running": {"startedAt": now}}),
    };
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let containers = containers.map(|container| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": !is_job,
            "started": !is_job,
            "restartCount": 0,
            "state": state,
        })
    });
    // An address of the network that is reserved for tests of devices.
    let ip = format!("198.18.{}.{}", number / 256 % 256, number % 256);
    json!({
        "phase": if is_job { "Succeeded" } else { "Running" },
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", !is_job),
            condition("Ready", !is_job),
        ],
        "startTime": now,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "containerStatuses": containers.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, metadata: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5"},
            "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        });
        for (name, value) in metadata.as_object().into_iter().flatten() {
            pod["metadata"][name] = value.clone();
        }
        pod
    }

    /// The pod after the kubelet has acted, if it is one of the plan or of the base.
    fn acted(pod: Value, is_of_base: bool) -> Option<Value> {
        let mut overlay = Overlay::new();
        let id = Id::new(KIND, "n", pod["metadata"]["name"].as_str().expect("a name"));
        overlay.load(id.clone(), is_of_base.then(|| pod.clone()), None);
        overlay.cluster.overwrite(pod);
        act(&mut overlay, &id);
        overlay.current(&id)
    }

    #[test]
    fn a_created_pod_is_ready_and_one_of_a_job_succeeds() {
        let ready = acted(pod("a", json!({})), false).expect("it exists");
        assert_eq!(ready["status"]["phase"], "Running");
        assert_eq!(ready["status"]["conditions"][3]["status"], "True");
        assert_eq!(ready["status"]["containerStatuses"][0]["ready"], true);
        let owners = json!([{"kind": "Job", "name": "j"}]);
        let job = acted(pod("b", json!({"ownerReferences": owners})), false).expect("it exists");
        assert_eq!(job["status"]["phase"], "Succeeded");
        assert_eq!(
            job["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
            0
        );
    }

    #[test]
    fn a_pod_of_the_base_stays_as_it_is() {
        let stays = acted(pod("a", json!({})), true).expect("it exists");
        assert_eq!(stays["status"]["phase"], "Pending");
    }

    #[test]
    fn a_deleted_pod_ends_and_stays_for_its_finalizers() {
        let deleting =
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(acted(pod("a", deleting.clone()), true), None);
        let mut held = deleting;
        held["finalizers"] = json!(["a/b"]);
        let held = acted(pod("a", held), true).expect("it is held");
        assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    }
}
