//! A range of the cluster, cut into equal blocks: one for each node.
//!
//! Upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go: NewCIDRSet, indexToCIDRBlock, getBeginningAndEndIndices,
//! getIndexForIP, getMaxCIDRs.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use flyball_sdk::prelude::*;
use ipnet::IpNet;

/// The largest difference between the prefix lengths of a node's range and of the cluster's range, for IPv6, as in
/// kube-controller-manager.
pub const MAX_IPV6_DIFFERENCE: u8 = 16;

/// A range of the cluster. Its blocks are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CidrSet {
    cluster: IpNet,
    /// The length of a block's prefix.
    mask_size: u8,
}

impl CidrSet {
    /// `None` if the cluster's range can't be cut into blocks with this length of prefix.
    pub fn new(cluster: IpNet, mask_size: u8) -> Option<Self> {
        let difference = mask_size.checked_sub(cluster.prefix_len())?;
        let is_valid = mask_size <= cluster.max_prefix_len()
            && (matches!(cluster, IpNet::V4(_)) || difference <= MAX_IPV6_DIFFERENCE);
        is_valid.then_some(Self { cluster, mask_size })
    }

    /// The value of the metrics' label.
    pub fn label(&self) -> String {
        self.cluster.to_string()
    }

    /// The number of blocks.
    pub fn max(&self) -> u64 {
        1 << (self.mask_size - self.cluster.prefix_len())
    }

    /// Returns a block by its number.
    pub fn block(&self, index: u64) -> IpNet {
        let size = self.cluster.max_prefix_len() - self.mask_size;
        let first =
            bits(self.cluster.network()) | u128::from(index).checked_shl(size.into()).unwrap_or(0);
        let address = match self.cluster {
            IpNet::V4(_) => IpAddr::V4((first as u32).into()),
            IpNet::V6(_) => IpAddr::V6(first.into()),
        };
        IpNet::new(address, self.mask_size).expect("the length was checked")
    }

    /// Whether a range has addresses in common with this one.
    pub fn overlaps(&self, range: &IpNet) -> bool {
        self.cluster.contains(range) || range.contains(&self.cluster)
    }

    /// Returns the blocks with addresses of this range.
    ///
    /// # Errors
    /// The range has no address in common with the range of the cluster.
    pub fn blocks_of(&self, range: &IpNet) -> Result<RangeInclusive<u64>, Error> {
        if !self.overlaps(range) {
            return Err(Error::terminal(format!(
                "{range} is not in the range {} of the cluster",
                self.cluster
            )));
        }
        if range.prefix_len() <= self.cluster.prefix_len() {
            return Ok(0..=self.max() - 1);
        }
        Ok(self.index_of(range.network())..=self.index_of(range.broadcast()))
    }

    /// The number of the block of an address of this range.
    fn index_of(&self, address: IpAddr) -> u64 {
        let size = self.cluster.max_prefix_len() - self.mask_size;
        let offset = bits(address) ^ bits(self.cluster.network());
        offset.checked_shr(size.into()).unwrap_or(0) as u64
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}
