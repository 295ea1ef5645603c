//! The containers of a pod that may still run.
//!
//! Upstream: pkg/volume/util/util.go: IsPodTerminated, notRunning.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::has_ended;

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

impl Container {
    fn runs(&self) -> bool {
        self.state.waiting.is_none() && self.state.terminated.is_none()
    }
}

/// Whether a pod needs no volumes any more: it has ended, or it is being deleted and none of its containers runs.
pub fn is_terminated<'c>(
    phase: &str,
    is_deleting: bool,
    containers: impl IntoIterator<Item = &'c Container>,
) -> bool {
    has_ended(phase) || is_deleting && !containers.into_iter().any(Container::runs)
}
