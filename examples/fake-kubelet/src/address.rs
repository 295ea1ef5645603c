//! Addresses: nodes are in `172.16.0.0/12`; their pods share `10.0.0.0/8`, which is divided into
//! one range per node.

use std::net::Ipv4Addr;

use flyball_hash::fnv32a;

/// Number of addresses to try before an address in use is assigned anyway.
pub const ATTEMPTS: u32 = 16;

const NODES: u32 = u32::from_be_bytes([172, 16, 0, 0]);
const PODS: u32 = u32::from_be_bytes([10, 0, 0, 0]);
/// Number of host bits of `10.0.0.0/8`.
const FREE_BITS: u32 = 24;

/// The address range of a node's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u32,
    /// Number of host bits.
    bits: u32,
}

/// Returns the address of a node, given its number.
pub fn of_node(node: u32) -> String {
    Ipv4Addr::from(NODES + node + 1).to_string()
}

/// Returns the pod range of a node, given its number and the number of nodes. Ranges are as large
/// as possible: pods that start at the same time don't see each other's addresses, so collisions
/// must be unlikely.
pub fn pods_of_node(node: u32, nodes: u32) -> Range {
    let bits = FREE_BITS - nodes.max(1).next_power_of_two().trailing_zeros();
    Range {
        first: PODS + (node << bits),
        bits,
    }
}

impl Range {
    /// Returns the range in CIDR notation, such as `10.0.0.0/10`.
    pub fn cidr(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first), 32 - self.bits)
    }

    /// Returns an address for the pod with this UID, different for each attempt. The first and last
    /// address of the range are never used.
    pub fn choose(self, uid: &str, attempt: u32) -> String {
        let hash = fnv32a(format!("{uid}/{attempt}").as_bytes());
        let usable = (1 << self.bits) - 2;
        Ipv4Addr::from(self.first + 1 + hash % usable).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_node_has_its_own_address_and_range() {
        assert_eq!(
            (of_node(0), of_node(255)),
            ("172.16.0.1".into(), "172.16.1.0".into())
        );
        let ranges: Vec<_> = (0..3).map(|node| pods_of_node(node, 3).cidr()).collect();
        assert_eq!(ranges, ["10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10"]);
        assert_eq!(pods_of_node(0, 1).cidr(), "10.0.0.0/8");
        assert_eq!(pods_of_node(65_535, 65_536).cidr(), "10.255.255.0/24");
    }

    #[test]
    fn pod_addresses_are_in_the_range_and_rarely_collide() {
        let range = pods_of_node(2, 3);
        let chosen: BTreeSet<String> = (0..1000)
            .map(|pod| range.choose(&format!("uid-{pod}"), 0))
            .collect();
        assert!(chosen.len() >= 998, "{}", chosen.len());
        assert!(chosen.iter().all(|own| {
            (128..192).contains(&own.split('.').nth(1).unwrap().parse::<u32>().unwrap())
        }));
        assert_ne!(range.choose("uid", 0), range.choose("uid", 1));
    }
}
