//! The inputs of the decisions of a reconcile.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: getNodesToDaemonPods.
//! Upstream: pkg/controller/daemon/util/daemonset_util.go: IsPodUpdated, GetTargetNodeName.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::placement::{Fit, Fits};
use crate::views::{DaemonSet, Pod};

/// The label of pods and revisions with the hash of the revision.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// The label of pods with the generation of the template. Older releases had no other.
pub const GENERATION_LABEL: &str = "pod-template-generation";

/// The inputs of the decisions.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub set: &'a DaemonSet,
    pub fits: &'a Fits,
    /// The hash of the current revision.
    pub hash: &'a str,
    pub now: Time,
}

/// The pods of a DaemonSet by node. Pods that have ended and are being deleted are left out: only their finalizers or
/// the kubelet keep them.
pub type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Pod>>;

impl Observed<'_> {
    /// How a node suits; `None` if it does not exist.
    pub fn fit(&self, node: &str) -> Option<Fit> {
        self.fits.get(node).copied()
    }

    /// Number of nodes that should run a pod.
    pub fn desired(&self) -> usize {
        self.fits.values().filter(|fit| fit.should_run()).count()
    }

    /// Whether a pod has the label of the current revision.
    pub fn has_hash(&self, pod: &Pod) -> bool {
        pod.labels.label(HASH_LABEL).unwrap_or_default() == self.hash
    }

    /// Whether a pod has the current template: by its hash, or by the generation of the template.
    pub fn is_updated(&self, pod: &Pod) -> bool {
        let has_generation = || {
            let generation = self
                .set
                .template_generation()
                .map(|number| number.to_string());
            generation.is_some() && pod.labels.label(GENERATION_LABEL) == generation.as_deref()
        };
        !self.hash.is_empty() && self.has_hash(pod) || has_generation()
    }

    pub fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set, self.now)
    }
}

/// Groups pods by the node that they run on or are meant for. Pods that name no node are left out.
pub fn by_node(pods: &[Pod]) -> ByNode<'_> {
    let mut all = ByNode::new();
    for pod in pods.iter().filter(|pod| !pod.is_leftover()) {
        if let Some(node) = pod.target_node() {
            all.entry(node).or_default().push(pod);
        }
    }
    all
}

/// Orders pods of one node: scheduled ones first, then by age. The first one is kept if there are too
/// many.
pub fn sort(pods: &mut [&Pod]) {
    pods.sort_by_key(|pod| (!pod.is_scheduled(), pod.created, &pod.name));
}
