//! What the cloud knows of nodes. A cloud has `instancesV2`, which answers all at once, or the older interfaces, which
//! answer one question each, by the provider ID or else by the name of a node.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: getInstanceMetadata,
//! getInstanceNodeAddresses, getNodeAddressesByProviderIDOrName, getInstanceTypeByProviderIDOrName,
//! getZoneByProviderIDOrName.

use flyball_cloud::{
    Call, Capabilities, Cloud, CloudError, ErrorKind, InstanceMetadata, NodeAddress,
};
use flyball_cloud_nodes::provider_id;
use flyball_sdk::Host;

use crate::views::Node;

/// Reads what initialises a node; `None` if the cloud leaves the node alone.
///
/// # Errors
/// The cloud fails, or it knows no provider ID of the node, although it has provider IDs.
pub(crate) fn of(
    host: &Host,
    capabilities: &Capabilities,
    node: &Node,
) -> Result<Option<InstanceMetadata>, CloudError> {
    let cloud = Cloud::of(host);
    if !capabilities.instances_v2 {
        return of_older(&cloud, capabilities, node).map(Some);
    }
    let Some(mut metadata) = cloud.run(Call::instance_metadata(&node.document()))? else {
        return Ok(None);
    };
    if metadata.provider_id.is_empty() {
        if node.provider_id.is_empty() {
            // A node without the taint never gets an ID: https://issues.k8s.io/123024.
            return Err(CloudError::other(
                "cloud provider does not set node provider ID",
            ));
        }
        metadata.provider_id.clone_from(&node.provider_id);
    }
    Ok(Some(metadata))
}

fn of_older(
    cloud: &Cloud,
    capabilities: &Capabilities,
    node: &Node,
) -> Result<InstanceMetadata, CloudError> {
    let name = &node.meta.name;
    let id = match node.provider_id.as_str() {
        "" => match provider_id(cloud, capabilities, name) {
            // The cloud has no provider IDs: it finds the node by its name.
            Err(error) if error.has(&ErrorKind::NotImplemented) => String::new(),
            result => result?,
        },
        id => id.to_owned(),
    };
    let mut metadata = InstanceMetadata {
        node_addresses: by_id_or_name(
            cloud,
            Call::node_addresses_by_provider_id(&id),
            Call::node_addresses(name),
        )?,
        instance_type: by_id_or_name(
            cloud,
            Call::instance_type_by_provider_id(&id),
            Call::instance_type(name),
        )?,
        ..InstanceMetadata::default()
    };
    if capabilities.zones {
        let by_id = Call::zone_by_provider_id(&id);
        let zone = by_id_or_name(cloud, by_id, Call::zone_by_node_name(name))
            .map_err(|error| error.wrap("failed to get zone from cloud provider"))?;
        (metadata.zone, metadata.region) = (zone.failure_domain, zone.region);
    }
    metadata.provider_id = id;
    Ok(metadata)
}

/// Reads the addresses of nodes, of all of them at once; `None` if the cloud leaves a node alone.
pub(crate) fn addresses(
    host: &Host,
    capabilities: &Capabilities,
    nodes: &[Node],
) -> Vec<Result<Option<Vec<NodeAddress>>, CloudError>> {
    let cloud = Cloud::of(host);
    if capabilities.instances_v2 {
        let call = |node: &Node| Call::instance_metadata(&node.document());
        let answers = cloud.run_all(nodes.iter().map(call).collect(), 0);
        let addresses = |metadata: Option<InstanceMetadata>| Some(metadata?.node_addresses);
        return answers
            .into_iter()
            .map(|answer| answer.outcome.map(addresses))
            .collect();
    }
    let by_id = |node: &Node| Call::node_addresses_by_provider_id(&node.provider_id);
    let answers = cloud.run_all(nodes.iter().map(by_id).collect(), 0);
    let mut found: Vec<_> = answers.into_iter().map(|answer| answer.outcome).collect();
    let failed: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_err()).collect();
    let by_name = |at: &usize| Call::node_addresses(&nodes[*at].meta.name);
    let again = cloud.run_all(failed.iter().map(by_name).collect(), 0);
    for (at, answer) in failed.into_iter().zip(again) {
        if let Err(by_id) = &found[at] {
            found[at] = answer.outcome.map_err(|by_name| both(by_id, &by_name));
        }
    }
    found.into_iter().map(|result| result.map(Some)).collect()
}

/// Makes the first call and, whatever its error is, the second one.
fn by_id_or_name<T>(cloud: &Cloud, by_id: Call<T>, by_name: Call<T>) -> Result<T, CloudError> {
    cloud.run(by_id).or_else(|first| {
        let by_name = cloud.run(by_name);
        by_name.map_err(|second| both(&first, &second))
    })
}

fn both(by_id: &CloudError, by_name: &CloudError) -> CloudError {
    CloudError::other(format!(
        "error fetching node by provider ID: {by_id}, and error by node name: {by_name}"
    ))
}
