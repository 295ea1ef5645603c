//! Computes when the taints of a claim's devices evict its pods: pure functions of the objects that were read.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: claimEvictionTime, allEvictingDeviceTaints,
//! getDevice, getTaintedDevices.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go: ToleratesTaint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_taints::{NO_EXECUTE, Toleration};

use crate::views::{Allocated, Claim, Device, DeviceTaint, Rule, SLICES_BY_POOL, Slice};

/// Why and when pods are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub at: Time,
    /// The names of the rules among the causes, by UID.
    pub rules: BTreeMap<String, String>,
}

impl Eviction {
    /// The earlier of two evictions, with the causes of both.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.at = self.at.min(other.at);
        self.rules.extend(other.rules);
        self
    }
}

/// The published devices, and the rules that evict.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    pub slices: Vec<Slice>,
    pub rules: Vec<Rule>,
}

impl Devices {
    /// Lists the pools of the claims' devices, and the rules with the effect `NoExecute`.
    ///
    /// # Errors
    /// A list failed.
    pub fn of_claims(host: &Host, claims: &[Claim], with_rules: bool) -> Result<Self, Error> {
        let devices = claims.iter().flat_map(|claim| &claim.devices);
        let pools: BTreeSet<&str> = devices.map(|device| device.pool.as_str()).collect();
        let mut slices = Vec::new();
        for pool in pools {
            slices.extend(host.list::<Slice>().index(SLICES_BY_POOL, pool).all()?);
        }
        let mut rules = match with_rules {
            true => host.list::<Rule>().all()?,
            false => Vec::new(),
        };
        rules.retain(|rule| rule.taint.evicts());
        Ok(Self { slices, rules })
    }

    /// When the pods of a claim are evicted; `None` if its devices have no taints that evict, or all are tolerated for
    /// ever.
    pub fn eviction(&self, claim: &Claim) -> Option<Eviction> {
        let evictions = claim.devices.iter().flat_map(|device| {
            let taints = self.device(device).into_iter().flat_map(|one| &one.taints);
            let own = taints.filter(|taint| taint.evicts());
            let own = own.filter_map(move |taint| Some((due(taint, &device.tolerations)?, None)));
            let rules = self
                .rules
                .iter()
                .filter(move |rule| rule.selects(&device.driver, &device.pool, &device.device));
            own.chain(rules.filter_map(move |rule| {
                Some((due(&rule.taint, &device.tolerations)?, Some(&rule.meta)))
            }))
        });
        let evictions = evictions.map(|(at, rule)| Eviction {
            at,
            rules: rule
                .map(|rule| (rule.uid.clone(), rule.name.clone()))
                .into_iter()
                .collect(),
        });
        evictions.reduce(Eviction::join)
    }

    /// The published device of an allocation.
    fn device(&self, allocated: &Allocated) -> Option<&Device> {
        let own = |slice: &&Slice| slice.driver == allocated.driver && slice.pool == allocated.pool;
        current(self.slices.iter().filter(own))
            .into_iter()
            .flat_map(|slice| &slice.devices)
            .find(|device| device.name == allocated.device)
    }
}

/// The slices of a pool that have its highest generation. The others are out of date.
pub fn current<'a>(slices: impl Iterator<Item = &'a Slice> + Clone) -> Vec<&'a Slice> {
    let newest = slices.clone().map(|slice| slice.generation).max();
    slices
        .filter(|slice| Some(slice.generation) == newest)
        .collect()
}

/// Returns when a taint that evicts is no longer tolerated; `None` if it is tolerated without limit. The shortest
/// toleration of the taint counts, unless one has no limit.
fn due(taint: &DeviceTaint, tolerations: &[Toleration]) -> Option<Time> {
    let as_evicting = DeviceTaint {
        effect: NO_EXECUTE.into(),
        ..taint.clone()
    }
    .taint();
    let mut shortest: Option<i64> = None;
    let used = tolerations.iter().filter(|toleration| {
        toleration.effect == NO_EXECUTE && toleration.tolerates(&as_evicting, false)
    });
    for toleration in used {
        let seconds = toleration.toleration_seconds?;
        shortest = shortest.into_iter().chain([seconds.max(0)]).min();
    }
    let seconds = u64::try_from(shortest.unwrap_or(0)).unwrap_or(0);
    Some(taint.time_added? + Duration::from_secs(seconds))
}
