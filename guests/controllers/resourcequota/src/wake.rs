//! The changes that wake a quota: a new quota, new limits, and changes that may free something that the quota counts.
//! Admission counts additional usage before an object is created.
//!
//! Upstream: pkg/controller/resourcequota/resource_quota_controller.go: addQuota, replenishQuota.
//! Upstream: pkg/controller/resourcequota/resource_quota_monitor.go: processResourceChanges.
//! Upstream: pkg/quota/v1/install/update_filter.go: DefaultUpdateFilter, hasResourcesChanged.
//! Upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go: RequiresQuotaReplenish.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use flyball_sdk::Kind;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use serde::Deserialize;

use crate::evaluator::{self, Evaluator};
use crate::kinds::Kinds;
use crate::resource_claims::DeviceClasses;
use crate::settings::Settings;
use crate::views::{ContainerStatus, Pod, Quota, Service, VolumeClaim};
use crate::{PRIORITY, pods, services};

/// Any object, by its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Meta,
}

/// The keys that changes enqueue, and the data that is read to find them.
struct Waker<'a> {
    host: &'a Host<'a>,
    settings: Settings,
    /// The quotas of namespaces that were asked for.
    quotas: BTreeMap<String, Vec<Quota>>,
    classes: OnceCell<DeviceClasses>,
    kinds: OnceCell<Option<Kinds>>,
    keys: Vec<RoutedKey>,
}

/// Returns the keys of the quotas to reconcile after these changes.
///
/// # Errors
/// A change or a quota is malformed.
pub fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut waker = Waker {
        host,
        // `reconcile` reports invalid settings.
        settings: Settings::read(host).unwrap_or_default(),
        quotas: BTreeMap::new(),
        classes: OnceCell::new(),
        kinds: OnceCell::new(),
        keys: Vec::new(),
    };
    for delta in deltas {
        if delta.watch == Quota::KIND {
            waker.quota_changed(delta)?;
        }
        if frees(delta, host.now())? {
            waker.freed(delta)?;
        }
    }
    Ok(waker.keys)
}

/// Whether a change may free something. All deletions do.
fn frees(delta: &Delta, now: Time) -> Result<bool, Error> {
    match (delta.delta_type, delta.watch.as_str()) {
        (DeltaType::Deleted, _) => Ok(true),
        (DeltaType::Modified, Pod::KIND) => both(delta, |old, new| pod_frees(old, new, now)),
        (DeltaType::Modified, Service::KIND) => both(delta, |old: &Service, new| {
            services::counted_type(old) != services::counted_type(new)
        }),
        // A claim may have been expanded, or have a new class.
        (DeltaType::Modified, VolumeClaim::KIND) => both(delta, |old: &VolumeClaim, new| {
            let versionless = |claim: &VolumeClaim| {
                let mut claim = claim.clone();
                claim.meta.resource_version.clear();
                claim
            };
            versionless(old) != versionless(new)
        }),
        _ => Ok(false),
    }
}

/// Applies a predicate to an object before and after a change.
fn both<T: View>(delta: &Delta, predicate: impl FnOnce(&T, &T) -> bool) -> Result<bool, Error> {
    let (before, after) = (delta.before::<T>()?, delta.after::<T>()?);
    Ok(before
        .zip(after)
        .is_some_and(|(old, new)| predicate(&old, &new)))
}

/// Whether a pod has been resized, has moved between scopes, or is no longer charged.
fn pod_frees(old: &Pod, new: &Pod, now: Time) -> bool {
    let resized = |old: &[ContainerStatus], new: &[ContainerStatus]| {
        let of = |name: &str| new.iter().find(|status| status.name == name);
        old.iter()
            .filter_map(|status| Some((status, of(&status.name)?)))
            .any(|(old, new)| old.resources != new.resources)
    };
    resized(&old.container_statuses, &new.container_statuses)
        || resized(&old.init_container_statuses, &new.init_container_statuses)
        || pods::is_terminating(old) != pods::is_terminating(new)
        || (pods::is_charged(old, now) && !pods::is_charged(new, now))
}

impl Waker<'_> {
    /// Enqueues a quota that is new or has new limits. A quota whose status lacks something comes
    /// before others.
    fn quota_changed(&mut self, delta: &Delta) -> Result<(), Error> {
        let (before, after) = (delta.before::<Quota>()?, delta.after::<Quota>()?);
        let Some(quota) = after.filter(|quota| {
            delta.delta_type == DeltaType::Added
                || before.is_none_or(|before| before.hard != quota.hard)
        }) else {
            return Ok(());
        };
        let queue = if self.lacks_status(&quota) {
            PRIORITY
        } else {
            ""
        };
        self.keys.push(RoutedKey {
            queue: queue.into(),
            ..RoutedKey::now(quota.meta.key())
        });
        Ok(())
    }

    /// Whether a quota's status lacks its limits, or the usage of one of them.
    fn lacks_status(&self, quota: &Quota) -> bool {
        let mut names = quota.status.hard.keys();
        quota.hard != quota.status.hard
            || names.any(|name| !quota.status.used.contains_key(name) && self.is_tracked(name))
    }

    /// Whether anything is counted for a limit of this name. Limits on extended resources are always
    /// counted, of pods.
    fn is_tracked(&self, name: &str) -> bool {
        let kinds = evaluator::discovered(name).and_then(|_| self.kinds());
        let names = std::iter::once(name);
        !evaluator::of_limits(names, &DeviceClasses::default(), kinds).is_empty()
    }

    /// Enqueues the quotas that count objects like the changed one.
    fn freed(&mut self, delta: &Delta) -> Result<(), Error> {
        let object = match delta.before::<Object>()? {
            Some(object) => object,
            None => delta.after()?.unwrap_or_default(),
        };
        let namespace = object.metadata.namespace;
        if namespace.is_empty() || self.quotas_in(&namespace)?.is_empty() {
            return Ok(());
        }
        let kind: Kind = delta.watch.parse().map_err(|_| {
            Error::terminal(format!("a delta of `{}`, which is not a kind", delta.watch))
        })?;
        let evaluator = evaluator::of_kind(&kind, || self.kinds().cloned());
        if evaluator == Some(Evaluator::ResourceClaims) && self.settings.extended_resources {
            self.read_classes()?;
        }
        let none = DeviceClasses::default();
        let classes = self.classes.get().unwrap_or(&none);
        let counts = |name: &String| match &evaluator {
            Some(evaluator) => evaluator.tracks(name, classes),
            // A kind that was removed.
            None => {
                evaluator::discovered(name).is_some_and(|resource| is_in_group(resource, &kind))
            }
        };
        let woken = self.quotas[&namespace]
            .iter()
            .filter(|quota| quota.status.hard.keys().any(counts))
            .map(|quota| RoutedKey::now(quota.meta.key()));
        self.keys.extend(woken);
        Ok(())
    }

    fn quotas_in(&mut self, namespace: &str) -> Result<&[Quota], Error> {
        let entry = match self.quotas.entry(namespace.into()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(self.host.list::<Quota>().namespace(namespace).all()?)
            }
        };
        Ok(entry)
    }

    fn read_classes(&self) -> Result<(), Error> {
        if self.classes.get().is_none() {
            let classes = DeviceClasses::read(self.host)?;
            self.classes.get_or_init(|| classes);
        }
        Ok(())
    }

    /// The kinds; none if they can't be discovered.
    fn kinds(&self) -> Option<&Kinds> {
        let read = || Kinds::read(self.host, self.settings.discovery_period).ok();
        self.kinds.get_or_init(read).as_ref()
    }
}

/// Whether a resource such as `deployments.apps` is in the group of a kind.
fn is_in_group(resource: &str, kind: &Kind) -> bool {
    let (_, group) = resource.split_once('.').unwrap_or((resource, ""));
    group == kind.group
}
