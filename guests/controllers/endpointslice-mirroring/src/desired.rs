//! The endpoints that Endpoints are mirrored to.
//!
//! Upstream: pkg/controller/endpointslicemirroring/reconciler_helpers.go: initPorts, addAddress.
//! Upstream: pkg/controller/endpointslicemirroring/utils.go: addressToEndpoint, epPortsToEpsPorts.
//! Upstream: pkg/controller/endpointslicemirroring/metrics/cache.go: numDesiredSlices.

use std::collections::BTreeMap;

use flyball_service_endpoints::ip::{self, Family};
use flyball_service_endpoints::size::Size;
use flyball_service_endpoints::slice::{Conditions, Endpoint, EndpointPort, PortKey};
use flyball_service_endpoints::subsets::{Address, Subset, SubsetPort, repack};

/// The endpoints with the same family and ports. They are in one slice.
pub type GroupKey = (Family, PortKey);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

/// The desired endpoints, and how many addresses are left out.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// A group may be empty: the subset has no address of the family.
    pub groups: BTreeMap<GroupKey, Group>,
    /// Number of addresses that aren't IP addresses.
    pub invalid: usize,
    /// Number of all addresses that are left out.
    pub skipped: usize,
}

impl Desired {
    /// Converts subsets. At most `maximum` addresses of each subset are mirrored, ready ones first.
    pub fn of(subsets: Vec<Subset>, maximum: usize) -> Self {
        let mut desired = Self::default();
        for subset in repack(subsets) {
            desired.add(&subset, maximum);
        }
        desired
    }

    /// The size of the Endpoints. Each group that is not empty has one slice.
    pub fn size(&self, maximum: usize) -> Size {
        let sizes = self.groups.values().map(|group| group.endpoints.len());
        Size {
            slices: sizes.clone().filter(|size| *size > 0).count(),
            ..Size::of_groups(sizes, maximum)
        }
    }

    fn add(&mut self, subset: &Subset, maximum: usize) {
        let ports: Vec<EndpointPort> = subset.ports.iter().map(endpoint_port).collect();
        let key = PortKey::of(&ports);
        for family in Family::ALL {
            let group = self.groups.entry((family, key.clone())).or_default();
            group.ports = ports.clone();
        }
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = (subset.not_ready_addresses.iter()).map(|address| (address, false));
        let mut added = 0;
        for (address, ready) in ready.chain(not_ready) {
            if added == maximum {
                break;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                self.invalid += 1;
                continue;
            };
            let group = self.groups.entry((family, key.clone())).or_default();
            group.endpoints.push(endpoint);
            added += 1;
        }
        self.skipped += subset.len() - added;
    }
}

/// Returns the endpoint of an address, with its family; `None` if it isn't an IP address.
fn endpoint(address: &Address, ready: bool) -> Option<(Family, Endpoint)> {
    let ip = ip::parse(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Conditions {
            ready: Some(ready),
            ..Conditions::default()
        },
        hostname: (!address.hostname.is_empty()).then(|| address.hostname.clone()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((Family::of(ip), endpoint))
}

fn endpoint_port(port: &SubsetPort) -> EndpointPort {
    EndpointPort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}
