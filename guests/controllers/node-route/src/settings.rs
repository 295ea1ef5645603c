//! The operator's settings.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/app/core.go: startRouteController, processCIDRs.

use std::net::IpAddr;

use flyball_sdk::cidr;
use flyball_sdk::prelude::*;

/// The configuration key of the ranges of the cluster's pods.
pub(crate) const CLUSTER_CIDR: &str = "cluster-cidr";
/// The configuration key of the cluster's name.
pub(crate) const CLUSTER_NAME: &str = "cluster-name";
/// The configuration key of the time between two runs.
pub(crate) const PERIOD: &str = "reconciliation-period";
/// The configuration key of the time between two runs that no change of a node asks for, with [`GATE`].
pub(crate) const RESYNC: &str = "resync-period";
/// The feature gate: changes of nodes start runs, and no period does.
pub(crate) const GATE: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: IpAddr,
    last: IpAddr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) cluster_name: String,
    /// The ranges of the cluster's pods: one, or two of different families.
    pub(crate) cluster: Vec<Range>,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// The ranges are missing or invalid. The error is terminal.
    pub(crate) fn read(host: &Host) -> Result<Self, Error> {
        let text = host.config(CLUSTER_CIDR).unwrap_or_default();
        let invalid = || Error::invalid_config(CLUSTER_CIDR, &text);
        let ranges: Option<Vec<Range>> = text.trim().split(',').map(Range::parse).collect();
        let cluster = ranges.ok_or_else(invalid)?;
        match cluster[..] {
            [_] => {}
            [a, b] if a.first.is_ipv4() != b.first.is_ipv4() => {}
            _ => return Err(invalid()),
        }
        let cluster_name = host.config(CLUSTER_NAME).unwrap_or_default();
        Ok(Self {
            cluster_name,
            cluster,
        })
    }

    /// Whether the controller may delete a route to this range: its first or its last address is the cluster's.
    pub(crate) fn is_responsible(&self, destination: Range) -> bool {
        self.cluster
            .iter()
            .any(|range| range.contains(destination.first) || range.contains(destination.last))
    }
}

impl Range {
    /// Parses a range such as `10.244.0.0/16`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = cidr(text)?;
        Some(match address {
            IpAddr::V4(address) => {
                let hosts = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let first = address.to_bits() & !hosts;
                Self {
                    first: IpAddr::V4(first.into()),
                    last: IpAddr::V4((first | hosts).into()),
                }
            }
            IpAddr::V6(address) => {
                let hosts = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let first = address.to_bits() & !hosts;
                Self {
                    first: IpAddr::V6(first.into()),
                    last: IpAddr::V6((first | hosts).into()),
                }
            }
        })
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }
}
