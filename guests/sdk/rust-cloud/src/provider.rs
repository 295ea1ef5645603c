//! A provider: a plugin that is a cloud. [`Provider`] has a function for each method of the cloud;
//! [`export_provider!`](crate::export_provider) exports it.

use flyball_sdk::describe::{Description, describe};
use flyball_sdk::{Controller, Delta, Error, Host, Outcome, Raw, Request, RoutedKey};
use serde::de::DeserializeOwned;

use crate::call::LoadBalancer;
use crate::document::{self, to_bytes};
use crate::error::CloudError;
use crate::http::{HttpRequest, HttpResponse};
use crate::types::{Capabilities, InstanceMetadata, Route};

/// The name of the credential that holds the file of `--cloud-config`.
pub const CLOUD_CONFIG: &str = "cloud-config";

/// A cloud. A method that it does not support keeps its default, which is the error `NotImplemented`.
///
/// Values of this type are never made: no state of a provider outlives a call, except what it may lose at any time.
pub trait Provider {
    /// Returns the plugin's name and what it asks for: start with [`describe_provider`].
    fn describe() -> Description;

    /// Returns what the cloud supports.
    ///
    /// # Errors
    /// The cloud or its configuration can't be read now. The host asks again.
    fn capabilities(cloud: &Context) -> Result<Capabilities, CloudError>;

    /// Reconciles a key of the provider's own queue, if it watches something.
    ///
    /// # Errors
    /// Retried with backoff.
    fn reconcile(_: &Host, _: &Request) -> Result<Outcome, Error> {
        Ok(Outcome::Done)
    }

    /// Turns deltas into keys, for watches with the mapping `route`.
    ///
    /// # Errors
    /// Retried with backoff.
    fn route(_: &Host, _: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        Ok(Vec::new())
    }

    /// Answers a method that this SDK does not know, or all of them: the default calls the functions below.
    ///
    /// # Errors
    /// The cloud's.
    fn call(cloud: &Context, method: &str, call: &RawCall) -> Result<Vec<u8>, CloudError> {
        dispatch::<Self>(cloud, method, call)
    }

    /// Returns the status of a Service's load balancer, and whether it exists.
    ///
    /// # Errors
    /// The cloud's, as in all methods.
    fn get_load_balancer(_: &Context, _: &ServiceCall) -> Result<LoadBalancer, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Returns the name that the load balancer of a Service has or would have.
    ///
    /// # Errors
    /// The cloud's.
    fn get_load_balancer_name(_: &Context, _: &ServiceCall) -> Result<String, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Creates or updates the load balancer of a Service. Returns the value of its `status.loadBalancer`.
    ///
    /// # Errors
    /// The cloud's.
    fn ensure_load_balancer(_: &Context, _: &ServiceCall) -> Result<Option<Raw>, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Sets the nodes of an existing load balancer.
    ///
    /// # Errors
    /// The cloud's.
    fn update_load_balancer(_: &Context, _: &ServiceCall) -> Result<(), CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Deletes the load balancer of a Service, if there is one.
    ///
    /// # Errors
    /// The cloud's.
    fn ensure_load_balancer_deleted(_: &Context, _: &ServiceCall) -> Result<(), CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Whether the instance of a node exists.
    ///
    /// # Errors
    /// The cloud's. A controller that gets one does nothing.
    fn instance_exists(_: &Context, _: &Raw) -> Result<bool, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Whether the instance of a node is shut down.
    ///
    /// # Errors
    /// The cloud's.
    fn instance_shutdown(_: &Context, _: &Raw) -> Result<bool, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Returns what the cloud knows of a node's instance; none if the node is none of the cloud's.
    ///
    /// # Errors
    /// The cloud's.
    fn instance_metadata(_: &Context, _: &Raw) -> Result<Option<InstanceMetadata>, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// # Errors
    /// The cloud's.
    fn list_routes(_: &Context, _cluster_name: &str) -> Result<Vec<Route>, CloudError> {
        Err(CloudError::not_implemented())
    }

    /// Creates a route. The hint is the node's UID, for the route's name.
    ///
    /// # Errors
    /// The cloud's.
    fn create_route(
        _: &Context,
        _cluster_name: &str,
        _name_hint: &str,
        _: &Route,
    ) -> Result<(), CloudError> {
        Err(CloudError::not_implemented())
    }

    /// # Errors
    /// The cloud's.
    fn delete_route(_: &Context, _cluster_name: &str, _: &Route) -> Result<(), CloudError> {
        Err(CloudError::not_implemented())
    }
}

/// The host, for the call of a provider.
pub struct Context<'a> {
    host: Host<'a>,
    outside: &'a dyn Outside,
}

/// The imports that a provider has beside those of a controller.
#[doc(hidden)]
pub trait Outside {
    fn credential(&self, name: &str) -> Option<Vec<u8>>;
    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, CloudError>;
}

/// The arguments of a method about a load balancer.
#[derive(Clone, Debug)]
pub struct ServiceCall {
    /// The value of `--cluster-name`.
    pub cluster_name: String,
    /// The whole Service.
    pub service: Raw,
    /// The nodes that the load balancer has, for the methods that take some.
    pub nodes: Vec<Raw>,
}

/// Returns the description of a provider that watches nothing. A provider that reads Nodes or Services adds watches
/// without a mapping.
pub fn describe_provider(name: &str, version: &str) -> Description {
    describe(name, version).queue(name)
}

impl<'a> Context<'a> {
    #[doc(hidden)]
    pub fn new(host: Host<'a>, outside: &'a dyn Outside) -> Self {
        Self { host, outside }
    }

    /// The imports of a controller: cached reads of what the provider watches, the clock, the log, and so on.
    pub fn host(&self) -> &Host<'a> {
        &self.host
    }

    /// Returns the credential of this name as text; none if the operator gives none.
    ///
    /// # Errors
    /// It is not text.
    pub fn credential(&self, name: &str) -> Result<Option<String>, CloudError> {
        let bytes = self.outside.credential(name);
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| CloudError::other(format!("the credential `{name}` is not text in UTF-8")))
    }

    /// Parses the file of `--cloud-config`, which must be JSON.
    ///
    /// # Errors
    /// There is none, or it is not such a document.
    pub fn cloud_config<T: DeserializeOwned>(&self) -> Result<T, CloudError> {
        let text = self.credential(CLOUD_CONFIG)?.ok_or_else(|| {
            CloudError::other("the provider has no configuration: set --cloud-config, or `cloud.config-file` in its policy")
        })?;
        serde_json::from_str(&text).map_err(|error| {
            // The parser's message could quote a secret of the file.
            let (line, column) = (error.line(), error.column());
            CloudError::other(format!(
                "the provider's configuration is malformed at line {line} column {column}"
            ))
        })
    }

    /// Sends a request and returns the whole response, whatever its status.
    ///
    /// # Errors
    /// The policy does not allow the server, it can't be reached, or it does not respond in time.
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, CloudError> {
        self.outside.send(request)
    }
}

/// The arguments of a call, unparsed.
#[derive(Clone, Copy, Debug)]
pub struct RawCall<'a> {
    /// The document of the method's arguments.
    pub arguments: &'a [u8],
    /// The JSON array of the method's nodes; empty if it takes none.
    pub nodes: &'a [u8],
}

impl RawCall<'_> {
    /// The nodes, unparsed.
    ///
    /// # Errors
    /// They are not an array.
    pub fn nodes(&self) -> Result<Vec<Raw>, CloudError> {
        let nodes = if self.nodes.is_empty() {
            b"[]"
        } else {
            self.nodes
        };
        serde_json::from_slice(nodes).map_err(|error| malformed("nodes", &error))
    }
}

fn malformed(what: &str, error: &serde_json::Error) -> CloudError {
    CloudError::other(format!("the call's {what} are malformed: {error}"))
}

/// Calls the function of a method.
fn dispatch<P: Provider + ?Sized>(
    cloud: &Context,
    method: &str,
    call: &RawCall,
) -> Result<Vec<u8>, CloudError> {
    let arguments: document::Arguments =
        document::parse(call.arguments).map_err(|error| malformed("arguments", &error))?;
    let cluster_name = arguments.cluster_name.unwrap_or_default();
    let route = arguments.route.unwrap_or_default();
    let service = || {
        Ok(ServiceCall {
            cluster_name: cluster_name.clone(),
            service: arguments.service.clone().unwrap_or_default(),
            nodes: call.nodes()?,
        })
    };
    let node = || {
        let node = call.nodes()?.into_iter().next();
        node.ok_or_else(|| CloudError::other(format!("the call of {method} has no node")))
    };
    let mut outcome = document::Outcome::default();
    match method {
        "GetLoadBalancer" => {
            let found = P::get_load_balancer(cloud, &service()?)?;
            outcome.status = found.status;
            outcome.exists = Some(found.exists);
        }
        "GetLoadBalancerName" => {
            outcome.string = Some(P::get_load_balancer_name(cloud, &service()?)?);
        }
        "EnsureLoadBalancer" => outcome.status = P::ensure_load_balancer(cloud, &service()?)?,
        "UpdateLoadBalancer" => P::update_load_balancer(cloud, &service()?)?,
        "EnsureLoadBalancerDeleted" => P::ensure_load_balancer_deleted(cloud, &service()?)?,
        "InstanceExists" => outcome.bool = Some(P::instance_exists(cloud, &node()?)?),
        "InstanceShutdown" => outcome.bool = Some(P::instance_shutdown(cloud, &node()?)?),
        "InstanceMetadata" => outcome.metadata = P::instance_metadata(cloud, &node()?)?,
        "ListRoutes" => outcome.routes = Some(P::list_routes(cloud, &cluster_name)?),
        "CreateRoute" => {
            let hint = arguments.name_hint.unwrap_or_default();
            P::create_route(cloud, &cluster_name, &hint, &route)?;
        }
        "DeleteRoute" => P::delete_route(cloud, &cluster_name, &route)?,
        _ => return Err(CloudError::not_implemented()),
    }
    Ok(to_bytes(&outcome))
}

/// A provider as the controller that its component exports, too.
#[doc(hidden)]
pub struct AsController<P>(std::marker::PhantomData<P>);

impl<P: Provider> Controller for AsController<P> {
    fn describe() -> Description {
        P::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        P::reconcile(host, request)
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        P::route(host, deltas)
    }
}

/// Answers `provider.capabilities` and `provider.call` of the world.
#[doc(hidden)]
pub fn capabilities<P: Provider>(cloud: &Context) -> Result<Vec<u8>, CloudError> {
    P::capabilities(cloud).map(|capabilities| to_bytes(&capabilities))
}

/// Exports a [`Provider`] from the component: `export_provider!(MyCloud);`.
#[macro_export]
macro_rules! export_provider {
    ($provider:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type ExportedProvider = $crate::wasm::Exported<$provider>;
            $crate::sdk::export!($crate::provider::AsController<$provider>);
            $crate::wasm::bindings::export_cloud!(ExportedProvider with_types_in $crate::wasm::bindings);
        };
    };
}
