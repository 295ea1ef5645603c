//! podgroup-protection-controller: keeps PodGroups while pods use them.
//!
//! The API server adds a finalizer to each new PodGroup. When a PodGroup is being deleted, the finalizer is removed
//! once no pod that has not ended names the group.
//!
//! Upstream: pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go:
//! NewPodGroupProtectionController, processPodGroup, removeFinalizer, hasActivePods, isPodTerminated,
//! handlePodGroupUpdate, handlePodChange, enqueuePodGroupForPod.

use flyball_pods::has_ended;
use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;

/// The finalizer.
pub const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";
/// The index of pods by the group that they name.
const MEMBERS: &str = "group";
/// The path of this name.
const GROUP_NAME: &str = "spec.schedulingGroup.podGroupName";

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "scheduling.k8s.io/v1beta1/PodGroup",
    until(36, "scheduling.k8s.io/v1alpha2/PodGroup")
)]
struct PodGroup {
    #[view(path = "metadata", fields("deletionTimestamp", "finalizers"))]
    meta: Meta,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Pod {
    #[view(path = "status.phase")]
    phase: String,
}

/// The controller. Keys name PodGroups.
pub struct GroupProtection;

export!(GroupProtection);

impl Controller for GroupProtection {
    fn describe() -> Description {
        let groups = watch::<PodGroup>()
            .when_at(&[
                "metadata.uid",
                "metadata.deletionTimestamp",
                "metadata.finalizers",
            ])
            .enqueue(
                Mapping::itself()
                    .on([DeltaType::Added, DeltaType::Modified])
                    .deleting(),
            );
        // A pod stops using a group when it ends or is deleted, also if another pod has its name by then.
        let pods = watch::<Pod>()
            .fields(&[GROUP_NAME])
            .when_at(&["metadata.uid", "status.phase"])
            .enqueue(Mapping::named(GROUP_NAME).on([DeltaType::Modified, DeltaType::Deleted]));
        describe("podgroup-protection-controller", env!("CARGO_PKG_VERSION"))
            .watch(groups)
            .watch(pods)
            .index(MEMBERS, Pod::KIND, GROUP_NAME)
            .queue("podgroupprotection")
            .permission(PodGroup::KIND, ["get", "update"])
            .emulated_version()
            .concurrency(1)
    }

    fn describe_configured(host: &Host) -> Description {
        Self::describe().kind_of_release::<PodGroup>(host)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let group = host.get_by_key::<PodGroup>(&request.key)?;
        if let Some(PodGroup { meta }) = group
            && finalizer::is_held(&meta, FINALIZER)
            && !is_used(host, &meta)?
        {
            host.write(finalizer::remove(host.kind::<PodGroup>(), &meta, FINALIZER))
                .found()?;
        }
        Ok(Outcome::Done)
    }
}

/// Whether a pod that has not ended names the group. Only the cache is read, as in kube-controller-manager: a pod that
/// was created just before the deletion may be missing there.
fn is_used(host: &Host, group: &Meta) -> Result<bool, Error> {
    let pods = host
        .list::<Pod>()
        .namespace(&group.namespace)
        .index(MEMBERS, &group.name)
        .all()?;
    Ok(pods.iter().any(|pod| !has_ended(&pod.phase)))
}
