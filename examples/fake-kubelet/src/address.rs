//! Addresses: `172.16.0.0/12` is for nodes, and `10.0.0.0/8` is divided among them for their pods.

use std::net::Ipv4Addr;

use flyball_sdk::hash::fnv32a;

/// How many addresses are tried before one is taken though another pod has it.
pub const ATTEMPTS: u32 = 16;

const NODES: u32 = u32::from_be_bytes([172, 16, 0, 0]);
const PODS: u32 = u32::from_be_bytes([10, 0, 0, 0]);
/// The bits of an address that `10.0.0.0/8` leaves free.
const FREE_BITS: u32 = 24;

/// The addresses of one node's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u32,
    /// How many bits the range leaves free.
    bits: u32,
}

/// The address of the node of this number.
pub fn of_node(node: u32) -> String {
    Ipv4Addr::from(NODES + node + 1).to_string()
}

/// The range of the node of this number, of so many in all. As large as can be: pods that start at
/// the same moment don't see each other's addresses, and must not choose the same.
pub fn pods_of_node(node: u32, nodes: u32) -> Range {
    let bits = FREE_BITS - nodes.max(1).next_power_of_two().trailing_zeros();
    Range {
        first: PODS + (node << bits),
        bits,
    }
}

impl Range {
    /// As in `10.0.0.0/10`.
    pub fn cidr(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first), 32 - self.bits)
    }

    /// An address for the pod of this UID; each attempt gives another one. Neither the first nor
    /// the last of the range.
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
    fn each_node_has_an_address_and_a_range_of_its_own() {
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
    fn the_addresses_of_pods_lie_in_the_range_and_hardly_collide() {
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
