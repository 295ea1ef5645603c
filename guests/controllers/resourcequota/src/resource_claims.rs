//! The usage of a quota by a ResourceClaim (KEP-4381, and KEP-5004 for extended resources).
//!
//! Devices are counted by their DeviceClass. A pod may also request devices as an extended resource; its ResourceClaim
//! is then created for it. Such devices are counted once: the amount that the pod's requests already count is
//! subtracted from the claim's amount.
//!
//! Upstream: pkg/quota/v1/evaluator/core/resource_claims.go: V1ResourceByDeviceClass, MatchingResources, Usage,
//! addExtendedResourceQuota, getVerifiedPodUsage, makeResourceClaimPodOwnerGetter.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::amounts::{ResourceList, add_one, one};
use crate::pods::DEVICE_CLASS;
use crate::views::{DeviceClass, DeviceRequest, Devices, Pod, ResourceClaim};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// Follows the name of a DeviceClass in the name of a limit.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const REQUESTS: &str = "requests.";
/// The annotation of claims that were created for a pod's extended resources.
const FOR_EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
/// The greatest number of devices that a claim can have: the worst case of a request for all.
const MAX_DEVICES: i64 = 32;

/// The extended resources that stand for devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceClasses(Vec<DeviceClass>);

impl DeviceClasses {
    /// Reads the classes.
    ///
    /// # Errors
    /// They can't be read.
    pub fn read(host: &Host) -> Result<Self, Error> {
        Ok(Self(host.list().all()?))
    }

    /// The extended resource of a class.
    fn resource_of(&self, class: &str) -> Option<&str> {
        let own = self.0.iter().find(|own| own.meta.name == class)?;
        Some(own.extended_resource.as_str()).filter(|resource| !resource.is_empty())
    }

    /// Whether an extended resource stands for the devices of a class. Each class has one that is
    /// named after it.
    fn have(&self, resource: &str) -> bool {
        let named = resource.strip_prefix(DEVICE_CLASS);
        self.0.iter().any(|class| {
            class.extended_resource == resource || named == Some(class.meta.name.as_str())
        })
    }
}

/// Whether a limit of this name counts something of claims.
pub fn tracks(name: &str, classes: &DeviceClasses) -> bool {
    name == COUNT
        || name.ends_with(OF_CLASS)
        || name
            .strip_prefix(REQUESTS)
            .is_some_and(|resource| !resource.is_empty() && classes.have(resource))
}

/// Returns the usage by a claim itself.
pub fn usage(claim: &ResourceClaim) -> ResourceList {
    let mut used = ResourceList::from([(COUNT.into(), one())]);
    for request in &claim.requests {
        for (class, devices) in worst_case(request) {
            add_one(
                &mut used,
                &format!("{class}{OF_CLASS}"),
                Quantity::of_units(devices),
            );
        }
    }
    used
}

/// Returns the greatest number of devices of each class that a request may get.
fn worst_case(request: &DeviceRequest) -> BTreeMap<&str, i64> {
    let mut greatest = BTreeMap::new();
    let alternatives = match request.first_available.as_slice() {
        [] => request.exactly.as_slice(),
        alternatives => alternatives,
    };
    for devices in alternatives {
        let known = greatest
            .entry(devices.device_class_name.as_str())
            .or_default();
        *known = count(devices).max(*known);
    }
    greatest
}

/// The number of devices. An unknown allocation mode counts nothing.
fn count(devices: &Devices) -> i64 {
    match devices.allocation_mode.as_str() {
        "ExactCount" => devices.count,
        "All" => MAX_DEVICES,
        _ => 0,
    }
}

/// Adds the extended resources that the claim's devices stand for, minus the amount that the claim's pod already
/// counts.
pub fn add_extended(used: &mut ResourceList, classes: &DeviceClasses, of_pod: &ResourceList) {
    let mut extended = ResourceList::new();
    for (name, devices) in &*used {
        let Some(class) = name
            .strip_suffix(OF_CLASS)
            .filter(|class| !class.is_empty())
        else {
            continue;
        };
        extended.insert(format!("{REQUESTS}{DEVICE_CLASS}{class}"), *devices);
        if let Some(resource) = classes.resource_of(class) {
            extended.insert(format!("{REQUESTS}{resource}"), *devices);
        }
    }
    for (name, devices) in extended {
        let counted = of_pod.get(&name).copied().unwrap_or_default();
        let rest = devices - counted;
        if rest.nanos() > 0 {
            used.insert(name, rest);
        }
    }
}

/// Returns the name and UID of the pod that a claim was created for.
pub fn pod_of(claim: &ResourceClaim) -> Option<&OwnerReference> {
    claim
        .meta
        .controller()
        .filter(|owner| owner.kind == "Pod" && owner.api_version == "v1")
        .filter(|_| claim.meta.annotation(FOR_EXTENDED) == Some("true"))
}

/// Whether the pod confirms that the claim was created for it. A pod that names no claim confirms the oldest of the
/// claims that name the pod. Among equally old ones, it confirms the first by name.
pub fn confirms(pod: &Pod, claim: &ResourceClaim, all: &[ResourceClaim]) -> bool {
    let names_it = pod_of(claim).is_some_and(|owner| owner.uid == pod.meta.uid);
    let age = |claim: &ResourceClaim| (claim.meta.creation_timestamp, claim.meta.name.clone());
    let is_first = || {
        all.iter()
            .filter(|other| pod_of(other).is_some_and(|owner| owner.uid == pod.meta.uid))
            .all(|other| age(claim) <= age(other))
    };
    names_it
        && match &pod.extended_resource_claim {
            Some(name) => *name == claim.meta.name,
            None => is_first(),
        }
}
