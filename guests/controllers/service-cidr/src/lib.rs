//! service-cidr-controller: keeps ServiceCIDRs while IP addresses of Services need them (KEP-1880).
//!
//! Each ServiceCIDR gets a finalizer and the condition `Ready`. A ServiceCIDR that is being deleted keeps the finalizer
//! as long as it contains an IPAddress that no other ServiceCIDR contains: see [`deletion`].
//!
//! Upstream: pkg/controller/servicecidrs/servicecidrs_controller.go: NewController, sync,
//! addServiceCIDRFinalizerIfNeeded, removeServiceCIDRFinalizerIfNeeded, updateConditionIfNeeded,
//! overlappingServiceCIDRs.

pub mod deletion;

use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{condition, finalizer};

use deletion::{Deletion, IpAddress, MANAGED};

/// Keeps a ServiceCIDR until the controller has checked its deletion.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
const NAME: &str = "service-cidr-controller";
/// How often a failed reconcile is retried.
const MAX_RETRIES: u32 = 15;

/// A ServiceCIDR.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "networking.k8s.io/v1/ServiceCIDR")]
pub struct ServiceCidr {
    #[view(path = "metadata", fields("deletionTimestamp", "finalizers"))]
    pub meta: Meta,
    /// One range of IPv4, one of IPv6, or both.
    #[view(path = "spec.cidrs")]
    pub ranges: Vec<String>,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
}

/// The controller. Keys name ServiceCIDRs.
pub struct ServiceCidrs;

export!(ServiceCidrs);

impl Controller for ServiceCidrs {
    fn describe() -> Description {
        let ranges = watch::<ServiceCidr>()
            .enqueue(Mapping::itself())
            // Another range may now have the addresses of one that is being deleted.
            .enqueue(Mapping::all_of(ServiceCidr::KIND).on([DeltaType::Added]));
        let addresses = watch::<IpAddress>()
            .label_selector(MANAGED)
            .enqueue(Mapping::all_of(ServiceCidr::KIND).on([DeltaType::Added, DeltaType::Deleted]));
        describe(NAME, env!("CARGO_PKG_VERSION"))
            .watch(ranges)
            .watch(addresses)
            .queue_with(Queue {
                max_retries: Some(MAX_RETRIES),
                ..queue("ipaddresses")
            })
            .permission(ServiceCidr::KIND, ["patch"])
            .permission_on(ServiceCidr::KIND, "status", ["patch"])
            .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(range) = host.get_by_key::<ServiceCidr>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        if !range.meta.is_deleting() {
            return ready(host, &range);
        }
        match deletion::of(host, &range)? {
            Deletion::Blocked => {
                let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
                let blocked = Condition::new(READY, "False", "Terminating", message);
                set_condition(host, &range, &blocked)?;
            }
            Deletion::In(rest) => return Ok(Outcome::RequeueAfter(rest)),
            Deletion::Now if finalizer::has(&range.meta, FINALIZER) => {
                patch_finalizers(host, &range, "$deleteFromPrimitiveList/finalizers")?;
            }
            Deletion::Now => {}
        }
        Ok(Outcome::Done)
    }
}

/// Adds the finalizer and the condition, if they are missing.
fn ready(host: &Host, range: &ServiceCidr) -> Result<Outcome, Error> {
    if !finalizer::has(&range.meta, FINALIZER) {
        patch_finalizers(host, range, "finalizers")?;
    }
    let ready = Condition::new(READY, "True", "", "Kubernetes Service CIDR is ready");
    set_condition(host, range, &ready).inspect_err(|_| {
        let about = range.meta.reference(ServiceCidr::KIND);
        let message = "The ServiceCIDR Status can not be set to Ready=True";
        host.emit(Event::warning(
            &about,
            "KubernetesServiceCIDRError",
            message,
        ));
    })?;
    Ok(Outcome::Done)
}

/// Adds or removes the finalizer by a strategic merge patch of this list. A ServiceCIDR that does not exist any more is
/// left alone.
fn patch_finalizers(host: &Host, range: &ServiceCidr, list: &str) -> Result<(), Error> {
    let patch = json!({"metadata": {list: [FINALIZER]}});
    let name = &range.meta.name;
    host.patch(ServiceCidr::KIND, "", name, PatchType::Strategic, &patch)
        .found()?;
    Ok(())
}

/// Applies a condition, unless the ServiceCIDR has it.
fn set_condition(host: &Host, range: &ServiceCidr, new: &Condition) -> Result<(), ApiError> {
    let is_same = |old: &Condition| {
        (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message)
    };
    if condition::get(&range.conditions, READY).is_some_and(is_same) {
        return Ok(());
    }
    let name = &range.meta.name;
    // The schema requires the reason, even if it is empty.
    let status = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
        "status": {"conditions": [{"type": READY, "status": new.status, "reason": new.reason,
                                   "message": new.message, "lastTransitionTime": host.now()}]}});
    let apply = Write::patch(ServiceCidr::KIND, "", name, PatchType::Apply, &status);
    host.write(apply.on("status").field_manager(NAME).force())
        .map(drop)
}
