//! Observations: when each node was last heard of, by the local clock. A time that a kubelet writes is only compared
//! with the time that it wrote before, so a kubelet's clock may differ.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: tryUpdateNodeHealth.

use std::collections::HashMap;
use std::time::Duration;

use flyball_sdk::Time;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::views::{Health, Lease};

/// The monitor's last observation of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Observation {
    pub name: String,
    pub uid: String,
    /// A digest of the time of the last heartbeat of the condition `Ready`; 0 without a condition.
    pub heartbeat: u32,
    /// A digest of the time when the lease was last renewed; 0 without a lease.
    pub lease: u32,
    /// When one of both last changed, in milliseconds since 1970.
    pub heard: u64,
}

/// An observation in the memo. Field names would double its size.
type Row = (String, String, u32, u32, u64);

impl From<Row> for Observation {
    fn from((name, uid, heartbeat, lease, heard): Row) -> Self {
        Self {
            name,
            uid,
            heartbeat,
            lease,
            heard,
        }
    }
}

impl From<Observation> for Row {
    fn from(of: Observation) -> Self {
        (of.name, of.uid, of.heartbeat, of.lease, of.heard)
    }
}

impl Observation {
    /// How long the node has been silent.
    pub fn silence(&self, now: Time) -> Duration {
        Duration::from_millis(millis(now).saturating_sub(self.heard))
    }

    /// Whether the node has been silent for too long.
    pub fn is_overdue(&self, node: &Health, settings: &Settings, now: Time) -> bool {
        self.silence(now) > settings.grace_of(node.ready.is_some())
    }
}

/// Compares nodes with the observations of the previous pass.
pub struct Observer<'a> {
    before: HashMap<&'a str, &'a Observation>,
    /// The digests of the times when the leases were renewed, by the nodes' names.
    renewed: HashMap<&'a str, u32>,
    now: Time,
}

impl<'a> Observer<'a> {
    pub fn new(before: &'a [Observation], leases: &'a [Lease], now: Time) -> Self {
        let before = before.iter().map(|one| (one.name.as_str(), one));
        let renewed = leases
            .iter()
            .map(|lease| (lease.name.as_str(), digest(lease.renewed.as_deref())));
        Self {
            before: before.collect(),
            renewed: renewed.collect(),
            now,
        }
    }

    /// Returns the observation of a node. A new node counts as heard of now.
    ///
    /// Any change counts, even of a lease to an earlier time: kube-controller-manager takes a kubelet whose clock was
    /// set back for silent until its clock has caught up.
    pub fn observe(&self, node: &Health) -> Observation {
        let name = node.name.as_str();
        let mut new = Observation {
            name: node.name.clone(),
            uid: node.uid.clone(),
            heartbeat: heartbeat(node),
            lease: self.renewed.get(name).copied().unwrap_or(0),
            heard: millis(self.now),
        };
        let old = self.before.get(name).filter(|old| old.uid == node.uid);
        if let Some(old) = old {
            // The end of a lease isn't a sign of life.
            let is_renewed = new.lease != 0 && new.lease != old.lease;
            if !is_renewed && new.heartbeat == old.heartbeat {
                new.heard = old.heard;
            }
        }
        new
    }
}

/// The digest of a node's last heartbeat.
fn heartbeat(node: &Health) -> u32 {
    match node.ready {
        Some(_) => digest(Some(node.heartbeat.as_deref().unwrap_or("never"))),
        None => 0,
    }
}

/// Returns a digest of a time by FNV-1a; 0 only if there is no time. A collision hides only one of many signs of life.
pub fn digest(time: Option<&str>) -> u32 {
    let Some(time) = time else { return 0 };
    let hash = time.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// A point in time in milliseconds since 1970.
pub fn millis(time: Time) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0) * 1000 + u64::from(time.nanoseconds / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(heartbeat: Option<&str>) -> Health {
        Health {
            name: "n".into(),
            uid: "1".into(),
            ready: heartbeat.map(|_| "True".into()),
            heartbeat: heartbeat.map(str::to_owned),
            ..Health::default()
        }
    }

    fn lease(renewed: &str) -> Vec<Lease> {
        vec![Lease {
            name: "n".into(),
            renewed: Some(renewed.into()),
        }]
    }

    fn observe(
        before: &[Observation],
        nodes: &[Health],
        leases: &[Lease],
        now: Time,
    ) -> Vec<Observation> {
        let observer = Observer::new(before, leases, now);
        nodes.iter().map(|node| observer.observe(node)).collect()
    }

    fn at(seconds: i64) -> Time {
        Time::of_seconds(seconds)
    }

    /// When the node was last heard of, in seconds.
    fn heard(before: &[Observation], node: Health, leases: &[Lease], now: i64) -> u64 {
        observe(before, &[node], leases, at(now))[0].heard / 1000
    }

    #[test]
    fn a_heartbeat_and_a_renewed_lease_are_signs_of_life() {
        let before = observe(&[], &[node(Some("1"))], &lease("1"), at(100));
        let [same, more] = ["1", "2"];
        assert_eq!(heard(&before, node(Some(same)), &lease(same), 110), 100);
        assert_eq!(heard(&before, node(Some(more)), &lease(same), 110), 110);
        assert_eq!(heard(&before, node(Some(same)), &lease(more), 110), 110);
        // A clock was set back.
        assert_eq!(heard(&before, node(Some(same)), &lease("0"), 110), 110);
    }

    #[test]
    fn a_new_lease_is_a_sign_of_life_and_the_end_of_one_is_not() {
        let before = observe(&[], &[node(Some("1"))], &[], at(100));
        assert_eq!(heard(&before, node(Some("1")), &lease("1"), 110), 110);
        let before = observe(&[], &[node(Some("1"))], &lease("1"), at(100));
        assert_eq!(heard(&before, node(Some("1")), &[], 110), 100);
    }

    #[test]
    fn the_condition_that_appears_or_vanishes_is_a_sign_of_life() {
        let never = observe(&[], &[node(None)], &[], at(100));
        assert_eq!(heard(&never, node(None), &[], 110), 100);
        assert_eq!(heard(&never, node(Some("1")), &[], 110), 110);
        let reported = observe(&[], &[node(Some("1"))], &[], at(100));
        assert_eq!(heard(&reported, node(None), &[], 110), 110);
    }

    #[test]
    fn a_node_that_was_not_known_or_was_made_again_is_heard_of_now() {
        assert_eq!(heard(&[], node(Some("1")), &[], 100), 100);
        let before = observe(&[], &[node(Some("1"))], &[], at(100));
        let again = Health {
            uid: "2".into(),
            ..node(Some("1"))
        };
        assert_eq!(heard(&before, again, &[], 110), 110);
    }

    #[test]
    fn a_node_that_never_reported_has_the_longer_time() {
        let settings = Settings::default();
        for (node, grace) in [(node(None), 60), (node(Some("1")), 50)] {
            let seen = &observe(&[], std::slice::from_ref(&node), &[], at(100))[0];
            assert!(!seen.is_overdue(&node, &settings, at(100 + grace)));
            assert!(seen.is_overdue(&node, &settings, at(101 + grace)));
        }
    }

    #[test]
    fn an_observation_is_small_in_the_memo() {
        let seen = &observe(&[], &[node(Some("1"))], &lease("1"), at(100))[0];
        let text = flyball_sdk::serde_json::to_string(seen).unwrap();
        assert!(text.starts_with(r#"["n","1","#), "{text}");
        assert_eq!(
            &flyball_sdk::serde_json::from_str::<Observation>(&text).unwrap(),
            seen
        );
    }
}
