//! Leases as the API server has them. Before nodes are marked, their leases are read again: a node whose lease was renewed
//! is not silent, but the cache is behind. Then other nodes may only seem to be silent, too, so that none is marked.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: tryUpdateNodeHealth, monitorNodeHealth.

use flyball_sdk::imports::Read;
use flyball_sdk::prelude::*;
use flyball_sdk::{info, warning};

use crate::observe::digest;
use crate::views::{LEASES, Lease};

/// The feature gate of these reads.
pub const CIRCUIT_BREAKER: &str = "NodeControllerLeaseCircuitBreaker";

/// What the API server says about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The lease was not renewed, or does not exist.
    Silent,
    /// The lease was renewed.
    Alive,
    /// The lease can't be read.
    Unknown {
        /// Whether the API server may be unreachable.
        is_outage: bool,
    },
}

/// Compares the leases of nodes with what was last seen of them: the digests of the times when they were renewed.
pub fn verify(host: &Host, nodes: &[(&str, u32)]) -> Vec<Verdict> {
    let read = |&(name, _): &(&str, u32)| Read::Get {
        kind: Lease::KIND.into(),
        namespace: LEASES.into(),
        name: name.into(),
        fields: Lease::FIELDS.iter().map(|&field| field.into()).collect(),
    };
    let batch = host.live().batch();
    let batch = nodes
        .iter()
        .map(read)
        .fold(batch, |batch, read| batch.with(read));
    let results = batch.run().into_iter();
    results
        .zip(nodes)
        .map(|(result, &(name, seen))| {
            let renewed = match result {
                Ok(result) => renewed(&result.0),
                Err(error) if error.is_not_found() => return Verdict::Silent,
                Err(error) => {
                    warning!(
                        host,
                        "can't read the lease of the silent node {name}: {error}"
                    );
                    let is_outage = error.status >= 500;
                    return Verdict::Unknown { is_outage };
                }
            };
            if digest(renewed.as_deref()) == seen {
                return Verdict::Silent;
            }
            info!(
                host,
                "the cached lease of node {name} is out of date: no node is marked"
            );
            Verdict::Alive
        })
        .collect()
}

/// When a lease was renewed.
fn renewed(lease: &[u8]) -> Option<String> {
    let lease: Value = flyball_sdk::serde_json::from_slice(lease).unwrap_or_default();
    lease["spec"]["renewTime"].as_str().map(str::to_owned)
}
