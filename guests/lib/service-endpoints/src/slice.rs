//! EndpointSlices: their views, when two endpoints are the same, and when an endpoint has changed.
//!
//! Upstream: staging/src/k8s.io/endpointslice/util/endpointset.go: hashEndpoint.
//! Upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go: EndpointsEqualBeyondHash.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: getEndpointSlicePrefix, setEndpointSliceLabels,
//! isReservedLabelKey.

use std::collections::HashMap;

use flyball_sdk::StringMap;
use flyball_sdk::meta::{CoreObjectReference, null_is_default};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The label with the name of the Service, or of the Endpoints, that a slice belongs to.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label with the controller that maintains a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of Endpoints and EndpointSlices of a Service without an address of its own.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// An EndpointSlice. It is cached whole, because an update sends it whole. Each change of a pod compares all slices of
/// a Service, so the view has no `fields`: slices are listed as rows.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "discovery.k8s.io/v1/EndpointSlice")]
pub struct Slice {
    #[view(path = "metadata")]
    pub meta: Meta,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[view(path = "addressType")]
    pub address_type: String,
    #[view(path = "endpoints")]
    pub endpoints: Vec<Endpoint>,
    #[view(path = "ports")]
    pub ports: Vec<EndpointPort>,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    #[serde(deserialize_with = "null_is_default")]
    pub addresses: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<CoreObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

/// The conditions of an endpoint; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The consumers that an endpoint is meant for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub for_zones: Vec<Named>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub for_nodes: Vec<Named>,
}

/// The name of a zone or of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Named {
    pub name: String,
}

/// A port of all endpoints of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub protocol: String,
    /// `None` stands for all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// The ports of a slice, in an order that does not depend on the Service's order. Slices with equal ports hold one
/// group of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey(Vec<EndpointPort>);

impl PortKey {
    pub fn of(ports: &[EndpointPort]) -> Self {
        let mut ports = ports.to_vec();
        ports.sort_unstable();
        Self(ports)
    }
}

/// The identity of an endpoint. Endpoints with different identities are different ones, whatever else they share.
#[derive(PartialEq, Eq, Hash)]
struct Identity<'a> {
    addresses: Vec<&'a str>,
    hostname: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Endpoint {
    /// Whether the endpoint is known to be ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// Whether an endpoint with the same identity has other properties. Hints and the resource version of the target
    /// don't count.
    pub fn differs(&self, other: &Self) -> bool {
        self.node_name != other.node_name
            || self.zone != other.zone
            || self.conditions != other.conditions
            || !same_target(self.target_ref.as_ref(), other.target_ref.as_ref())
    }

    fn identity(&self) -> Identity<'_> {
        let mut addresses: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        addresses.sort_unstable();
        let target = self.target_ref.as_ref();
        Identity {
            addresses,
            hostname: self.hostname.as_deref().unwrap_or_default(),
            namespace: target.map_or("", |target| &target.namespace),
            name: target.map_or("", |target| &target.name),
        }
    }
}

/// Whether two references refer to the same object. Its resource version is not compared: it changes with each change
/// of the pod.
pub fn same_target(one: Option<&CoreObjectReference>, other: Option<&CoreObjectReference>) -> bool {
    fn of(target: &CoreObjectReference) -> [&str; 6] {
        let CoreObjectReference {
            kind,
            namespace,
            name,
            uid,
            api_version,
            field_path,
            resource_version: _,
        } = target;
        [kind, namespace, name, uid, api_version, field_path]
    }
    one.map(of) == other.map(of)
}

/// The endpoints that a group of slices should have. Each is taken once.
#[derive(Clone, Debug, Default)]
pub struct Desired(Vec<Option<Endpoint>>);

impl Desired {
    /// Creates the set of desired endpoints. If several have the same identity, the last one counts.
    pub fn of(endpoints: Vec<Endpoint>) -> Self {
        let mut last: HashMap<Identity, usize> = HashMap::with_capacity(endpoints.len());
        for (at, endpoint) in endpoints.iter().enumerate() {
            last.insert(endpoint.identity(), at);
        }
        if last.len() == endpoints.len() {
            return Self(endpoints.into_iter().map(Some).collect());
        }
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        let mut endpoints: Vec<_> = endpoints.into_iter().map(Some).collect();
        Self(kept.into_iter().map(|at| endpoints[at].take()).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For each endpoint of each slice, in order, the position of the desired endpoint with the same identity. If
    /// several endpoints of slices have the same identity, only the first one gets the position.
    pub fn positions(&self, slices: &[Slice]) -> Vec<Vec<Option<usize>>> {
        let present = self.0.iter().enumerate();
        let mut wanted: HashMap<Identity, usize> = present
            .filter_map(|(at, endpoint)| Some((endpoint.as_ref()?.identity(), at)))
            .collect();
        let mut positions = Vec::with_capacity(slices.len());
        for slice in slices {
            let endpoints = slice.endpoints.iter();
            positions.push(
                endpoints
                    .map(|own| wanted.remove(&own.identity()))
                    .collect(),
            );
        }
        positions
    }

    /// The endpoint at a position.
    ///
    /// # Panics
    /// If it was taken.
    pub fn get(&self, at: usize) -> &Endpoint {
        self.0[at].as_ref().expect("it was not taken")
    }

    /// Takes the endpoint at a position.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn take(&mut self, at: usize) -> Endpoint {
        self.0[at].take().expect("each is taken once")
    }

    /// The endpoints that were not taken, in order.
    pub fn into_rest(self) -> Vec<Endpoint> {
        self.0.into_iter().flatten().collect()
    }
}

/// Lists the slices of a Service, or of Endpoints, that a controller maintains.
///
/// # Errors
/// A slice is malformed.
pub fn of_service(
    host: &Host,
    namespace: &str,
    name: &str,
    manager: &str,
) -> Result<Vec<Slice>, Error> {
    let selector = format!("{SERVICE_NAME}={name},{MANAGED_BY}={manager}");
    host.list::<Slice>()
        .namespace(namespace)
        .labels(&selector)
        .all()
}

/// The watch of slices that enqueues their Services, or their Endpoints, after `delay`.
pub fn watch(manager: &str, delay: std::time::Duration) -> Watch {
    let path = format!("metadata.labels['{SERVICE_NAME}']");
    flyball_sdk::describe::watch::<Slice>()
        .fields(&["."])
        .enqueue(
            Mapping::named(&path)
                .having(&format!("metadata.labels['{MANAGED_BY}']"), manager)
                .after(delay),
        )
}

/// The prefix of the name of a slice.
pub fn generate_name(name: &str) -> String {
    format!("{name}-")
}

/// Returns the labels of a slice: the labels of its Service or Endpoints, with the name and the manager.
pub fn with_reserved(labels: &StringMap, name: &str, manager: &str) -> StringMap {
    let mut labels = labels.clone();
    labels.insert(SERVICE_NAME.into(), name.into());
    labels.insert(MANAGED_BY.into(), manager.into());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: &str, name: &str) -> Endpoint {
        Endpoint {
            addresses: vec![address.into()],
            target_ref: Some(CoreObjectReference {
                name: name.into(),
                ..CoreObjectReference::default()
            }),
            ..Endpoint::default()
        }
    }

    fn slice(endpoints: &[Endpoint]) -> Slice {
        Slice {
            endpoints: endpoints.to_vec(),
            ..Slice::default()
        }
    }

    #[test]
    fn ports_are_one_group_whatever_their_order() {
        let port = |name: &str, number: i32| EndpointPort {
            name: name.into(),
            port: Some(number),
            ..EndpointPort::default()
        };
        let (a, b) = (port("a", 80), port("b", 81));
        assert_eq!(
            PortKey::of(&[a.clone(), b.clone()]),
            PortKey::of(&[b.clone(), a.clone()])
        );
        assert_ne!(PortKey::of(&[a]), PortKey::of(&[b]));
    }

    #[test]
    fn an_endpoint_is_found_once() {
        let [a, b, c] = [("1", "a"), ("2", "b"), ("3", "c")].map(|(ip, name)| endpoint(ip, name));
        let desired = Desired::of(vec![a.clone(), b.clone()]);
        let positions = desired.positions(&[slice(&[b.clone(), c, b]), slice(&[a])]);
        assert_eq!(positions, [vec![Some(1), None, None], vec![Some(0)]]);
    }

    #[test]
    fn another_address_hostname_or_name_makes_another_endpoint() {
        let a = endpoint("1", "a");
        let desired = Desired::of(vec![a.clone()]);
        let with_hostname = Endpoint {
            hostname: Some("a".into()),
            ..a.clone()
        };
        let others = [endpoint("2", "a"), endpoint("1", "b"), with_hostname];
        assert_eq!(desired.positions(&[slice(&others)]), [[None, None, None]]);
        let ready = Endpoint {
            conditions: Conditions {
                ready: Some(true),
                ..Conditions::default()
            },
            ..a.clone()
        };
        assert_eq!(
            desired.positions(&[slice(std::slice::from_ref(&ready))]),
            [[Some(0)]]
        );
        assert!(a.differs(&ready));
    }

    #[test]
    fn of_two_desired_endpoints_with_one_identity_the_last_counts() {
        let a = endpoint("1", "a");
        let b = endpoint("2", "b");
        let moved = Endpoint {
            node_name: Some("n".into()),
            ..a.clone()
        };
        let desired = Desired::of(vec![a, b.clone(), moved.clone()]);
        assert_eq!(desired.into_rest(), [b, moved]);
    }

    #[test]
    fn the_version_of_the_target_and_hints_are_no_change() {
        let a = endpoint("1", "a");
        let mut other = a.clone();
        other.target_ref.as_mut().unwrap().resource_version = "7".into();
        other.hints = Some(Hints::default());
        assert!(!a.differs(&other));
        other.target_ref.as_mut().unwrap().uid = "u".into();
        assert!(a.differs(&other));
        assert!(a.differs(&Endpoint {
            target_ref: None,
            ..a.clone()
        }));
    }

    #[test]
    fn the_prefix_of_the_longest_name_has_a_dash_too() {
        let longest = "a".repeat(253);
        assert_eq!(generate_name(&longest), format!("{longest}-"));
    }
}
