//! Measures the usage of a quota by the objects of its namespace.
//!
//! Upstream: pkg/controller/resourcequota/resource_quota_controller.go: syncResourceQuota.
//! Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go: CalculateUsage.
//! Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go: CalculateUsageStats, Matches,
//! getScopeSelectorsFromQuota.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;

use crate::amounts::{Amounts, ResourceList, add, add_one};
use crate::evaluator::{self, Evaluator};
use crate::kinds::Kinds;
use crate::resource_claims::{self, DeviceClasses};
use crate::settings::Settings;
use crate::views::{Pod, Quota, Requirement, ResourceClaim, Service, VolumeClaim};
use crate::{pods, scope, services, volume_claims};

/// The usage, as far as it is known.
#[derive(Debug, Default)]
pub struct Measured {
    pub used: ResourceList,
    /// The errors that prevented parts of the measurement.
    pub failures: Vec<Error>,
}

/// The part of the cluster that a measurement reads.
struct Reading<'a> {
    host: &'a Host<'a>,
    settings: &'a Settings,
    namespace: &'a str,
    scopes: &'a [Requirement],
    classes: &'a DeviceClasses,
}

/// Measures the usage of each limit of a quota. If an evaluator fails, its part is left out; the others are counted.
pub fn measure(host: &Host, quota: &Quota, settings: &Settings) -> Measured {
    let mut measured = Measured::default();
    let all = || quota.hard.keys().map(String::as_str);
    let kinds = noted(&mut measured.failures, || kinds(host, all(), settings));
    let known_classes = noted(&mut measured.failures, || {
        device_classes(host, all(), settings).map(Some)
    });
    let (knows_devices, classes) = (known_classes.is_some(), known_classes.unwrap_or_default());
    let names = || all().filter(|name| knows_devices || !may_be_devices(name));
    let reading = Reading {
        host,
        settings,
        namespace: &quota.meta.namespace,
        scopes: &scope::of(quota),
        classes: &classes,
    };
    let evaluators = evaluator::of_limits(names(), &classes, kinds.as_ref());
    let tracked = |evaluator: &Evaluator| -> Vec<&str> {
        names()
            .filter(|name| evaluator.tracks(name, &classes))
            .collect()
    };
    let mut known: BTreeSet<&str> = evaluators.iter().flat_map(tracked).collect();
    for evaluator in &evaluators {
        let own = tracked(evaluator);
        match reading.used(evaluator, &own, &known) {
            Ok(used) => add(&mut measured.used, &used),
            Err(error) => {
                known.retain(|name| !own.contains(name));
                measured.failures.push(error);
            }
        }
    }
    measured
        .used
        .retain(|name, _| known.contains(name.as_str()));
    if let Some(kinds) = &kinds {
        measured
            .used
            .extend(of_removed_kinds(names(), &quota.status.used, kinds));
    }
    measured
}

/// Reads the device classes, if a limit may be on the devices of one.
fn device_classes<'a>(
    host: &Host,
    mut names: impl Iterator<Item = &'a str>,
    settings: &Settings,
) -> Result<DeviceClasses, Error> {
    if settings.extended_resources && names.any(may_be_devices) {
        DeviceClasses::read(host).doing(|| "listing device classes".into())
    } else {
        Ok(DeviceClasses::default())
    }
}

/// Whether a limit may be on devices that pods request as extended resources.
fn may_be_devices(name: &str) -> bool {
    name.starts_with("requests.") && name.contains('/')
}

/// Discovers the kinds, if a limit is on a number of objects of a kind that only discovery knows.
fn kinds<'a>(
    host: &Host,
    mut names: impl Iterator<Item = &'a str>,
    settings: &Settings,
) -> Result<Option<Kinds>, Error> {
    if !names.any(|name| evaluator::discovered(name).is_some()) {
        return Ok(None);
    }
    Kinds::read(host, settings.discovery_period)
        .map(Some)
        .doing(|| "discovering the kinds to count".into())
}

/// Returns a result, or notes the failure and returns the default.
fn noted<T: Default>(failures: &mut Vec<Error>, read: impl FnOnce() -> Result<T, Error>) -> T {
    read().unwrap_or_else(|error| {
        failures.push(error);
        T::default()
    })
}

/// Returns a usage of zero for limits on kinds that were counted before and are no longer served.
fn of_removed_kinds<'a>(
    names: impl Iterator<Item = &'a str>,
    before: &Amounts,
    kinds: &Kinds,
) -> ResourceList {
    let is_removed =
        |name: &&str| evaluator::discovered(name).is_some_and(|resource| kinds.lack(resource));
    names
        .filter(is_removed)
        .filter(|name| before.contains_key(*name))
        .map(|name| (name.to_owned(), Quantity::default()))
        .collect()
}

impl Reading<'_> {
    /// Returns the usage by the evaluator's objects. The limits `own` are always included, with zero if nothing is
    /// used; other limits among `known` are included if the evaluator counts them.
    fn used(
        &self,
        evaluator: &Evaluator,
        own: &[&str],
        known: &BTreeSet<&str>,
    ) -> Result<ResourceList, Error> {
        let zero = |name: &&str| ((*name).to_owned(), Quantity::default());
        let mut total: ResourceList = own.iter().map(zero).collect();
        let mut count = |used: ResourceList| {
            let counted = used
                .iter()
                .filter(|(name, _)| known.contains(name.as_str()));
            counted.for_each(|(name, quantity)| add_one(&mut total, name, *quantity));
        };
        let what = || format!("counting {evaluator} in {}", self.namespace);
        match evaluator {
            Evaluator::Pods => {
                let now = self.host.now();
                self.each(pods::PRIORITY_CLASS, pods::is_in, |pod: &Pod| {
                    count(pods::usage(pod, now, self.settings.counting));
                })
            }
            Evaluator::VolumeClaims => self.each(
                volume_claims::ATTRIBUTES_CLASS,
                volume_claims::is_in,
                |claim: &VolumeClaim| count(volume_claims::usage(claim)),
            ),
            // No scope contains any of the others.
            _ if !self.scopes.is_empty() => Ok(()),
            Evaluator::Services => {
                self.host
                    .list::<Service>()
                    .namespace(self.namespace)
                    .each(|service| {
                        count(services::usage(&service));
                        Ok(())
                    })
            }
            Evaluator::ResourceClaims => self.resource_claims(count),
            Evaluator::Objects { kind, .. } => {
                self.host.count_of(kind, self.namespace).map(|objects| {
                    let objects = Quantity::of_units(objects.into());
                    own.iter()
                        .for_each(|name| add_one(&mut total, name, objects));
                })
            }
        }
        .doing(what)?;
        Ok(total)
    }

    /// Visits the objects that are in all scopes: none if the scope `by_name`, which selects objects
    /// by names of classes, can't be evaluated.
    fn each<T: View>(
        &self,
        by_name: &str,
        is_in: impl Fn(&T, &Requirement) -> bool,
        mut visit: impl FnMut(&T),
    ) -> Result<(), Error> {
        let is_broken = |scope: &Requirement| scope.scope_name == by_name && !scope.is_valid();
        if self.scopes.iter().any(is_broken) {
            return Ok(());
        }
        self.host
            .list::<T>()
            .namespace(self.namespace)
            .each(|object| {
                if self.scopes.iter().all(|scope| is_in(&object, scope)) {
                    visit(&object);
                }
                Ok(())
            })
    }

    fn resource_claims(&self, mut count: impl FnMut(ResourceList)) -> Result<(), Error> {
        let list = self.host.list::<ResourceClaim>().namespace(self.namespace);
        let claims: Vec<ResourceClaim> = list.all()?;
        for claim in &claims {
            let mut used = resource_claims::usage(claim);
            if self.settings.extended_resources {
                let of_pod = self.usage_of_its_pod(claim, &claims)?;
                resource_claims::add_extended(&mut used, self.classes, &of_pod);
            }
            count(used);
        }
        Ok(())
    }

    /// Returns the usage by the pod that a claim was created for; an empty list if there is no such pod.
    fn usage_of_its_pod(
        &self,
        claim: &ResourceClaim,
        all: &[ResourceClaim],
    ) -> Result<ResourceList, Error> {
        let Some(owner) = resource_claims::pod_of(claim) else {
            return Ok(ResourceList::new());
        };
        let pod: Option<Pod> = self.host.get(self.namespace, &owner.name)?;
        let pod = pod.filter(|pod| resource_claims::confirms(pod, claim, all));
        let usage = |pod: Pod| pods::usage(&pod, self.host.now(), self.settings.counting);
        Ok(pod.map(usage).unwrap_or_default())
    }
}
