//! The controller's description: its watches, queues, indexes, permissions and settings.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: NewController, enqueueWork,
//! deleteVolume, deleteClaim.

use std::time::Duration;

use flyball_sdk::describe;
use flyball_sdk::describe::Ticker;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::{host_path, mock, recycler};

use crate::metrics::{self, CountedClaim, CountedVolume};
use crate::recycle::NAMESPACE;
use crate::resync::{ClaimRow, VolumeRow};
use crate::search::Candidate;
use crate::settings::{ATTRIBUTES_CLASSES, DEFAULT_SYNC_PERIOD, KEYS, SYNC_PERIOD};
use crate::views::{
    Claim, ClaimSpec, Class, Node, Pod, PodEvent, Volume, VolumeSpec, claim_phase, volume_phase,
};

/// The queue of claims.
pub(crate) const CLAIMS: &str = "claims";
/// The queue of volumes, and of the keys below, which no volume can have.
pub(crate) const VOLUMES: &str = "volumes";
/// The key that enqueues what is not settled.
pub(crate) const RESYNC: &str = "resync:";
/// The key that counts volumes and claims.
pub(crate) const METRICS: &str = "metrics:";
/// The namespace of keys that name events about recycler pods.
pub(crate) const EVENTS: &str = "event:";

/// The index of volumes by the name of the claim that they are bound to or reserved for.
pub(crate) const BY_CLAIM: &str = "claim";
/// The index of volumes by phase.
pub(crate) const BY_PHASE: &str = "phase";
/// The index of pods by the claims that they name.
pub(crate) const BY_NAMED_CLAIM: &str = "claims";

/// How long changes are collected before volumes and claims are counted. It is shorter than usual scrape intervals.
const COUNTED_AFTER: Duration = Duration::from_secs(5);

/// Returns the description.
///
/// Volumes and claims are cached whole: most writes of them are updates, which send the whole object.
pub(crate) fn description() -> Description {
    let description = describe::describe(
        "persistentvolume-binder-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(volumes())
    .watch(edited_volumes())
    .watch(claims())
    .watch(edited_claims())
    .watch(describe::watch::<Class>())
    .watch(pods())
    .watch(events())
    .watch(describe::watch::<Node>())
    .index(BY_CLAIM, Volume::KIND, "spec.claimRef.name")
    .index(BY_PHASE, Volume::KIND, "status.phase")
    .index(
        BY_NAMED_CLAIM,
        Pod::KIND,
        "spec.volumes[*].persistentVolumeClaim.claimName",
    )
    .queue(CLAIMS)
    .queue(VOLUMES)
    .ticker_with(Ticker {
        key: RESYNC.into(),
        queue: VOLUMES.into(),
        period_ms: DEFAULT_SYNC_PERIOD.as_millis() as u32,
        config: SYNC_PERIOD.into(),
    })
    .concurrency(1)
    .event_source("persistentvolume-controller")
    .feature_gate(ATTRIBUTES_CLASSES, true);
    let described = metrics::declare(settings(permissions(description)));
    mock::declare(recycler::declare(host_path::declare(described)))
}

/// The volumes. A deleted volume wakes its claim, which has lost it. A bound one usually needs nothing: the first
/// [`RESYNC`] finds the exceptions when the controller starts, and [`edited_volumes`] the later ones.
fn volumes() -> Watch {
    describe::watch::<Volume>()
        .and_view::<VolumeSpec>()
        .and_view::<Candidate>()
        .and_view::<VolumeRow>()
        .and_view::<CountedVolume>()
        .fields(&["."])
        .enqueue(
            Mapping::itself()
                .unless_having("status.phase", volume_phase::BOUND)
                .queue(VOLUMES),
        )
        .enqueue(Mapping::route().on([DeltaType::Deleted]))
        .enqueue(counted())
}

/// The volumes, bound ones too, that somebody edits.
fn edited_volumes() -> Watch {
    describe::watch::<Volume>()
        .when_at(&["metadata.annotations", "metadata.finalizers", "spec"])
        .enqueue(Mapping::itself().on([DeltaType::Modified]).queue(VOLUMES))
}

/// The claims. A deleted claim wakes its volume, which is released. Bound claims are treated as bound volumes.
fn claims() -> Watch {
    describe::watch::<Claim>()
        .and_view::<ClaimSpec>()
        .and_view::<ClaimRow>()
        .and_view::<CountedClaim>()
        .fields(&["."])
        .enqueue(
            Mapping::itself()
                .unless_having("status.phase", claim_phase::BOUND)
                .queue(CLAIMS),
        )
        .enqueue(
            Mapping::named_in_cluster("spec.volumeName")
                .on([DeltaType::Deleted])
                .queue(VOLUMES),
        )
        .enqueue(counted())
}

/// The claims, bound ones too, that somebody edits.
fn edited_claims() -> Watch {
    describe::watch::<Claim>()
        .when_at(&["metadata.annotations", "spec"])
        .enqueue(Mapping::itself().on([DeltaType::Modified]).queue(CLAIMS))
}

fn counted() -> Mapping {
    Mapping::key(METRICS).queue(VOLUMES).after(COUNTED_AFTER)
}

/// The pods. Only those that recycle volumes wake something, when they end. Those in another namespace, which the
/// operator's template may name, are looked at in each period.
fn pods() -> Watch {
    describe::watch::<Pod>().when_at(&["status.phase"]).enqueue(
        Mapping::route()
            .on([DeltaType::Modified, DeltaType::Deleted])
            .having("metadata.namespace", NAMESPACE),
    )
}

/// The events about pods in the namespace of recycler pods. They are copied to volumes.
fn events() -> Watch {
    describe::watch::<PodEvent>()
        .namespace(NAMESPACE)
        .field_selector("involvedObject.kind=Pod")
        .enqueue(Mapping::route().on([DeltaType::Added]))
}

fn permissions(description: Description) -> Description {
    description
        .permission(Volume::KIND, ["create", "delete", "get", "update"])
        .permission_on(Volume::KIND, "status", ["update"])
        .permission(Claim::KIND, ["get", "update"])
        .permission_on(Claim::KIND, "status", ["update"])
        .permission(Pod::KIND, ["create", "delete", "get"])
}

fn settings(description: Description) -> Description {
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}
