//! Nodes: the object, its status and its lease, as pure functions of the settings and the time.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{MicroTime, StringMap};
use serde::{Deserialize, Serialize};

use crate::address;
use crate::settings::Settings;

/// The namespace of node leases.
pub const LEASES: &str = "kube-node-lease";
pub const LEASE: &str = "coordination.k8s.io/v1/Lease";
/// The taint of nodes that a cloud has to initialise.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The taint that an admission plugin of the API server adds to each new node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The annotation of a node whose volumes a controller attaches. Kubelets have it by default.
const ATTACHED_BY_CONTROLLER: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// A lease lasts this many renewal periods, as with kubelets: 40 s by default.
const LEASE_PERIODS: u32 = 4;

/// A node, reduced to the fields that are used.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.taints")]
    pub taints: Vec<Taint>,
    #[view(
        path = "status.conditions",
        fields("[*].type", "[*].status", "[*].lastHeartbeatTime")
    )]
    pub conditions: Vec<Health>,
}

/// A taint with all of its fields, because a patch contains the whole list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    #[serde(rename = "type")]
    pub condition_type: String,
    pub status: String,
    pub last_heartbeat_time: Option<Time>,
}

/// The conditions of a healthy node: type, status, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    ),
];

/// Returns the node with this number, to be created.
pub fn object(settings: &Settings, index: u32, now: Time) -> Value {
    let name = settings.node_name(index);
    let cidr = address::pods_of_node(index, settings.nodes).cidr();
    let mut labels = StringMap::from([
        ("kubernetes.io/hostname".to_owned(), name.clone()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
    ]);
    if settings.zones > 0 {
        labels.insert("topology.kubernetes.io/region".into(), "region-0".into());
        labels.insert(
            "topology.kubernetes.io/zone".into(),
            format!("zone-{}", index % settings.zones),
        );
    }
    let mut spec = json!({"podCIDR": cidr, "podCIDRs": [cidr]});
    if settings.external_cloud {
        spec["taints"] = json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {ATTACHED_BY_CONTROLLER: "true"}},
        "spec": spec,
        "status": status(settings, index, &[], now),
    })
}

/// Returns the status of a node whose current conditions are `old`. A condition's transition time
/// is only set if its status changes; otherwise the strategic merge patch leaves it unchanged.
pub fn status(settings: &Settings, index: u32, old: &[Health], now: Time) -> Value {
    let name = settings.node_name(index);
    let conditions: Vec<Value> = CONDITIONS
        .into_iter()
        .map(|(name, status, reason, message)| {
            let mut condition = json!({
                "type": name, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now,
            });
            if !old.iter().any(|old| old.condition_type == name && old.status == status) {
                condition["lastTransitionTime"] = json!(now);
            }
            condition
        })
        .collect();
    let room = json!({
        "cpu": settings.cpu, "memory": settings.memory, "pods": settings.pods_per_node.to_string(),
        "ephemeral-storage": "1Ti",
    });
    json!({
        "capacity": room,
        "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": address::of_node(index)},
            {"type": "Hostname", "address": name},
        ],
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "6.12.0", "osImage": "Fake Linux",
            "containerRuntimeVersion": "fake://1.0.0", "kubeletVersion": "v1.37.0", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
        },
    })
}

/// Whether a node's status must be written: the node is not healthy, or its last heartbeat is at
/// least `period` old.
pub fn is_stale(node: &Node, period: Duration, now: Time) -> bool {
    !CONDITIONS.iter().all(|&(name, status, ..)| {
        node.conditions.iter().any(|own| {
            let is_fresh = own.last_heartbeat_time.is_some_and(|at| now < at + period);
            own.condition_type == name && own.status == status && is_fresh
        })
    })
}

/// Returns the node's taints without the not-ready `NoSchedule` taint; `None` if the node does not
/// have it.
pub fn without_not_ready(taints: &[Taint]) -> Option<Vec<Taint>> {
    let (not_ready, left): (Vec<_>, Vec<_>) = taints
        .iter()
        .cloned()
        .partition(|taint| taint.key == NOT_READY && taint.effect == "NoSchedule");
    (!not_ready.is_empty()).then_some(left)
}

/// Returns the node's lease, renewed now. It can be created, or applied as a merge patch to renew
/// the lease.
pub fn lease(node: &Meta, period: Duration, now: Time) -> Value {
    let duration = (period * LEASE_PERIODS).as_secs().max(1);
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "namespace": LEASES, "ownerReferences": [node.owner_reference(Node::KIND)]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": duration, "renewTime": MicroTime(now)},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time {
        seconds: 1_000,
        nanoseconds: 5_000,
    };
    const PERIOD: Duration = Duration::from_secs(300);

    fn settings(key: &str, value: &str) -> Settings {
        Settings::read(|name| (name == key).then(|| value.into())).unwrap()
    }

    fn registered(now: Time) -> Node {
        flyball_sdk::serde_json::from_value(object(&settings("", ""), 0, now)).unwrap()
    }

    #[test]
    fn a_node_has_a_name_capacity_and_addresses_and_is_ready() {
        let node = object(&settings("cpu", "4"), 1, NOW);
        assert_eq!(
            node["metadata"]["labels"]["kubernetes.io/hostname"],
            "node-1"
        );
        assert_eq!(node["spec"]["podCIDR"], "10.64.0.0/10");
        assert_eq!(node["status"]["allocatable"]["cpu"], "4");
        assert_eq!(node["status"]["capacity"]["pods"], "110");
        assert_eq!(node["status"]["addresses"][0]["address"], "172.16.0.2");
        let ready = &node["status"]["conditions"][3];
        assert_eq!(
            (&ready["type"], &ready["status"]),
            (&json!("Ready"), &json!("True"))
        );
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:16:40Z");
        assert_eq!(
            node["metadata"]["labels"].get("topology.kubernetes.io/zone"),
            None
        );
    }

    #[test]
    fn nodes_are_spread_over_the_zones() {
        let zone = |index| {
            object(&settings("zones", "2"), index, NOW)["metadata"]["labels"]["topology.kubernetes.io/zone"].clone()
        };
        assert_eq!([zone(0), zone(1), zone(2)], ["zone-0", "zone-1", "zone-0"]);
    }

    #[test]
    fn a_status_is_stale_after_its_period_or_when_a_condition_was_changed() {
        let mut node = registered(NOW);
        assert!(!is_stale(&node, PERIOD, NOW + Duration::from_secs(299)));
        assert!(is_stale(&node, PERIOD, NOW + Duration::from_secs(300)));
        node.conditions[3].status = "Unknown".into();
        assert!(is_stale(&node, PERIOD, NOW));
    }

    #[test]
    fn a_condition_changes_its_transition_time_only_with_its_status() {
        let mut node = registered(NOW);
        node.conditions[3].status = "Unknown".into();
        let status = status(&settings("", ""), 0, &node.conditions, NOW);
        let changed: Vec<bool> = (0..4)
            .map(|at| status["conditions"][at].get("lastTransitionTime").is_some())
            .collect();
        assert_eq!(changed, [false, false, false, true]);
    }

    #[test]
    fn only_the_admission_taint_is_removed() {
        let taint = |key: &str, effect: &str| Taint {
            key: key.into(),
            effect: effect.into(),
            ..Taint::default()
        };
        let (admitted, evicting, own) = (
            taint(NOT_READY, "NoSchedule"),
            taint(NOT_READY, "NoExecute"),
            taint("own", "NoSchedule"),
        );
        let left = without_not_ready(&[own.clone(), admitted, evicting.clone()]);
        assert_eq!(left, Some(vec![own.clone(), evicting]));
        assert_eq!(without_not_ready(&[own]), None);
    }

    #[test]
    fn a_lease_is_owned_by_its_node_and_renewed_with_microseconds() {
        let meta = Meta {
            name: "node-0".into(),
            uid: "1".into(),
            ..Meta::default()
        };
        let lease = lease(&meta, Duration::from_secs(10), NOW);
        assert_eq!(
            lease["spec"],
            json!({"holderIdentity": "node-0", "leaseDurationSeconds": 40,
            "renewTime": "1970-01-01T00:16:40.000005Z"})
        );
        assert_eq!(
            lease["metadata"]["ownerReferences"][0],
            json!({"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "1"})
        );
    }
}
