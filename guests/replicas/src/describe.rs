//! What the controller is and wants.

use flyball_sdk::describe::{self, MetricType};
use flyball_sdk::prelude::*;

use crate::flavor::{Flavored, Of};
use crate::views::{Bystander, Candidate, Pod, Set};

/// The description of the controller of this kind.
///
/// Its permissions are what it uses of its ClusterRole. `update` on `finalizers` is for the admission that guards
/// `blockOwnerDeletion`.
pub fn describe<F: Flavored>() -> Description {
    let flavor = F::FLAVOR;
    let description = describe::describe(flavor.name, env!("CARGO_PKG_VERSION"))
        .watch(sets::<F>())
        .watch(pods::<F>())
        .queue(flavor.queue)
        .allow("v1/Pod", ["create", "delete", "patch"])
        .allow(flavor.kind, ["get"])
        .allow_on(flavor.kind, "status", ["update"])
        .allow_on(flavor.kind, "finalizers", ["update"])
        .concurrency(5)
        .event_source(flavor.event_source);
    let Some(age_ratio) = flavor.age_ratio else {
        return description;
    };
    description.metric(
        MetricType::Histogram(vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0]),
        age_ratio,
        &[],
        "The ratio of the age of each ready pod that was chosen for deletion to the age of the youngest ready pod. \
         Should be below 2.",
    )
}

/// The sets. Their status counts, too: what someone else wrote there is put right. Whole, because it is modified: the host
/// then builds what it puts from its cache.
fn sets<F: Flavored>() -> describe::Watch {
    watch::<Of<F, Set>>()
        .fields(&["."])
        .when(Change::Generation)
        .when(Change::Path("metadata.deletionTimestamp".into()))
        .when(Change::Path("status".into()))
        .itself()
}

/// The condition of a pod that counts.
const READY: &str = "status.conditions[type=Ready]";

/// Their pods, and those that could become so: an orphan's end concerns nobody.
fn pods<F: Flavored>() -> describe::Watch {
    let kind = F::FLAVOR.kind;
    let what_counts = [
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "status.phase",
        READY,
    ];
    let watch = what_counts.iter().fold(
        watch::<Pod>()
            .and_view::<Candidate>()
            .and_view::<Bystander>()
            .when(Change::Labels),
        |watch, path| watch.when(Change::Path((*path).into())),
    );
    watch
        .to_controller(kind)
        .selecting(kind, "spec.selector")
        .orphans()
        .on(&[DeltaType::Added, DeltaType::Modified])
}
