//! A cloud in memory, for native tests of controllers and of providers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

use flyball_sdk::Host;
use flyball_sdk::testing::Cluster;
use serde_json::{Value, json};

use crate::call::{Call, Cloud};
use crate::document::{parse, to_bytes};
use crate::error::{CloudError, ErrorKind};
use crate::http::{HttpRequest, HttpResponse};
use crate::provider::{Context, Outside, Provider, RawCall};
use crate::types::{Capabilities, Route};

/// Answers the calls of a cluster's controllers: a [`FakeCloud`], or a provider.
pub trait Backend {
    /// Returns a document of [`Capabilities`].
    ///
    /// # Errors
    /// The provider's.
    fn capabilities(&self) -> Result<Vec<u8>, CloudError>;

    /// Returns the document with the method's result.
    ///
    /// # Errors
    /// The provider's.
    fn call(&self, method: &str, arguments: &[u8], nodes: &[u8]) -> Result<Vec<u8>, CloudError>;
}

/// Makes the controllers of a cluster call this cloud.
pub fn install(cluster: &Cluster, backend: Rc<dyn Backend>) {
    cluster.extend(Rc::new(Installed(backend)));
}

/// The cloud of a cluster.
struct Installed(Rc<dyn Backend>);

pub(crate) fn of_host(host: &Host) -> Result<Rc<dyn Backend>, CloudError> {
    let installed = host
        .imports()
        .extension(std::any::TypeId::of::<Installed>())
        .and_then(|extension| extension.downcast::<Installed>().ok());
    let unavailable = || CloudError {
        kind: ErrorKind::Host("Unavailable".into()),
        ..CloudError::other("no provider runs: the test has installed none")
    };
    installed
        .map(|installed| installed.0.clone())
        .ok_or_else(unavailable)
}

/// A cloud with load balancers and routes that it remembers, and instances that all exist and run. Handles share the
/// cloud.
///
/// - `EnsureLoadBalancer` returns one ingress with the IP `192.0.2.1`; load balancers are known by the UID of their
///   Service.
/// - `InstanceMetadata` returns the node's `spec.providerID`, else `fake://NAME`, and nothing else.
/// - `InstanceID` returns the node's name. Other methods of older providers return empty results, or that the instance
///   exists.
///
/// [`on`](Self::on) replaces the answer of a method, and [`fail`](Self::fail) fails its next call.
#[derive(Clone)]
pub struct FakeCloud(Rc<RefCell<State>>);

struct State {
    capabilities: Capabilities,
    /// By the UIDs of their Services.
    load_balancers: BTreeMap<String, Value>,
    routes: Vec<Route>,
    handlers: BTreeMap<String, Rc<Handler>>,
    faults: Vec<(String, CloudError)>,
    calls: Vec<Called>,
}

type Handler = dyn Fn(&Called) -> Result<Value, CloudError>;

/// A call that the cloud has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    pub method: String,
    /// The arguments' document.
    pub arguments: Value,
    pub nodes: Vec<Value>,
}

impl FakeCloud {
    /// Creates a cloud with instances (V2), load balancers and routes, and installs it.
    pub fn of(cluster: &Cluster) -> Self {
        let capabilities = Capabilities {
            provider_name: "fake".into(),
            has_cluster_id: true,
            load_balancer: true,
            instances_v2: true,
            routes: true,
            ..Capabilities::default()
        };
        let state = State {
            capabilities,
            load_balancers: BTreeMap::new(),
            routes: Vec::new(),
            handlers: BTreeMap::new(),
            faults: Vec::new(),
            calls: Vec::new(),
        };
        let cloud = Self(Rc::new(RefCell::new(state)));
        install(cluster, Rc::new(cloud.clone()));
        cloud
    }

    /// Changes what the cloud supports.
    pub fn set_capabilities(&self, change: impl FnOnce(&mut Capabilities)) {
        change(&mut self.0.borrow_mut().capabilities);
    }

    /// Answers all further calls of a method by this function. It returns the document of the result, such as
    /// `{"bool": false}`.
    pub fn on(
        &self,
        method: &str,
        handler: impl Fn(&Called) -> Result<Value, CloudError> + 'static,
    ) {
        let handlers = &mut self.0.borrow_mut().handlers;
        handlers.insert(method.into(), Rc::new(handler));
    }

    /// Fails the next call of a method. Several errors are returned in order.
    pub fn fail(&self, method: &str, error: CloudError) {
        self.0.borrow_mut().faults.push((method.into(), error));
    }

    /// Adds a route that the cloud has.
    pub fn put_route(&self, route: Route) {
        self.0.borrow_mut().routes.push(route);
    }

    pub fn routes(&self) -> Vec<Route> {
        self.0.borrow().routes.clone()
    }

    /// Returns the UIDs of the Services that have a load balancer.
    pub fn load_balancers(&self) -> Vec<String> {
        self.0.borrow().load_balancers.keys().cloned().collect()
    }

    /// Returns all calls since the last call of `calls` or `called`, including failed ones.
    pub fn calls(&self) -> Vec<Called> {
        std::mem::take(&mut self.0.borrow_mut().calls)
    }

    /// Returns the same as [`calls`](Self::calls) as lines: the method, what it is about, and the names of the nodes, as
    /// in `UpdateLoadBalancer default/web a,b`.
    pub fn called(&self) -> Vec<String> {
        self.calls().iter().map(Called::to_string).collect()
    }
}

impl Backend for FakeCloud {
    fn capabilities(&self) -> Result<Vec<u8>, CloudError> {
        Ok(to_bytes(&self.0.borrow().capabilities))
    }

    fn call(&self, method: &str, arguments: &[u8], nodes: &[u8]) -> Result<Vec<u8>, CloudError> {
        let nodes = if nodes.is_empty() { b"[]" } else { nodes };
        let call = Called {
            method: method.into(),
            arguments: parse(arguments).expect("a controller's arguments are JSON"),
            nodes: serde_json::from_slice(nodes).expect("a controller's nodes are a JSON array"),
        };
        let handler = {
            let state = &mut *self.0.borrow_mut();
            state.calls.push(call.clone());
            if let Some(at) = state.faults.iter().position(|(of, _)| of == method) {
                return Err(state.faults.remove(at).1);
            }
            state.handlers.get(method).cloned()
        };
        let outcome = match handler {
            Some(handler) => handler(&call)?,
            None => self.0.borrow_mut().answer(&call)?,
        };
        Ok(to_bytes(&outcome))
    }
}

impl State {
    fn answer(&mut self, call: &Called) -> Result<Value, CloudError> {
        let uid = || {
            call.arguments["service"]["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
        };
        Ok(match call.method.as_str() {
            "GetLoadBalancer" => {
                let status = self.load_balancers.get(uid());
                json!({"status": status, "exists": status.is_some()})
            }
            "GetLoadBalancerName" => json!({"string": name_of(uid())}),
            "EnsureLoadBalancer" => {
                let status = json!({"ingress": [{"ip": "192.0.2.1"}]});
                self.load_balancers.insert(uid().into(), status.clone());
                json!({"status": status})
            }
            "UpdateLoadBalancer" if self.load_balancers.contains_key(uid()) => json!({}),
            "UpdateLoadBalancer" => return Err(CloudError::other("load balancer not found")),
            "EnsureLoadBalancerDeleted" => {
                self.load_balancers.remove(uid());
                json!({})
            }
            "InstanceExists" | "InstanceExistsByProviderID" => json!({"bool": true}),
            "InstanceShutdown" | "InstanceShutdownByProviderID" => json!({"bool": false}),
            "InstanceMetadata" => json!({"metadata": {"providerID": provider_id(&call.nodes)}}),
            "InstanceID" => json!({"string": call.arguments["nodeName"]}),
            "NodeAddresses" | "NodeAddressesByProviderID" => json!({"addresses": []}),
            "InstanceType" | "InstanceTypeByProviderID" => json!({"string": ""}),
            "GetZoneByProviderID" | "GetZoneByNodeName" => json!({"zone": {}}),
            "ListRoutes" => json!({"routes": self.routes}),
            "CreateRoute" => {
                let mut route = call.route();
                if route.name.is_empty() {
                    let hint = call.arguments["nameHint"].as_str().unwrap_or_default();
                    route.name = format!("{hint}-{}", route.destination_cidr);
                }
                self.routes.push(route);
                json!({})
            }
            "DeleteRoute" => {
                let name = call.route().name;
                self.routes.retain(|route| route.name != name);
                json!({})
            }
            _ => return Err(CloudError::not_implemented()),
        })
    }
}

impl Called {
    fn route(&self) -> Route {
        serde_json::from_value(self.arguments["route"].clone())
            .expect("a controller's route is one")
    }

    /// The Service, node name, provider ID or route of the arguments.
    fn about(&self) -> Option<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let arguments = &self.arguments;
        let service = &arguments["service"]["metadata"];
        let service = text(&service["name"]).map(|name| {
            format!(
                "{}/{name}",
                service["namespace"].as_str().unwrap_or_default()
            )
        });
        let route = arguments.get("route").map(|_| {
            let route = self.route();
            format!("{} {}", route.target_node, route.destination_cidr)
        });
        service
            .or(route)
            .or_else(|| text(&arguments["nodeName"]))
            .or_else(|| text(&arguments["providerID"]))
    }
}

impl std::fmt::Display for Called {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.method)?;
        if let Some(about) = self.about() {
            write!(f, " {about}")?;
        }
        let name = |node: &Value| {
            node["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let names: Vec<_> = self.nodes.iter().map(name).collect();
        if !names.is_empty() {
            write!(f, " {}", names.join(","))?;
        }
        Ok(())
    }
}

/// A provider with a cluster in memory and a function as its cloud's servers.
///
/// [`run`](Self::run) makes single calls. [`install`](Self::install) lets the controllers of another cluster call the
/// provider.
pub struct ProviderTest<P>(Rc<ProviderState<P>>);

struct ProviderState<P> {
    cluster: Cluster,
    outside: FakeOutside,
    provider: PhantomData<P>,
}

struct FakeOutside {
    credentials: RefCell<BTreeMap<String, Vec<u8>>>,
    server: Box<Server>,
}

type Server = dyn Fn(&HttpRequest) -> Result<HttpResponse, CloudError>;

impl<P: Provider + 'static> ProviderTest<P> {
    /// A provider without credentials. `server` responds to its requests.
    pub fn new(
        server: impl Fn(&HttpRequest) -> Result<HttpResponse, CloudError> + 'static,
    ) -> Self {
        let outside = FakeOutside {
            credentials: RefCell::default(),
            server: Box::new(server),
        };
        Self(Rc::new(ProviderState {
            cluster: Cluster::new(),
            outside,
            provider: PhantomData,
        }))
    }

    /// Sets a credential: [`CLOUD_CONFIG`](crate::provider::CLOUD_CONFIG), or a key of the Secret.
    pub fn set_credential(&self, name: &str, value: &str) {
        let credentials = &mut self.0.outside.credentials.borrow_mut();
        credentials.insert(name.into(), value.into());
    }

    /// The cluster of the provider's own host: what it watches, and its log.
    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    /// Makes the controllers of a cluster call this provider.
    pub fn install(&self, cluster: &Cluster) {
        install(cluster, self.0.clone());
    }

    /// Returns what the provider supports.
    ///
    /// # Errors
    /// The provider's.
    pub fn capabilities(&self) -> Result<Capabilities, CloudError> {
        let bytes = self.0.capabilities()?;
        Ok(parse(&bytes).expect("a provider's capabilities are a document"))
    }

    /// Calls the provider, as a controller does.
    ///
    /// # Errors
    /// The provider's.
    pub fn run<T>(&self, call: Call<T>) -> Result<T, CloudError> {
        let caller = Cluster::new();
        self.install(&caller);
        Cloud::of(&caller.host()).run(call)
    }
}

impl<P: Provider> Backend for ProviderState<P> {
    fn capabilities(&self) -> Result<Vec<u8>, CloudError> {
        self.cluster.restrict(P::describe());
        let host = Host::new(&self.cluster);
        crate::provider::capabilities::<P>(&Context::new(host, &self.outside))
    }

    fn call(&self, method: &str, arguments: &[u8], nodes: &[u8]) -> Result<Vec<u8>, CloudError> {
        self.cluster.restrict(P::describe());
        let host = Host::new(&self.cluster);
        let call = RawCall { arguments, nodes };
        P::call(&Context::new(host, &self.outside), method, &call)
    }
}

impl Outside for FakeOutside {
    fn credential(&self, name: &str) -> Option<Vec<u8>> {
        self.credentials.borrow().get(name).cloned()
    }

    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, CloudError> {
        request.parts()?;
        (self.server)(request)
    }
}

/// The default name of a load balancer.
///
/// Upstream: k8s.io/cloud-provider/cloud.go: DefaultLoadBalancerName.
fn name_of(uid: &str) -> String {
    let name = format!("a{}", uid.replace('-', ""));
    name.chars().take(32).collect()
}

fn provider_id(nodes: &[Value]) -> String {
    let Some(node) = nodes.first() else {
        return String::new();
    };
    match node["spec"]["providerID"].as_str() {
        Some(id) if !id.is_empty() => id.into(),
        _ => format!(
            "fake://{}",
            node["metadata"]["name"].as_str().unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nodes;

    fn service(uid: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": "web", "uid": uid}})
    }

    #[test]
    fn a_load_balancer_is_remembered_until_it_is_deleted() {
        let cluster = Cluster::new();
        let fake = FakeCloud::of(&cluster);
        let host = cluster.host();
        let cloud = Cloud::of(&host);
        let nodes = Nodes::of(&[
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "b"}}),
        ]);
        let status = cloud
            .run(Call::ensure_load_balancer("c", &service("u"), &nodes))
            .unwrap();
        assert_eq!(
            status.unwrap().value(),
            json!({"ingress": [{"ip": "192.0.2.1"}]})
        );
        assert!(
            cloud
                .run(Call::get_load_balancer("c", &service("u")))
                .unwrap()
                .exists
        );
        assert!(
            !cloud
                .run(Call::get_load_balancer("c", &service("v")))
                .unwrap()
                .exists
        );
        cloud
            .run(Call::ensure_load_balancer_deleted("c", &service("u")))
            .unwrap();
        assert!(fake.load_balancers().is_empty());
        let expected = [
            "EnsureLoadBalancer default/web a,b",
            "GetLoadBalancer default/web",
            "GetLoadBalancer default/web",
            "EnsureLoadBalancerDeleted default/web",
        ];
        assert_eq!(fake.called(), expected);
    }

    #[test]
    fn a_missing_status_and_an_empty_one_are_distinct() {
        let cluster = Cluster::new();
        let fake = FakeCloud::of(&cluster);
        let host = cluster.host();
        let ensure = || {
            let call = Call::ensure_load_balancer("c", &service("u"), &Nodes::default());
            Cloud::of(&host).run(call).unwrap()
        };
        fake.on("EnsureLoadBalancer", |_| Ok(json!({"status": null})));
        assert_eq!(ensure(), None);
        fake.on("EnsureLoadBalancer", |_| Ok(json!({"status": {}})));
        assert_eq!(ensure().unwrap().value(), json!({}));
        fake.on("InstanceMetadata", |_| Ok(json!({"metadata": null})));
        let node = json!({"metadata": {"name": "a"}});
        assert_eq!(
            Cloud::of(&host)
                .run(Call::instance_metadata(&node))
                .unwrap(),
            None
        );
    }

    #[test]
    fn an_injected_error_fails_one_call_of_a_batch() {
        let cluster = Cluster::new();
        let fake = FakeCloud::of(&cluster);
        fake.fail("InstanceExists", CloudError::instance_not_found());
        let host = cluster.host();
        let call = || Call::instance_exists(&json!({"metadata": {"name": "a"}}));
        let answers = Cloud::of(&host).run_all(vec![call(), call()], 0);
        let outcomes: Vec<_> = answers.into_iter().map(|answer| answer.outcome).collect();
        assert_eq!(outcomes, [Err(CloudError::instance_not_found()), Ok(true)]);
    }

    #[test]
    fn routes_are_created_listed_and_deleted() {
        let cluster = Cluster::new();
        let fake = FakeCloud::of(&cluster);
        let host = cluster.host();
        let cloud = Cloud::of(&host);
        let route = Route {
            target_node: "a".into(),
            destination_cidr: "10.0.0.0/24".into(),
            ..Route::default()
        };
        cloud.run(Call::create_route("c", "uid", &route)).unwrap();
        let routes = cloud.run(Call::list_routes("c")).unwrap();
        assert_eq!(routes[0].name, "uid-10.0.0.0/24");
        cloud.run(Call::delete_route("c", &routes[0])).unwrap();
        assert!(fake.routes().is_empty());
        assert_eq!(
            fake.called(),
            [
                "CreateRoute a 10.0.0.0/24",
                "ListRoutes",
                "DeleteRoute a 10.0.0.0/24"
            ]
        );
    }

    #[test]
    fn without_a_cloud_calls_are_unavailable() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let error = Cloud::of(&host).capabilities().unwrap_err();
        assert!(error.is_unavailable());
        let error = Cloud::of(&host).run(Call::list_routes("c")).unwrap_err();
        assert!(error.is_unavailable());
    }
}
