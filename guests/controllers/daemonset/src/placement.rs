//! Selects the nodes that should run a daemon pod, by the predicates of the scheduler that do not
//! depend on other pods.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: NodeShouldRunDaemonPod, predicates, NewPod.

use std::collections::BTreeMap;

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
pub use flyball_taints::COMPARISON_OPERATORS;
use flyball_taints::Toleration;

use crate::affinity::Required;
use crate::taints::default_tolerations;
use crate::views::{Candidate, Node, PodSpec};

/// How a node suits the pods of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// A pod should run on it.
    Fits,
    /// A pod that runs on it may stay, but no new one should run.
    MayStay,
    /// No pod should run on it.
    Unfit,
}

impl Fit {
    pub fn should_run(self) -> bool {
        self == Self::Fits
    }

    pub fn may_stay(self) -> bool {
        self != Self::Unfit
    }
}

/// The fit of every node, by name.
pub type Fits = BTreeMap<String, Fit>;

/// The requirements that a DaemonSet's template has of nodes.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// The only node; empty for any.
    node_name: String,
    node_selector: StringMap,
    affinity: Required,
    /// The template's tolerations and the tolerations that all daemon pods have.
    tolerations: Vec<Toleration>,
    /// Whether tolerations may compare numbers.
    compares: bool,
}

impl Requirements {
    /// Returns the requirements of a template. `compares` is the value of [`COMPARISON_OPERATORS`].
    pub fn of(spec: &PodSpec, compares: bool) -> Self {
        let defaults = default_tolerations(spec.host_network);
        Self {
            node_name: spec.node_name.clone(),
            node_selector: spec.node_selector.clone(),
            affinity: Required::of(spec.affinity.as_ref()),
            tolerations: spec.tolerations.iter().cloned().chain(defaults).collect(),
            compares,
        }
    }

    /// Returns how a node suits.
    pub fn judge(&self, node: &Node) -> Fit {
        let is_named = self.node_name.is_empty() || self.node_name == node.name;
        let has_labels = || {
            self.node_selector
                .iter()
                .all(|(key, value)| node.labels.label(key) == Some(value))
        };
        if !is_named || !has_labels() || !self.affinity.matches(&node.name, &node.labels) {
            return Fit::Unfit;
        }
        let mut taints = node.taints.iter().filter(|taint| {
            let tolerates = |one: &Toleration| one.tolerates(taint, self.compares);
            taint.repels() && !self.tolerations.iter().any(tolerates)
        });
        match taints.next() {
            None => Fit::Fits,
            Some(first) if first.evicts() || taints.any(|taint| taint.evicts()) => Fit::Unfit,
            Some(_) => Fit::MayStay,
        }
    }
}

/// Returns the fit of every node by name.
///
/// # Errors
/// The nodes can't be read.
pub fn judge_all(host: &Host, requirements: &Requirements) -> Result<Fits, Error> {
    let mut fits = Fits::new();
    host.list::<Node>().each(|node| {
        let fit = requirements.judge(&node);
        fits.insert(node.name, fit);
        Ok(())
    })?;
    Ok(fits)
}

impl Candidate {
    /// The parts of its template that restrict nodes.
    pub fn pod_spec(&self) -> PodSpec {
        PodSpec {
            node_name: self.node_name.clone(),
            host_network: self.host_network,
            node_selector: self.node_selector.clone(),
            affinity: self.affinity.clone(),
            tolerations: self.tolerations.clone(),
        }
    }
}
