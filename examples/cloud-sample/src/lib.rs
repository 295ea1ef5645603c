//! A provider for the sample cloud, whose API `README.md` documents.
//!
//! [`api`] sends the requests and turns refusals into errors. The methods of the provider are in a module for each part of
//! the cloud: [`instances`], [`load_balancers`] and [`routes`].

use flyball_cloud::provider::{Context, ServiceCall, describe_provider};
use flyball_cloud::{
    Capabilities, CloudError, InstanceMetadata, LoadBalancer, Provider, Route, export_provider,
};
use flyball_sdk::Raw;
use flyball_sdk::prelude::*;

mod api;
mod instances;
mod load_balancers;
mod routes;
#[cfg(test)]
mod tests;

/// The scheme of provider IDs.
const NAME: &str = "sample";

/// The provider.
pub struct SampleCloud;

export_provider!(SampleCloud);

impl Provider for SampleCloud {
    fn describe() -> Description {
        describe_provider("cloud-sample", env!("CARGO_PKG_VERSION"))
    }

    fn capabilities(_: &Context) -> Result<Capabilities, CloudError> {
        Ok(Capabilities {
            provider_name: NAME.into(),
            has_cluster_id: true,
            load_balancer: true,
            instances_v2: true,
            routes: true,
            ..Capabilities::default()
        })
    }

    fn get_load_balancer(cloud: &Context, call: &ServiceCall) -> Result<LoadBalancer, CloudError> {
        load_balancers::get(cloud, call)
    }

    fn get_load_balancer_name(_: &Context, call: &ServiceCall) -> Result<String, CloudError> {
        load_balancers::name(call)
    }

    fn ensure_load_balancer(
        cloud: &Context,
        call: &ServiceCall,
    ) -> Result<Option<Raw>, CloudError> {
        load_balancers::ensure(cloud, call).map(Some)
    }

    fn update_load_balancer(cloud: &Context, call: &ServiceCall) -> Result<(), CloudError> {
        load_balancers::update(cloud, call)
    }

    fn ensure_load_balancer_deleted(cloud: &Context, call: &ServiceCall) -> Result<(), CloudError> {
        load_balancers::delete(cloud, call)
    }

    fn instance_exists(cloud: &Context, node: &Raw) -> Result<bool, CloudError> {
        Ok(instances::of_node(cloud, node)?.is_some())
    }

    fn instance_shutdown(cloud: &Context, node: &Raw) -> Result<bool, CloudError> {
        instances::is_stopped(cloud, node)
    }

    fn instance_metadata(
        cloud: &Context,
        node: &Raw,
    ) -> Result<Option<InstanceMetadata>, CloudError> {
        instances::metadata(cloud, node).map(Some)
    }

    fn list_routes(cloud: &Context, cluster_name: &str) -> Result<Vec<Route>, CloudError> {
        routes::list(cloud, cluster_name)
    }

    fn create_route(
        cloud: &Context,
        cluster_name: &str,
        name_hint: &str,
        route: &Route,
    ) -> Result<(), CloudError> {
        routes::create(cloud, cluster_name, name_hint, route)
    }

    fn delete_route(cloud: &Context, cluster_name: &str, route: &Route) -> Result<(), CloudError> {
        routes::delete(cloud, cluster_name, route)
    }
}
