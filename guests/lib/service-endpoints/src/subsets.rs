//! The content of Endpoints: subsets of addresses with their ports, and their canonical form.
//!
//! Upstream: pkg/api/v1/endpoints/util.go: RepackSubsets, mapAddressesByPort, hashAddresses, SortSubsets,
//! lessAddrReady, LessEndpointAddress.

use std::collections::BTreeMap;

use flyball_sdk::StringMap;
use flyball_sdk::meta::{CoreObjectReference, null_is_default};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::slice::same_target;

/// The annotation with a leader's record, from times when Endpoints were locks.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Endpoints. They are read whole, because an update sends them whole.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Endpoints")]
pub struct Endpoints {
    #[view(
        path = "metadata",
        fields("labels", "annotations", "deletionTimestamp")
    )]
    pub meta: Meta,
    #[view(path = "subsets")]
    pub subsets: Vec<Subset>,
}

/// Addresses that have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub ports: Vec<SubsetPort>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub addresses: Vec<Address>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub not_ready_addresses: Vec<Address>,
}

/// An address of Endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    pub ip: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<CoreObjectReference>,
}

/// A port of all addresses of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub port: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

impl Endpoints {
    /// Whether they are the lock of a leader election.
    pub fn is_lock(&self) -> bool {
        self.meta.annotation(LEADER).is_some()
    }

    /// The annotations without this one.
    pub fn annotations_without(&self, annotation: &str) -> StringMap {
        let mut annotations = self.meta.annotations.clone();
        annotations.remove(annotation);
        annotations
    }
}

impl Subset {
    /// Number of its addresses.
    pub fn len(&self) -> usize {
        self.addresses.len() + self.not_ready_addresses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Packs subsets in canonical form: each port is in the subsets of the addresses that have it, addresses with the same
/// ports and readiness are in one subset, and all lists are sorted. An address that is listed as ready and as not ready
/// for a port is not ready.
pub fn repack(subsets: Vec<Subset>) -> Vec<Subset> {
    let mut addresses = Vec::new();
    // `None` stands for a subset without ports.
    let mut by_port: BTreeMap<Option<SubsetPort>, Vec<(usize, bool)>> = BTreeMap::new();
    for subset in subsets {
        let start = addresses.len();
        addresses.extend(subset.addresses);
        let not_ready = addresses.len();
        addresses.extend(subset.not_ready_addresses);
        let members = (start..addresses.len()).map(|at| (at, at < not_ready));
        let none = subset.ports.is_empty().then_some(None);
        for port in subset.ports.into_iter().map(Some).chain(none) {
            by_port.entry(port).or_default().extend(members.clone());
        }
    }
    let mut distinct = Distinct::of(addresses);
    let mut groups: BTreeMap<Vec<(usize, bool)>, Vec<SubsetPort>> = BTreeMap::new();
    for (port, mut members) in by_port {
        for (at, _) in &mut members {
            *at = distinct.ranks[*at];
        }
        members.sort_unstable();
        // Not ready sorts before ready.
        members.dedup_by_key(|(rank, _)| *rank);
        groups.entry(members).or_default().extend(port);
    }
    for (rank, _) in groups.keys().flatten() {
        distinct.uses[*rank] += 1;
    }
    let mut packed: Vec<Subset> = (groups.into_iter())
        .map(|(members, ports)| {
            let mut subset = Subset {
                ports,
                ..Subset::default()
            };
            for (rank, is_ready) in members {
                let list = match is_ready {
                    true => &mut subset.addresses,
                    false => &mut subset.not_ready_addresses,
                };
                list.push(distinct.take(rank));
            }
            subset
        })
        .collect();
    packed.sort_unstable();
    packed
}

/// Addresses, some of which may be equal. Equal addresses of different pods count as different ones.
struct Distinct {
    addresses: Vec<Address>,
    /// The rank of each address among the distinct ones, in the order of address and UID.
    ranks: Vec<usize>,
    /// The position of the first address of each rank, which stands for all of them.
    firsts: Vec<usize>,
    /// How often the address of each rank is still going to be taken.
    uses: Vec<usize>,
}

impl Distinct {
    fn of(addresses: Vec<Address>) -> Self {
        let identity = |at: usize| {
            let address: &Address = &addresses[at];
            let uid = (address.target_ref.as_ref()).map_or("", |target| target.uid.as_str());
            (address.ip.as_str(), uid)
        };
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        order.sort_by_key(|at| identity(*at));
        let (mut ranks, mut firsts) = (vec![0; addresses.len()], Vec::<usize>::new());
        for at in order {
            if firsts
                .last()
                .is_none_or(|first| identity(*first) != identity(at))
            {
                firsts.push(at);
            }
            ranks[at] = firsts.len() - 1;
        }
        let uses = vec![0; firsts.len()];
        Self {
            addresses,
            ranks,
            firsts,
            uses,
        }
    }

    /// The address of a rank. The last use moves it.
    fn take(&mut self, rank: usize) -> Address {
        let address = &mut self.addresses[self.firsts[rank]];
        self.uses[rank] -= 1;
        match self.uses[rank] {
            0 => std::mem::take(address),
            _ => address.clone(),
        }
    }
}

/// Whether two lists of canonical subsets say the same. The resource versions of pods don't count.
pub fn same(one: &[Subset], other: &[Subset]) -> bool {
    all_same(one, other, |one, other| {
        one.ports == other.ports
            && all_same(&one.addresses, &other.addresses, same_address)
            && all_same(
                &one.not_ready_addresses,
                &other.not_ready_addresses,
                same_address,
            )
    })
}

fn all_same<T>(one: &[T], other: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
}

fn same_address(one: &Address, other: &Address) -> bool {
    let Address {
        ip,
        hostname,
        node_name,
        target_ref,
    } = one;
    *ip == other.ip
        && *hostname == other.hostname
        && *node_name == other.node_name
        && same_target(target_ref.as_ref(), other.target_ref.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(object: Value) -> Subset {
        flyball_sdk::serde_json::from_value(object).unwrap()
    }

    fn packed(subsets: Value) -> Value {
        let subsets: Vec<Subset> = flyball_sdk::serde_json::from_value(subsets).unwrap();
        json!(repack(subsets))
    }

    #[test]
    fn addresses_with_the_same_ports_are_one_subset() {
        assert_eq!(
            packed(json!([
                {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 80}]},
                {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]},
                {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 81}]},
                {"notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 80}]},
                {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 81}]},
                {"notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 81}]},
            ])),
            json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
                "notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 80}, {"port": 81}]}])
        );
    }

    #[test]
    fn a_port_with_other_addresses_or_readiness_is_another_subset() {
        assert_eq!(
            packed(json!([
                {"addresses": [{"ip": "1"}], "ports": [{"port": 80}, {"port": 81}]},
                {"notReadyAddresses": [{"ip": "1"}], "ports": [{"port": 81}]},
                {"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 82}]},
            ])),
            json!([
                {"addresses": [{"ip": "1"}], "ports": [{"port": 80}]},
                {"notReadyAddresses": [{"ip": "1"}], "ports": [{"port": 81}]},
                {"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 82}]},
            ])
        );
    }

    #[test]
    fn subsets_without_ports_are_kept_and_empty_lists_are_not() {
        assert_eq!(
            packed(json!([{"addresses": [{"ip": "2"}]}, {"addresses": [{"ip": "1"}]}])),
            json!([{"addresses": [{"ip": "1"}, {"ip": "2"}]}])
        );
        assert_eq!(packed(json!([])), json!([]));
    }

    #[test]
    fn the_same_address_of_two_pods_counts_twice_and_of_one_pod_once() {
        let address =
            |uid: &str, host: &str| json!({"ip": "1", "hostname": host, "targetRef": {"uid": uid}});
        assert_eq!(
            packed(
                json!([{"addresses": [address("b", ""), address("a", "first"), address("a", "second")]}])
            ),
            json!([{"addresses": [
                {"ip": "1", "hostname": "first", "targetRef": {"uid": "a"}},
                {"ip": "1", "targetRef": {"uid": "b"}},
            ]}])
        );
    }

    #[test]
    fn only_the_version_of_a_pod_makes_no_difference() {
        let with = |version: &str, name: &str| {
            [subset(json!({"addresses": [
                {"ip": "1", "targetRef": {"name": name, "resourceVersion": version}}
            ]}))]
        };
        assert!(same(&with("1", "a"), &with("2", "a")));
        assert!(!same(&with("1", "a"), &with("1", "b")));
    }
}
