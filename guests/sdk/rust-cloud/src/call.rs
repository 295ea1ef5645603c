//! Calls of the cloud by a controller, and their results.

use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use flyball_sdk::{Host, Raw};
use serde::Serialize;

use crate::document::{Arguments, Outcome, parse, to_bytes};
use crate::error::CloudError;
use crate::types::{Capabilities, InstanceMetadata, NodeAddress, Route, Zone};

/// The cloud, for a controller that asks for the import `cloud`.
///
/// In the sandbox, calls go through the host to the provider. In tests, they go to the
/// [`FakeCloud`](crate::testing::FakeCloud) of the cluster.
#[derive(Clone, Copy)]
pub struct Cloud<'a> {
    #[cfg_attr(
        target_arch = "wasm32",
        expect(dead_code, reason = "the sandbox has one host")
    )]
    host: Host<'a>,
}

/// A call of a method whose result is a `T`.
#[derive(Clone, Debug)]
pub struct Call<T> {
    pub(crate) method: &'static str,
    pub(crate) arguments: Vec<u8>,
    pub(crate) nodes: Nodes,
    read: fn(Outcome) -> T,
    result: PhantomData<fn() -> T>,
}

/// The nodes of a call, serialized once. Clones are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(Rc<[u8]>);

/// The end of a call in a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    pub outcome: Result<T, CloudError>,
    pub took: Duration,
}

/// The result of `GetLoadBalancer`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadBalancer {
    /// The value of a Service's `status.loadBalancer`; `None` is Go's nil.
    pub status: Option<Raw>,
    pub exists: bool,
}

impl Nodes {
    /// Serializes nodes: whole Nodes or views. Each needs at least `metadata.name` and `metadata.uid`, so that the host
    /// can give the provider the Node of its cache, if the provider watches Nodes.
    pub fn of<T: Serialize>(nodes: &[T]) -> Self {
        Self(to_bytes(nodes).into())
    }

    /// The nodes as a JSON array; empty if the call takes none.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> Cloud<'a> {
    /// The cloud of this host.
    pub fn of(host: &Host<'a>) -> Self {
        Self { host: *host }
    }

    /// Returns what the cloud supports. Cheap: the host has asked the provider.
    ///
    /// # Errors
    /// No provider runs ([`CloudError::is_unavailable`]), or it fails.
    pub fn capabilities(&self) -> Result<Capabilities, CloudError> {
        let bytes = self.imported_capabilities()?;
        parse(&bytes).map_err(|error| CloudError::malformed("capabilities", &error))
    }

    /// Makes one call.
    ///
    /// # Errors
    /// The provider's error, or the host's.
    pub fn run<T>(&self, call: Call<T>) -> Result<T, CloudError> {
        let mut answers = self.run_all(vec![call], 1);
        let answer = answers.pop().expect("a batch has an answer for each call");
        answer.outcome
    }

    /// Makes calls, at most `concurrency` of them at once (0: as many as the provider's limits allow), and returns one
    /// answer for each, in their order. At most 1,000 calls are made; the others fail.
    pub fn run_all<T>(&self, calls: Vec<Call<T>>, concurrency: u32) -> Vec<Answer<T>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let readers: Vec<_> = calls.iter().map(|call| (call.method, call.read)).collect();
        let answers = self.imported_run(calls, concurrency);
        let pairs = answers.into_iter().zip(readers);
        let answers = pairs.map(|(answer, (method, read))| {
            let outcome = answer.outcome.and_then(|bytes| {
                let outcome = parse(&bytes).map_err(|error| CloudError::malformed(method, &error));
                outcome.map(read)
            });
            Answer {
                outcome,
                took: answer.took,
            }
        });
        answers.collect()
    }

    #[cfg(target_arch = "wasm32")]
    fn imported_capabilities(&self) -> Result<Vec<u8>, CloudError> {
        crate::wasm::capabilities()
    }

    #[cfg(target_arch = "wasm32")]
    fn imported_run<T>(&self, calls: Vec<Call<T>>, concurrency: u32) -> Vec<Answer<Vec<u8>>> {
        crate::wasm::run(calls, concurrency)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn imported_capabilities(&self) -> Result<Vec<u8>, CloudError> {
        crate::testing::of_host(&self.host)?.capabilities()
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn imported_run<T>(&self, calls: Vec<Call<T>>, _: u32) -> Vec<Answer<Vec<u8>>> {
        let cloud = crate::testing::of_host(&self.host);
        let run = |call: Call<T>| Answer {
            outcome: cloud
                .clone()
                .and_then(|cloud| cloud.call(call.method, &call.arguments, call.nodes.as_bytes())),
            took: Duration::ZERO,
        };
        calls.into_iter().map(run).collect()
    }
}

/// Load balancers. `service` is a whole Service, with all fields that the controller's cache has.
impl Call<LoadBalancer> {
    pub fn get_load_balancer(cluster_name: &str, service: &(impl Serialize + ?Sized)) -> Self {
        let arguments = Arguments::of_service(cluster_name, service);
        Self::new("GetLoadBalancer", arguments, |outcome| LoadBalancer {
            status: outcome.status,
            exists: outcome.exists.unwrap_or_default(),
        })
    }
}

impl Call<Option<Raw>> {
    /// The result is the value of `status.loadBalancer`; `None` is Go's nil, and `{}` an empty status.
    pub fn ensure_load_balancer(
        cluster_name: &str,
        service: &(impl Serialize + ?Sized),
        nodes: &Nodes,
    ) -> Self {
        let arguments = Arguments::of_service(cluster_name, service);
        Self::new("EnsureLoadBalancer", arguments, |outcome| outcome.status).with_nodes(nodes)
    }
}

impl Call<()> {
    pub fn update_load_balancer(
        cluster_name: &str,
        service: &(impl Serialize + ?Sized),
        nodes: &Nodes,
    ) -> Self {
        let arguments = Arguments::of_service(cluster_name, service);
        Self::new("UpdateLoadBalancer", arguments, drop).with_nodes(nodes)
    }

    pub fn ensure_load_balancer_deleted(
        cluster_name: &str,
        service: &(impl Serialize + ?Sized),
    ) -> Self {
        let arguments = Arguments::of_service(cluster_name, service);
        Self::new("EnsureLoadBalancerDeleted", arguments, drop)
    }

    /// `name_hint` is the node's UID.
    pub fn create_route(cluster_name: &str, name_hint: &str, route: &Route) -> Self {
        let arguments = Arguments {
            cluster_name: Some(cluster_name.into()),
            name_hint: Some(name_hint.into()),
            route: Some(route.clone()),
            ..Arguments::default()
        };
        Self::new("CreateRoute", arguments, drop)
    }

    pub fn delete_route(cluster_name: &str, route: &Route) -> Self {
        let arguments = Arguments {
            cluster_name: Some(cluster_name.into()),
            route: Some(route.clone()),
            ..Arguments::default()
        };
        Self::new("DeleteRoute", arguments, drop)
    }
}

impl Call<Vec<Route>> {
    pub fn list_routes(cluster_name: &str) -> Self {
        let arguments = Arguments {
            cluster_name: Some(cluster_name.into()),
            ..Arguments::default()
        };
        Self::new("ListRoutes", arguments, |outcome| {
            outcome.routes.unwrap_or_default()
        })
    }
}

impl Call<bool> {
    pub fn instance_exists(node: &impl Serialize) -> Self {
        Self::of_node("InstanceExists", node, yes)
    }

    pub fn instance_shutdown(node: &impl Serialize) -> Self {
        Self::of_node("InstanceShutdown", node, yes)
    }

    /// For clouds without `instancesV2`, as all methods by name or by provider ID.
    pub fn instance_exists_by_provider_id(id: &str) -> Self {
        Self::new("InstanceExistsByProviderID", Arguments::of_id(id), yes)
    }

    pub fn instance_shutdown_by_provider_id(id: &str) -> Self {
        Self::new("InstanceShutdownByProviderID", Arguments::of_id(id), yes)
    }
}

impl Call<Option<InstanceMetadata>> {
    /// `None` is Go's nil.
    pub fn instance_metadata(node: &impl Serialize) -> Self {
        Self::of_node("InstanceMetadata", node, |outcome| outcome.metadata)
    }
}

impl Call<Vec<NodeAddress>> {
    pub fn node_addresses(name: &str) -> Self {
        Self::new("NodeAddresses", Arguments::of_name(name), addresses)
    }

    pub fn node_addresses_by_provider_id(id: &str) -> Self {
        Self::new("NodeAddressesByProviderID", Arguments::of_id(id), addresses)
    }
}

impl Call<String> {
    pub fn get_load_balancer_name(cluster_name: &str, service: &(impl Serialize + ?Sized)) -> Self {
        let arguments = Arguments::of_service(cluster_name, service);
        Self::new("GetLoadBalancerName", arguments, text)
    }

    /// The ID without the prefix `NAME://`.
    pub fn instance_id(name: &str) -> Self {
        Self::new("InstanceID", Arguments::of_name(name), text)
    }

    pub fn instance_type(name: &str) -> Self {
        Self::new("InstanceType", Arguments::of_name(name), text)
    }

    pub fn instance_type_by_provider_id(id: &str) -> Self {
        Self::new("InstanceTypeByProviderID", Arguments::of_id(id), text)
    }
}

impl Call<Zone> {
    pub fn zone_by_provider_id(id: &str) -> Self {
        Self::new("GetZoneByProviderID", Arguments::of_id(id), zone)
    }

    pub fn zone_by_node_name(name: &str) -> Self {
        Self::new("GetZoneByNodeName", Arguments::of_name(name), zone)
    }
}

impl<T> Call<T> {
    /// The name of the method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    fn new(method: &'static str, arguments: Arguments, read: fn(Outcome) -> T) -> Self {
        Self {
            method,
            arguments: to_bytes(&arguments),
            nodes: Nodes::default(),
            read,
            result: PhantomData,
        }
    }

    fn of_node(method: &'static str, node: &impl Serialize, read: fn(Outcome) -> T) -> Self {
        Self::new(method, Arguments::default(), read).with_nodes(&Nodes::of(&[node]))
    }

    fn with_nodes(self, nodes: &Nodes) -> Self {
        Self {
            nodes: nodes.clone(),
            ..self
        }
    }
}

impl Arguments {
    fn of_service(cluster_name: &str, service: &(impl Serialize + ?Sized)) -> Self {
        Self {
            cluster_name: Some(cluster_name.into()),
            service: Some(Raw::of(service)),
            ..Self::default()
        }
    }

    fn of_name(name: &str) -> Self {
        Self {
            node_name: Some(name.into()),
            ..Self::default()
        }
    }

    fn of_id(id: &str) -> Self {
        Self {
            provider_id: Some(id.into()),
            ..Self::default()
        }
    }
}

fn yes(outcome: Outcome) -> bool {
    outcome.bool.unwrap_or_default()
}

fn text(outcome: Outcome) -> String {
    outcome.string.unwrap_or_default()
}

fn addresses(outcome: Outcome) -> Vec<NodeAddress> {
    outcome.addresses.unwrap_or_default()
}

fn zone(outcome: Outcome) -> Zone {
    outcome.zone.unwrap_or_default()
}
