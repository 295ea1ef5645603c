//! The operator's settings. The host derives them from kube-controller-manager's flags, and checks the flags.
//!
//! Upstream: pkg/controller/nodeipam/config/types.go.

use flyball_sdk::prelude::*;
use ipnet::IpNet;

use crate::cidr_set::CidrSet;

/// The configuration key of the ranges of the cluster.
const CLUSTER: &str = "cluster-cidrs";
/// The configuration key of the lengths of the nodes' prefixes.
const MASK_SIZES: &str = "node-cidr-mask-sizes";
/// The configuration key of the ranges of Services.
const SERVICES: &str = "service-cidrs";

/// The configuration keys with their descriptions.
pub const KEYS: &[(&str, &str)] = &[
    (
        CLUSTER,
        "the ranges for the pods of all nodes, at most one of each family, separated by commas",
    ),
    (
        MASK_SIZES,
        "for each of these ranges, the length of the prefix of a node's range, separated by commas",
    ),
    (SERVICES, "ranges that no node gets, separated by commas"),
];

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In the order of `spec.podCIDRs`; at least one.
    pub sets: Vec<CidrSet>,
    pub services: Vec<IpNet>,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is missing or invalid.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let text = |key: &str| host.config(key).unwrap_or_default();
        Self::of(&text(CLUSTER), &text(MASK_SIZES), &text(SERVICES))
    }

    /// Parses the values of [`KEYS`].
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of(cluster: &str, mask_sizes: &str, services: &str) -> Result<Self, Error> {
        let clusters = ranges(CLUSTER, cluster)?;
        let sizes: Result<Vec<u8>, _> = items(mask_sizes).map(str::parse).collect();
        let sizes = sizes.map_err(|_| Error::invalid_config(MASK_SIZES, mask_sizes))?;
        if clusters.is_empty() {
            return Err(Error::invalid_config(CLUSTER, cluster));
        }
        if sizes.len() != clusters.len() {
            return Err(Error::invalid_config(MASK_SIZES, mask_sizes));
        }
        let sets = clusters.into_iter().zip(sizes);
        let sets: Option<Vec<CidrSet>> = sets
            .map(|(range, size)| CidrSet::new(range, size))
            .collect();
        Ok(Self {
            sets: sets.ok_or_else(|| Error::invalid_config(MASK_SIZES, mask_sizes))?,
            services: ranges(SERVICES, services)?,
        })
    }
}

/// Parses a range, without the bits beyond its prefix. Returns `None` if the text isn't a range.
pub fn range(text: &str) -> Option<IpNet> {
    let (address, prefix) = flyball_sdk::cidr(text)?;
    IpNet::new(address, prefix).ok().map(|range| range.trunc())
}

fn ranges(key: &str, text: &str) -> Result<Vec<IpNet>, Error> {
    let all: Option<Vec<IpNet>> = items(text).map(range).collect();
    all.ok_or_else(|| Error::invalid_config(key, text))
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
