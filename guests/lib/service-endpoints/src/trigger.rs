//! The time of the change that a write publishes. It is written into an annotation, with which consumers measure how
//! long a change takes to reach them.
//!
//! It is the earliest time at which a pod of the Service became ready or unready since the last reconcile, or at which
//! the Service was created. The times of the last reconcile are in the memo: 12 bytes for each pod.
//!
//! Upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go: ComputeEndpointLastChangeTriggerTime,
//! getPodTriggerTime, getServiceTriggerTime, min.

use flyball_sdk::prelude::*;

use crate::pod::Pod;
use crate::service::Service;

/// The annotation of Endpoints and EndpointSlices.
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times of a Service and its pods, as seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    service: i64,
    /// The times of pods, with the hashes of the pods' names. Sorted once all are known.
    pods: Vec<(u64, u32)>,
}

impl Times {
    /// Starts with the time of a Service. The times of its pods are added later.
    pub fn of(service: &Service) -> Self {
        Self {
            service: (service.meta.creation_timestamp).map_or(0, |time| time.seconds),
            pods: Vec::new(),
        }
    }

    /// Adds the time of a pod, if it has one.
    pub fn add(&mut self, pod: &Pod) {
        let seconds = pod.ready_since.map(|since| u32::try_from(since.seconds));
        if let Some(Ok(seconds)) = seconds {
            self.pods.push((hash(&pod.name), seconds));
        }
    }

    /// Returns the time of the change; `None` if no change has a time. Remembers the times for the next reconcile. A
    /// Service that is not remembered counts as new, and the time is its creation.
    pub fn last_change(mut self, host: &Host, service: &Service) -> Option<Time> {
        self.pods.sort_unstable();
        let key = format!("trigger/{}", service.meta.key());
        let entry = host.imports().memo_get(&key);
        let before = entry.as_ref().map(|(bytes, _)| Self::decode(bytes));
        if before.as_ref() != Some(&self) {
            let version = entry.map_or(0, |(_, version)| version);
            // If the memo is full, the next reconcile takes the Service for a new one, as after a restart.
            let _ = host
                .imports()
                .memo_put(&key, version, &self.encode(), &service.meta.uid, 0);
        }
        match before {
            None => service.meta.creation_timestamp,
            Some(before) => self.earliest_change(&before).map(Time::of_seconds),
        }
    }

    /// The earliest of the times that are later than before.
    fn earliest_change(&self, before: &Self) -> Option<i64> {
        let seen = |hash: u64| {
            let found = before.pods.binary_search_by_key(&hash, |(hash, _)| *hash);
            found.map_or(0, |at| before.pods[at].1)
        };
        let of_pods = (self.pods.iter())
            .filter(|(hash, seconds)| *seconds > seen(*hash))
            .map(|(_, seconds)| i64::from(*seconds));
        let of_service = (self.service > before.service).then_some(self.service);
        of_pods.chain(of_service).min()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.service.to_le_bytes().to_vec();
        for (hash, seconds) in &self.pods {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(seconds.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let (service, pods) = bytes.split_at(bytes.len().min(8));
        let pod = |bytes: &[u8]| {
            let (hash, seconds) = bytes.split_at(8);
            Some((
                u64::from_le_bytes(hash.try_into().ok()?),
                u32::from_le_bytes(seconds.try_into().ok()?),
            ))
        };
        Self {
            service: service.try_into().map_or(0, i64::from_le_bytes),
            pods: pods.chunks_exact(12).filter_map(pod).collect(),
        }
    }
}

/// A 64-bit FNV-1a hash.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::{Cluster, view};

    use super::*;

    fn service() -> Service {
        view(
            json!({"metadata": {"name": "web", "namespace": "a", "uid": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"}}),
        )
    }

    fn pod(name: &str, ready_since: &str) -> Pod {
        view(
            json!({"metadata": {"name": name}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": ready_since}
            ]}}),
        )
    }

    fn last_change(host: &Host, service: &Service, pods: &[Pod]) -> Option<Time> {
        let mut times = Times::of(service);
        pods.iter().for_each(|pod| times.add(pod));
        times.last_change(host, service)
    }

    fn time(text: &str) -> Option<Time> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_new_service_has_the_time_of_its_creation() {
        let cluster = Cluster::new();
        let pods = [pod("web-1", "2026-01-01T00:00:05Z")];
        let first = last_change(&cluster.host(), &service(), &pods);
        assert_eq!(first, time("2026-01-01T00:00:00Z"));
        assert_eq!(last_change(&cluster.host(), &service(), &pods), None);
    }

    #[test]
    fn the_earliest_of_several_changes_counts() {
        let cluster = Cluster::new();
        let host = cluster.host();
        last_change(&host, &service(), &[pod("old", "2026-01-01T00:00:05Z")]);
        let pods = [
            pod("old", "2026-01-01T00:00:05Z"),
            pod("late", "2026-01-01T00:00:09Z"),
            pod("early", "2026-01-01T00:00:04Z"),
        ];
        assert_eq!(
            last_change(&host, &service(), &pods),
            time("2026-01-01T00:00:04Z")
        );
        let later = [pod("old", "2026-01-01T00:00:07Z")];
        assert_eq!(
            last_change(&host, &service(), &later),
            time("2026-01-01T00:00:07Z")
        );
    }

    #[test]
    fn a_pod_that_vanished_or_was_never_ready_has_no_time() {
        let cluster = Cluster::new();
        let host = cluster.host();
        last_change(&host, &service(), &[pod("web-1", "2026-01-01T00:00:05Z")]);
        let unscheduled: Pod = view(json!({"metadata": {"name": "web-2"}}));
        assert_eq!(last_change(&host, &service(), &[unscheduled]), None);
        assert_eq!(last_change(&host, &service(), &[]), None);
    }

    #[test]
    fn a_recreated_service_has_a_later_time() {
        let cluster = Cluster::new();
        let host = cluster.host();
        last_change(&host, &service(), &[]);
        let mut again = service();
        again.meta.creation_timestamp = time("2026-01-02T00:00:00Z");
        assert_eq!(
            last_change(&host, &again, &[]),
            time("2026-01-02T00:00:00Z")
        );
    }
}
