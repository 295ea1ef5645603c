//! device-taint-eviction-controller: deletes pods that don't tolerate the `NoExecute` taints of their devices.
//!
//! Devices have taints in ResourceSlices and by DeviceTaintRules (KEP-5055). A pod uses the devices that are allocated
//! for its ResourceClaims. The API stores when each taint was added, so each reconcile computes the time of an eviction
//! anew.
//!
//! `reconcile` has four kinds of keys, by queue:
//!
//! - pods, in the primary queue: [`evict`] decides, by [`taints`], and deletes them when it is time;
//! - DeviceTaintRules, in the primary queue: [`rules`] updates their conditions;
//! - ResourceClaims and pools of devices: their [`pods`] are enqueued, if one of them is or was to be evicted;
//! - evicted pods, which [`count`] counts for the conditions.
//!
//! A pod without claims enqueues nothing.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: New, Run, handleWork, handleClaimChange,
//! handlePodChange, handleSliceChange, handleRuleChange.

pub mod count;
pub mod evict;
pub mod pods;
pub mod rules;
pub mod taints;
pub mod views;

#[cfg(test)]
mod tests;

use flyball_device_claims::POD_GROUPS_GATE as GROUPS;
use flyball_pods::disruption::LATENESS;
use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

use taints::Devices;
use views::{
    BY_CLAIM, BY_CREATED_CLAIM, BY_EXTENDED_CLAIM, BY_POOL, Claim, LivePod, Pod, Rule,
    SLICES_BY_POOL, Slice,
};

/// The name of the controller, of its primary queue and of the manager of the fields that it applies.
const NAME: &str = "device-taint-eviction-controller";
/// The queue of ResourceClaims.
const CLAIMS: &str = "device-taint-eviction-controller_claims";
/// The queue of pools.
const POOLS: &str = "device-taint-eviction-controller_pools";
/// The queue of evicted pods.
const EVICTED: &str = "device-taint-eviction-controller_evicted";
/// The key for all pools. No pool has this name.
const ALL_POOLS: &str = "*";

/// The path of the claim of a pod's extended resources.
const EXTENDED_CLAIM: &str = "status.extendedResourceClaimStatus.resourceClaimName";

/// The feature gate of DeviceTaintRules.
const RULES: &str = "DRADeviceTaintRules";

/// The controller.
pub struct DeviceTaintEviction;

export!(DeviceTaintEviction);

impl Controller for DeviceTaintEviction {
    fn describe() -> Description {
        description(true)
    }

    fn describe_configured(host: &Host) -> Description {
        description(host.feature_enabled_or(RULES, true)).kind_of_release::<Rule>(host)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        match request.queue.as_str() {
            CLAIMS => match host.get_by_key::<Claim>(key)? {
                Some(claim) => wake(host, &[claim])?,
                None => wake_pods(host, key, false)?,
            },
            POOLS => {
                let claims = host.list::<Claim>();
                let claims = match key.to_string().as_str() {
                    ALL_POOLS => claims.all()?,
                    pool => claims.index(BY_POOL, pool).all()?,
                };
                wake(host, &claims)?;
            }
            EVICTED => return count::reconcile(host, key),
            _ if key.namespace.is_empty() => return rules::reconcile(host, &key.name),
            _ => return evict::reconcile(host, key),
        }
        Ok(Outcome::Done)
    }
}

/// The description, with DeviceTaintRules if the API server has them.
fn description(with_rules: bool) -> Description {
    let description = describe(NAME, env!("CARGO_PKG_VERSION"))
        .watch(pods_watch())
        .watch(
            watch::<Claim>()
                .when_at(&["status.allocation.devices.results", "status.reservedFor"])
                .enqueue(Mapping::itself().queue(CLAIMS)),
        )
        .watch(
            watch::<Slice>()
                .when_at(&["spec.pool.name", "spec.pool.generation", "spec.devices"])
                .enqueue(Mapping::named_in_cluster("spec.pool.name").queue(POOLS)),
        )
        .index(BY_CLAIM, Pod::KIND, "spec.resourceClaims[*].resourceClaimName")
        .index(
            BY_CREATED_CLAIM,
            Pod::KIND,
            "status.resourceClaimStatuses[*].resourceClaimName",
        )
        .index(BY_EXTENDED_CLAIM, Pod::KIND, EXTENDED_CLAIM)
        .index(BY_POOL, Claim::KIND, "status.allocation.devices.results[*].pool")
        .index(SLICES_BY_POOL, Slice::KIND, "spec.pool.name")
        .queue(NAME)
        .queue(CLAIMS)
        .queue(POOLS)
        .queue(EVICTED)
        .permission(LivePod::KIND, ["get", "delete"])
        .permission_on(Pod::KIND, "status", ["patch"])
        .feature_gate(RULES, true)
        .feature_gate(GROUPS, false)
        .emulated_version()
        .metric(
            MetricType::Counter,
            evict::DELETED,
            &[],
            "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        )
        .metric(
            MetricType::Histogram(LATENESS.into()),
            evict::DURATION,
            &[],
            "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via \
             DeviceTaintEvictionController.",
        )
        .concurrency(8);
    if !with_rules {
        return description;
    }
    description
        .watch(
            watch::<Rule>()
                .when_at(&["spec.deviceSelector", "spec.taint"])
                .enqueue(Mapping::itself()),
        )
        .permission_on(Rule::KIND, "status", ["patch"])
}

/// Pods enqueue their claims.
fn pods_watch() -> Watch {
    let paths = [
        "spec.resourceClaims[*].resourceClaimName",
        "status.resourceClaimStatuses[*].resourceClaimName",
        EXTENDED_CLAIM,
    ];
    let watch = watch::<Pod>().when_at(&[
        "spec.nodeName",
        "status.resourceClaimStatuses",
        EXTENDED_CLAIM,
    ]);
    let enqueue = |watch: Watch, path| watch.enqueue(Mapping::named(path).queue(CLAIMS));
    paths.into_iter().fold(watch, enqueue)
}

fn has_rules(host: &Host) -> bool {
    host.feature_enabled(RULES)
}

/// Enqueues the pods of claims that are or were to be evicted.
fn wake(host: &Host, claims: &[Claim]) -> Result<(), Error> {
    let devices = Devices::of_claims(host, claims, has_rules(host))?;
    for claim in claims {
        let evicts = devices.eviction(claim).is_some();
        wake_pods(host, &claim.meta.key(), evicts)?;
    }
    Ok(())
}

/// Enqueues the pods that reference a claim: all of them if it `evicts`, else those whose eviction is pending.
fn wake_pods(host: &Host, claim: &Key, evicts: bool) -> Result<(), Error> {
    for pod in pods::referencing(host, claim)? {
        if evicts || evict::is_pending(host, &pod.meta) {
            host.queue().add("", &pod.meta.key())?;
        }
    }
    Ok(())
}
