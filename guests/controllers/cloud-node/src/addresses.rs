//! The addresses of a node: pure functions from what the cloud knows to what the status should have.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: updateNodeAddress,
//! nodeAddressesChangeDetected, updateNodeAddressesFromNodeIP.
//! Upstream: staging/src/k8s.io/cloud-provider/node/helpers/address.go: GetNodeAddressesFromNodeIP.
//! Upstream: staging/src/k8s.io/component-helpers/node/util/ips.go: ParseNodeIPAnnotation.
//! Upstream: staging/src/k8s.io/component-helpers/node/util/status.go: PatchNodeStatus.

use std::net::IpAddr;

use flyball_cloud::NodeAddress;
use flyball_sdk::ipv4;
use flyball_sdk::prelude::*;

use crate::views::Node;

const HOSTNAME: &str = "Hostname";

/// Returns the patch of a node's status for these addresses of the cloud; `None` if nothing changes.
///
/// # Errors
/// The cloud lacks an address that the kubelet was started with, or the annotation with it is malformed.
pub(crate) fn patch(node: &Node, of_cloud: &[NodeAddress]) -> Result<Option<Value>, String> {
    if of_cloud.is_empty() {
        return Ok(None);
    }
    let wanted = provided_first(node.provided_ip(), &with_hostname(node, of_cloud))?;
    if !differ(&node.addresses, &wanted) {
        return Ok(None);
    }
    let mut list: Vec<Value> = wanted.iter().map(|address| json!(address)).collect();
    if !node.addresses.is_empty() {
        // A list without this would be merged by the type, so that a second address of a type would be lost.
        list.push(json!({"$patch": "replace"}));
    }
    Ok(Some(json!({"status": {"addresses": list}})))
}

/// Adds the node's own hostname, which its kubelet has reported, if the cloud has none.
fn with_hostname(node: &Node, of_cloud: &[NodeAddress]) -> Vec<NodeAddress> {
    let is_hostname = |address: &&NodeAddress| address.kind == HOSTNAME;
    let mut all = of_cloud.to_vec();
    if !all.iter().any(|address| is_hostname(&address)) {
        all.extend(node.addresses.iter().filter(is_hostname).cloned());
    }
    all
}

/// Puts the addresses that the kubelet was started with first, in their order, and drops the others of the same types.
///
/// # Errors
/// The cloud lacks one of them, or the annotation is malformed.
pub(crate) fn provided_first(
    annotation: Option<&str>,
    of_cloud: &[NodeAddress],
) -> Result<Vec<NodeAddress>, String> {
    let Some(text) = annotation else {
        return Ok(of_cloud.to_vec());
    };
    let mut first: Vec<NodeAddress> = Vec::new();
    for provided in provided(text)? {
        let matching = |address: &&NodeAddress| ip(&address.address) == Some(provided);
        let before = first.len();
        first.extend(of_cloud.iter().filter(matching).cloned());
        if first.len() == before {
            return Err(format!(
                "the cloud has no address {provided}, which the annotation provided-node-ip names"
            ));
        }
    }
    let is_other = |address: &&NodeAddress| !first.iter().any(|own| own.kind == address.kind);
    let others: Vec<NodeAddress> = of_cloud.iter().filter(is_other).cloned().collect();
    first.extend(others);
    Ok(first)
}

/// Parses the annotation: an address, or two of different families.
fn provided(text: &str) -> Result<Vec<IpAddr>, String> {
    let malformed =
        |why: &str| format!("the annotation provided-node-ip is malformed: {why}: {text:?}");
    let all: Option<Vec<IpAddr>> = text.split(',').map(ip).collect();
    let all = all.ok_or_else(|| malformed("not an IP address"))?;
    match all[..] {
        [_] => Ok(all),
        [a, b] if a.is_ipv4() == b.is_ipv4() => Err(malformed("two addresses of one family")),
        [a, b] if a.is_unspecified() || b.is_unspecified() => {
            Err(malformed("one of two addresses is unspecified"))
        }
        [_, _] => Ok(all),
        _ => Err(malformed("more than two addresses")),
    }
}

/// Parses an IP address as Kubernetes does: an IPv4 address in the notation of IPv6 is an IPv4 address.
fn ip(text: &str) -> Option<IpAddr> {
    match text.contains(':') {
        true => Some(text.parse::<IpAddr>().ok()?.to_canonical()),
        false => ipv4(text).map(IpAddr::V4),
    }
}

/// Whether the new addresses differ from the old ones. Of several old addresses of one type, only the last counts. So
/// several of one type always differ.
fn differ(old: &[NodeAddress], new: &[NodeAddress]) -> bool {
    let last = |kind: &str| {
        let found = old.iter().rfind(|address| address.kind == kind);
        found.map_or("", |address| address.address.as_str())
    };
    old.len() != new.len()
        || new
            .iter()
            .any(|address| last(&address.kind) != address.address)
}
