//! What the controllers of a cloud's nodes share: provider IDs, and the pace of their passes.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/cloud.go: GetInstanceProviderID.

use std::time::Duration;

use flyball_cloud::{Call, Capabilities, Cloud, CloudError, ErrorKind};
use flyball_sdk::{Host, MicroTime};

/// The name of the only key of a queue of passes.
pub const ALL: &str = "all";
/// Nodes of a pass whose calls are made at once. It bounds the memory of a call's documents.
pub const AT_ONCE: usize = 100;

/// Looks up the provider ID of a node by its name, at a cloud that has no `instancesV2`.
///
/// # Errors
/// The cloud's error. Any but [`ErrorKind::NotImplemented`] and [`ErrorKind::InstanceNotFound`] is wrapped.
pub fn provider_id(
    cloud: &Cloud,
    capabilities: &Capabilities,
    node: &str,
) -> Result<String, CloudError> {
    match cloud.run(Call::instance_id(node)) {
        Ok(id) => Ok(format!("{}://{id}", capabilities.provider_name)),
        Err(error)
            if error.is(&ErrorKind::NotImplemented) || error.is(&ErrorKind::InstanceNotFound) =>
        {
            Err(error)
        }
        Err(error) => Err(error.wrap("failed to get instance ID from cloud provider")),
    }
}

/// The pace of passes over all nodes: a pass begins a period after the one before has ended, so that a slow cloud is
/// not asked without a pause. The end of the last pass is in the memo; a ticker with the same period starts the first
/// one.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    host: Host<'a>,
    /// The key of the memo.
    key: &'static str,
    period: Duration,
}

impl<'a> Pace<'a> {
    pub fn new(host: &Host<'a>, key: &'static str, period: Duration) -> Self {
        Self {
            host: *host,
            key,
            period,
        }
    }

    /// Returns the time until the next pass; `None` if it is due.
    pub fn left(&self) -> Option<Duration> {
        let MicroTime(ended) = self.host.memo().get(self.key)?;
        let left = (ended + self.period).from_now(self.host.now());
        // Less than the precision of timers does not count. An end in the future means that the clock was set back.
        (left > Duration::from_millis(1) && left <= self.period).then_some(left)
    }

    /// Notes that a pass has ended. Returns the time until the next one.
    pub fn end(&self) -> Duration {
        let now = MicroTime(self.host.now());
        // Without the entry, the next tick starts a pass.
        let _ = self.host.memo().put(self.key, &now, "", Duration::ZERO);
        self.period
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    #[test]
    fn a_pass_is_due_a_period_after_the_end_of_the_one_before() {
        let cluster = Cluster::new();
        let second = Duration::from_secs(1);
        let left = || Pace::new(&cluster.host(), "pass", 5 * second).left();
        assert_eq!(left(), None);
        cluster.advance(2 * second);
        assert_eq!(
            Pace::new(&cluster.host(), "pass", 5 * second).end(),
            5 * second
        );
        assert_eq!(left(), Some(5 * second));
        cluster.advance(4 * second);
        assert_eq!(left(), Some(second));
        cluster.advance(second);
        assert_eq!(left(), None);
    }
}
