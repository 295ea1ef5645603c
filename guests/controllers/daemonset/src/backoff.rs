//! The backoff before failed pods of a node are deleted. It keeps the controller from fighting a
//! kubelet that rejects the pods.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: podsShouldBeOnNode, failedPodsBackoffKey.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::warning;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::views::DaemonSet;

/// The backoffs of a DaemonSet by node. They are kept in the memo. If the memo loses them, the next
/// failed pod of each node is deleted at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoffs {
    /// The DaemonSet's generation. A new generation starts without backoff.
    generation: i64,
    nodes: BTreeMap<String, Backoff>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Backoff {
    /// How long failed pods are kept, in milliseconds.
    delay: u64,
    /// When a failed pod was last deleted, in milliseconds since 1970. (A [`Time`] is serialized in
    /// seconds.)
    since: i64,
}

impl Backoffs {
    /// Reads the backoffs of a DaemonSet, without expired ones.
    pub fn recall(host: &Host, set: &DaemonSet, settings: &Settings, now: Time) -> Self {
        let generation = set.status.observed_generation;
        let recalled: Option<Self> = host.memo().get(&set.meta.uid);
        let mut backoffs = recalled
            .filter(|recalled| recalled.generation == generation)
            .unwrap_or_default();
        backoffs.generation = generation;
        let expiry = settings.backoff_expiry().as_millis() as i64;
        backoffs
            .nodes
            .retain(|_, backoff| millis(now) - backoff.since <= expiry);
        backoffs
    }

    /// Writes the backoffs, which have changed.
    pub fn remember(&self, host: &Host, set: &DaemonSet, settings: &Settings) {
        let uid = &set.meta.uid;
        let expiry = settings.backoff_expiry();
        if let Err(error) = host.memo().put(uid, self, uid, expiry) {
            warning!(host, "the backoff of failed pods is lost: {error}");
        }
    }

    /// Whether a failed pod of a node may be deleted now. If so, the node's next one has to wait twice
    /// as long.
    ///
    /// # Errors
    /// The pod has to wait. The error is the whole backoff, after which the DaemonSet is reconciled again.
    pub fn pass(&mut self, node: &str, settings: &Settings, now: Time) -> Result<(), Duration> {
        let as_millis = |duration: Duration| duration.as_millis() as u64;
        let now = millis(now);
        let next = match self.nodes.get(node) {
            None => as_millis(settings.failed_pod_backoff),
            Some(backoff) if now - backoff.since < backoff.delay as i64 => {
                return Err(Duration::from_millis(backoff.delay));
            }
            Some(backoff) => (2 * backoff.delay).min(as_millis(settings.max_failed_pod_backoff)),
        };
        let backoff = Backoff {
            delay: next,
            since: now,
        };
        self.nodes.insert(node.into(), backoff);
        Ok(())
    }
}

fn millis(time: Time) -> i64 {
    time.seconds * 1000 + i64::from(time.nanoseconds / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn start() -> Time {
        Time::of_seconds(1_000_000)
    }

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let settings = Settings {
            max_failed_pod_backoff: 6 * SECOND,
            ..Settings::default()
        };
        let mut backoffs = Backoffs::default();
        let mut now = start();
        assert_eq!(backoffs.pass("a", &settings, now), Ok(()));
        for seconds in [1, 2, 4, 6, 6] {
            let delay = seconds * SECOND;
            assert_eq!(backoffs.pass("a", &settings, now), Err(delay));
            now = now + delay - Duration::from_millis(1);
            assert_eq!(backoffs.pass("a", &settings, now), Err(delay));
            now = now + Duration::from_millis(1);
            assert_eq!(backoffs.pass("a", &settings, now), Ok(()));
        }
    }

    #[test]
    fn each_node_has_a_backoff_of_its_own() {
        let (mut backoffs, settings) = (Backoffs::default(), Settings::default());
        assert_eq!(backoffs.pass("a", &settings, start()), Ok(()));
        assert_eq!(backoffs.pass("b", &settings, start()), Ok(()));
        assert_eq!(backoffs.pass("a", &settings, start()), Err(SECOND));
    }

    #[test]
    fn a_backoff_expires_after_twice_the_maximum_and_with_the_generation() {
        let cluster = flyball_sdk::testing::Cluster::new();
        let (host, settings) = (cluster.host(), Settings::default());
        let mut set = DaemonSet::default();
        set.meta.uid = "uid".into();
        let mut backoffs = Backoffs::recall(&host, &set, &settings, start());
        backoffs.pass("a", &settings, start()).unwrap();
        backoffs.remember(&host, &set, &settings);

        let expiry = settings.backoff_expiry();
        let recall = |set: &DaemonSet, at: Time| Backoffs::recall(&host, set, &settings, at);
        assert_eq!(recall(&set, start() + expiry), backoffs);
        let later = start() + expiry + Duration::from_millis(1);
        assert_eq!(recall(&set, later), Backoffs::default());
        set.status.observed_generation = 2;
        assert!(recall(&set, start()).nodes.is_empty());
    }
}
