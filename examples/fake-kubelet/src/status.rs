//! A pod's status: its fields, its conditions, and the patch between two statuses.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::{self, Map};
use serde::{Deserialize, Serialize};

/// The condition that the scheduler sets.
pub const SCHEDULED: &str = "PodScheduled";

/// The fields of a pod's status that are read or written. Empty fields are not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(rename = "podIP", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    #[serde(
        rename = "podIPs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub pod_ips: Vec<Address>,
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    #[serde(
        rename = "hostIPs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub host_ips: Vec<Address>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub conditions: Vec<Condition>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// An entry of `podIPs` and `hostIPs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    pub ip: String,
}

/// A condition. An absent reason or message is written as null, which removes the old one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub condition_type: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub last_transition_time: Option<Time>,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
    pub last_state: ContainerState,
    pub ready: bool,
    pub restart_count: u32,
    pub image: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    pub started: Option<bool>,
}

/// The state of a container: at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// The state of a container that has not started or waits for a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    pub started_at: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

impl PodStatus {
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the condition of this type.
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.condition_type == condition_type)
    }

    /// Sets a condition. Its transition time is kept if its status is.
    pub fn set_condition(&mut self, mut new: Condition, now: Time) {
        let old = self
            .conditions
            .iter_mut()
            .find(|old| old.condition_type == new.condition_type);
        let since = old
            .as_ref()
            .filter(|old| old.status == new.status)
            .and_then(|old| old.last_transition_time);
        new.last_transition_time = since.or(Some(now.to_second()));
        match old {
            Some(old) => *old = new,
            None => self.conditions.push(new),
        }
    }

    /// Sets the addresses of the pod and its node.
    pub fn set_addresses(&mut self, own: String, of_node: String) {
        self.pod_ips = vec![Address { ip: own.clone() }];
        self.host_ips = vec![Address {
            ip: of_node.clone(),
        }];
        (self.pod_ip, self.host_ip) = (own, of_node);
    }

    /// Returns the strategic merge patch that changes this status to `desired`; `None` if they are
    /// equal. It contains the fields and conditions that differ, and the UID, so that it can't
    /// change another pod of the same name.
    pub fn patch_to(&self, desired: &PodStatus, uid: &str) -> Option<Value> {
        let (old, mut new) = (fields(self), fields(desired));
        new.retain(|field, value| old.get(field) != Some(value));
        if new.contains_key("conditions") {
            let changed: Vec<_> = desired
                .conditions
                .iter()
                .filter(|new| !self.conditions.contains(new))
                .collect();
            new.insert("conditions".into(), json!(changed));
        }
        (!new.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": new}))
    }
}

fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a struct with named fields is an object"),
    }
}

impl ContainerState {
    pub fn waiting(reason: &str, message: String) -> Self {
        Self {
            waiting: Some(Waiting {
                reason: reason.into(),
                message,
            }),
            ..Self::default()
        }
    }

    pub fn running(since: Time) -> Self {
        Self {
            running: Some(Running {
                started_at: Some(since.to_second()),
            }),
            ..Self::default()
        }
    }

    pub fn terminated(how: Terminated) -> Self {
        Self {
            terminated: Some(how),
            ..Self::default()
        }
    }
}

impl ContainerStatus {
    pub fn is_running(&self) -> bool {
        self.state.running.is_some()
    }

    /// The exit code if the container has ended for good.
    pub fn exit_code(&self) -> Option<i32> {
        self.state
            .terminated
            .as_ref()
            .map(|terminated| terminated.exit_code)
    }

    /// Starts the container. The status has whole seconds only, so the container ID encodes the
    /// millisecond of the start.
    pub fn start(&mut self, uid: &str, now: Time) {
        let millis = now.seconds * 1000 + i64::from(now.nanoseconds / 1_000_000);
        let hash =
            flyball_hash::fnv32a(format!("{uid}/{}/{}", self.name, self.restart_count).as_bytes());
        self.container_id = format!("fake://{millis:x}-{hash:08x}");
        self.state = ContainerState::running(now);
        self.started = Some(true);
    }

    /// When the container last started.
    pub fn started_at(&self) -> Option<Time> {
        let running = self
            .state
            .running
            .as_ref()
            .and_then(|running| running.started_at);
        let ended = self
            .last_state
            .terminated
            .as_ref()
            .and_then(|terminated| terminated.started_at);
        self.precise_start().or(running).or(ended)
    }

    fn precise_start(&self) -> Option<Time> {
        let (millis, _) = self.container_id.strip_prefix("fake://")?.split_once('-')?;
        let millis = i64::from_str_radix(millis, 16).ok()?;
        Some(Time {
            seconds: millis.div_euclid(1000),
            nanoseconds: millis.rem_euclid(1000) as u32 * 1_000_000,
        })
    }

    pub fn end(&mut self, exit_code: i32, reason: &str, now: Time) {
        let started_at = self
            .state
            .running
            .take()
            .and_then(|running| running.started_at);
        self.state = ContainerState::terminated(Terminated {
            exit_code,
            reason: reason.into(),
            message: String::new(),
            started_at,
            finished_at: Some(now.to_second()),
            container_id: self.container_id.clone(),
        });
        self.ready = false;
        self.started = Some(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_statuses_need_no_patch() {
        let status = PodStatus {
            phase: "Running".into(),
            pod_ip: "10.0.0.1".into(),
            ..PodStatus::default()
        };
        assert_eq!(status.patch_to(&status, "uid"), None);
    }

    #[test]
    fn a_patch_has_the_differences_and_clears_removed_reasons() {
        let at = Time::of_seconds(0);
        let condition = |name: &str, status: &str| Condition {
            condition_type: name.into(),
            status: status.into(),
            ..Condition::default()
        };
        let mut old = PodStatus {
            phase: "Running".into(),
            ..PodStatus::default()
        };
        old.set_condition(condition("Initialized", "True"), at);
        old.set_condition(
            Condition {
                reason: Some("Why".into()),
                ..condition("Ready", "False")
            },
            at,
        );
        let mut new = old.clone();
        new.set_condition(condition("Initialized", "True"), Time::of_seconds(9));
        new.set_condition(condition("Ready", "True"), Time::of_seconds(9));
        assert_eq!(
            old.patch_to(&new, "uid"),
            Some(
                json!({"metadata": {"uid": "uid"}, "status": {"conditions": [{
                    "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z",
                    "reason": null, "message": null,
                }]}})
            ),
        );
    }

    #[test]
    fn the_container_id_encodes_the_millisecond_of_the_start() {
        let now = Time {
            seconds: 1_700_000_000,
            nanoseconds: 250_000_000,
        };
        let mut container = ContainerStatus::default();
        container.start("uid", now);
        let read: ContainerStatus =
            serde_json::from_value(serde_json::to_value(&container).unwrap()).unwrap();
        assert_eq!(read.started_at(), Some(now));
        assert_eq!(
            ContainerStatus {
                container_id: String::new(),
                ..read
            }
            .started_at(),
            Some(now.to_second())
        );
    }

    #[test]
    fn an_empty_state_is_parsed() {
        let read: ContainerStatus =
            serde_json::from_value(json!({"name": "a", "state": {}, "lastState": {}})).unwrap();
        assert_eq!(
            read,
            ContainerStatus {
                name: "a".into(),
                ..ContainerStatus::default()
            }
        );
    }
}
