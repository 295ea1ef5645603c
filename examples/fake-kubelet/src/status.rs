//! A pod's status: its shape, its conditions, and the patch that leads from one to another.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::{self, Map};
use serde::{Deserialize, Serialize};

use crate::pod::Container;

/// The condition that the scheduler sets.
pub const SCHEDULED: &str = "PodScheduled";

/// The status of a pod, as far as we read or write it. What is empty is not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
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
    /// The address.
    pub ip: String,
}

/// A condition. An empty reason or message is written as null: it takes away an old one.
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

/// A container, as it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: State,
    pub last_state: State,
    pub ready: bool,
    pub restart_count: u32,
    pub image: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    pub started: Option<bool>,
}

/// The state of a container: one of these, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// A container that is to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A container that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    pub started_at: Option<Time>,
}

/// A container that has ended.
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

impl Status {
    /// Whether the pod has ended, once and for all.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// A condition.
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.condition_type == condition_type)
    }

    /// Puts a condition in. The time of its transition stays where its status stays.
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

    /// Puts the pod's own address and its node's in.
    pub fn set_addresses(&mut self, own: String, of_node: String) {
        self.pod_ips = vec![Address { ip: own.clone() }];
        self.host_ips = vec![Address {
            ip: of_node.clone(),
        }];
        (self.pod_ip, self.host_ip) = (own, of_node);
    }

    /// The strategic merge patch that makes `desired` of this status; none if they are the same. It
    /// holds the fields and the conditions that differ, and the UID, so that it can't reach another
    /// pod of the same name.
    pub fn patch_to(&self, desired: &Status, uid: &str) -> Option<Value> {
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

fn fields(status: &Status) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a struct with named fields is an object"),
    }
}

impl State {
    /// Waits for this reason.
    pub fn waiting(reason: &str, message: String) -> Self {
        Self {
            waiting: Some(Waiting {
                reason: reason.into(),
                message,
            }),
            ..Self::default()
        }
    }

    /// Runs since this time.
    pub fn running(since: Time) -> Self {
        Self {
            running: Some(Running {
                started_at: Some(since.to_second()),
            }),
            ..Self::default()
        }
    }

    /// Has ended.
    pub fn terminated(how: Terminated) -> Self {
        Self {
            terminated: Some(how),
            ..Self::default()
        }
    }
}

impl ContainerStatus {
    /// A container that has not started.
    pub fn created(container: &Container) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone(),
            image_id: format!("fake://{}", container.image),
            started: Some(false),
            ..Self::default()
        }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.state.running.is_some()
    }

    /// With what it has ended, if it is not to start again.
    pub fn exit_code(&self) -> Option<i32> {
        self.state
            .terminated
            .as_ref()
            .map(|terminated| terminated.exit_code)
    }

    /// Starts it. The status keeps times to the second only; the container's ID tells the
    /// millisecond.
    pub fn start(&mut self, uid: &str, now: Time) {
        let millis = now.seconds * 1000 + i64::from(now.nanoseconds / 1_000_000);
        let hash = flyball_sdk::hash::fnv32a(
            format!("{uid}/{}/{}", self.name, self.restart_count).as_bytes(),
        );
        self.container_id = format!("fake://{millis:x}-{hash:08x}");
        self.state = State::running(now);
        self.started = Some(true);
    }

    /// When it last started.
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
        self.millisecond_of_start().or(running).or(ended)
    }

    fn millisecond_of_start(&self) -> Option<Time> {
        let (millis, _) = self.container_id.strip_prefix("fake://")?.split_once('-')?;
        let millis = i64::from_str_radix(millis, 16).ok()?;
        Some(Time {
            seconds: millis.div_euclid(1000),
            nanoseconds: millis.rem_euclid(1000) as u32 * 1_000_000,
        })
    }

    /// Ends it.
    pub fn end(&mut self, exit_code: i32, reason: &str, now: Time) {
        let started_at = self
            .state
            .running
            .take()
            .and_then(|running| running.started_at);
        self.state = State::terminated(Terminated {
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
    fn a_status_without_differences_is_not_written() {
        let status = Status {
            phase: "Running".into(),
            pod_ip: "10.0.0.1".into(),
            ..Status::default()
        };
        assert_eq!(status.patch_to(&status, "uid"), None);
    }

    #[test]
    fn a_patch_holds_what_differs_and_clears_what_a_condition_no_longer_says() {
        let at = Time::of_seconds(0);
        let condition = |name: &str, status: &str| Condition {
            condition_type: name.into(),
            status: status.into(),
            ..Condition::default()
        };
        let mut old = Status {
            phase: "Running".into(),
            ..Status::default()
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
    fn a_container_tells_the_millisecond_of_its_start() {
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
    fn a_state_that_says_nothing_is_read() {
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
