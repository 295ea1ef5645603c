//! The reactions of stock's controllers to objects in transient states, from its source: v1.37.2, and v1.38.0-beta.0 of the
//! controllers that it adds. A state without a row causes no reaction.

/// The writes and events of a controller for an object of a kind in a state.
pub struct Reaction {
    /// The controller's folder.
    pub folder: &'static str,
    /// The name of the state.
    pub state: &'static str,
    pub kind: &'static str,
    /// Writes and events, without names and messages, and `fails`.
    pub deeds: &'static [&'static str],
    /// The reason in stock.
    pub stock: &'static str,
}

/// A deed: the folder, the state, the kind, and a write or an event.
pub type Deed = [String; 4];

impl Reaction {
    /// Returns the deeds, one by one.
    pub fn deeds(&self) -> impl Iterator<Item = Deed> {
        let deeds = self.deeds.iter();
        deeds.map(|deed| [self.folder, self.state, self.kind, deed].map(str::to_owned))
    }
}

const POD: &str = "v1/Pod";
const NODE: &str = "v1/Node";
const EVICTION: &str = "lifecycle.k8s.io/v1alpha1/Eviction";
const EVICTION_REQUEST: &str = "lifecycle.k8s.io/v1alpha1/EvictionRequest";

/// Shortens the table.
const fn row(
    folder: &'static str,
    state: &'static str,
    kind: &'static str,
    deeds: &'static [&'static str],
    stock: &'static str,
) -> Reaction {
    Reaction {
        folder,
        state,
        kind,
        deeds,
        stock,
    }
}

/// All reactions.
#[rustfmt::skip]
pub static REACTIONS: &[Reaction] = &[
    // A status follows its spec.
    row("daemonset", "generation-behind", "apps/v1/DaemonSet", &["update apps/v1/DaemonSet/status"], "storeDaemonSetStatus"),
    row("deployment", "generation-behind", "apps/v1/Deployment", &["update apps/v1/Deployment/status"], "syncDeploymentStatus"),
    row("disruption", "generation-behind", "policy/v1/PodDisruptionBudget", &["update policy/v1/PodDisruptionBudget/status", "Normal NoPods", "Warning CalculateExpectedPodCountFailed"], "updatePdbStatus; trySync emits the events whenever a budget has no pods or its scale isn't found"),
    row("evictionrequest", "generation-behind", EVICTION, &["patch lifecycle.k8s.io/v1alpha1/Eviction/status"], "syncEviction: generationChanged"),
    row("evictionrequest", "generation-behind", EVICTION_REQUEST, &["patch lifecycle.k8s.io/v1alpha1/EvictionRequest/status"], "syncEvictionRequest: generationChanged"),
    row("replicaset", "generation-behind", "apps/v1/ReplicaSet", &["update apps/v1/ReplicaSet/status"], "updateReplicaSetStatus"),
    row("replicationcontroller", "generation-behind", "v1/ReplicationController", &["update v1/ReplicationController/status"], "updateReplicaSetStatus"),
    row("statefulset", "generation-behind", "apps/v1/StatefulSet", &["update apps/v1/StatefulSet/status"], "updateStatefulSetStatus"),
    row("validatingadmissionpolicy-status", "generation-behind", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", &["patch admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy/status"], "reconcile applies a status for each generation"),

    // A pod that is being deleted no longer counts.
    row("disruption", "last-step", POD, &["update policy/v1/PodDisruptionBudget/status", "Normal NoPods", "Warning CalculateExpectedPodCountFailed"], "countHealthyPods leaves it out; trySync once it is gone, and if its controller isn't found"),
    row("disruption", "foreign-finalizer", POD, &["update policy/v1/PodDisruptionBudget/status", "Normal NoPods", "Warning CalculateExpectedPodCountFailed"], "countHealthyPods leaves it out; trySync once it is gone, and if its controller isn't found"),
    row("disruption", "own-finalizer", POD, &["update policy/v1/PodDisruptionBudget/status"], "countHealthyPods leaves it out"),
    row("replicaset", "last-step", POD, &["create v1/Pod", "Normal SuccessfulCreate", "update apps/v1/ReplicaSet/status"], "FilterActivePods leaves it out"),
    row("replicaset", "foreign-finalizer", POD, &["create v1/Pod", "Normal SuccessfulCreate", "update apps/v1/ReplicaSet/status"], "FilterActivePods leaves it out"),
    row("replicationcontroller", "last-step", POD, &["create v1/Pod", "Normal SuccessfulCreate", "update v1/ReplicationController/status"], "FilterActivePods leaves it out"),
    row("replicationcontroller", "foreign-finalizer", POD, &["create v1/Pod", "Normal SuccessfulCreate", "update v1/ReplicationController/status"], "FilterActivePods leaves it out"),
    row("statefulset", "last-step", POD, &["update apps/v1/StatefulSet/status", "Normal SuccessfulCreate"], "updateReplicas; replaced once it is gone"),
    row("statefulset", "foreign-finalizer", POD, &["update apps/v1/StatefulSet/status", "Normal SuccessfulCreate"], "updateReplicas; replaced once it is gone"),
    row("job", "own-finalizer", POD, &["patch v1/Pod", "update batch/v1/Job/status"], "trackJobStatusAndRemoveFinalizers counts it as failed"),
    row("job", "foreign-finalizer", POD, &["create v1/Pod", "Normal SuccessfulCreate", "update batch/v1/Job/status"], "without the Job's finalizer it is replaced and not counted"),
    row("resourcequota", "last-step", POD, &["update v1/ResourceQuota/status"], "QuotaV1Pod: its grace period has passed"),
    // The pods of the worlds have no nodes.
    row("pod-garbage-collector", "last-step", POD, &["patch v1/Pod/status", "delete v1/Pod"], "gcUnscheduledTerminating"),
    row("pod-garbage-collector", "foreign-finalizer", POD, &["patch v1/Pod/status", "delete v1/Pod"], "gcUnscheduledTerminating"),
    row("pod-garbage-collector", "own-finalizer", POD, &["patch v1/Pod/status", "delete v1/Pod"], "gcUnscheduledTerminating"),
    row("resourceclaim", "last-step", POD, &["delete resource.k8s.io/v1/ResourceClaim"], "isPodDone: deleted before it was scheduled"),
    row("resourceclaim", "foreign-finalizer", POD, &["delete resource.k8s.io/v1/ResourceClaim"], "isPodDone: deleted before it was scheduled"),
    row("resourceclaim", "own-finalizer", POD, &["delete resource.k8s.io/v1/ResourceClaim"], "isPodDone: deleted before it was scheduled"),

    // Other deleted objects, which finalizers keep.
    row("endpointslice", "foreign-finalizer", "discovery.k8s.io/v1/EndpointSlice", &["create discovery.k8s.io/v1/EndpointSlice"], "dropEndpointSlicesPendingDeletion"),
    row("job", "foreign-finalizer", "batch/v1/Job", &["patch v1/Pod"], "trackJobStatusAndRemoveFinalizers frees the pods of a deleted Job"),
    row("deployment", "foreign-finalizer", "apps/v1/ReplicaSet", &["Normal ScalingReplicaSet"], "replaced once it is gone"),
    row("cronjob", "foreign-finalizer", "batch/v1/Job", &["Normal MissingJob"], "syncCronJob, once it is gone"),
    row("node-lifecycle", "foreign-finalizer", NODE, &["Normal RemovingNode"], "monitorNodeHealth, once it is gone"),
    row("ephemeral-volume", "foreign-finalizer", "v1/PersistentVolumeClaim", &["Warning FailedBinding", "fails"], "once it is gone, the claim of the next volume is in the way: VolumeIsForPod"),
    row("service-cidr", "foreign-finalizer", "networking.k8s.io/v1/ServiceCIDR", &["patch networking.k8s.io/v1/ServiceCIDR/status"], "sync: it is terminating, and has addresses"),
    row("service-cidr", "own-finalizer", "networking.k8s.io/v1/ServiceCIDR", &["patch networking.k8s.io/v1/ServiceCIDR/status"], "sync: it is terminating, and has addresses"),
    row("persistentvolume-protection", "own-finalizer", "v1/PersistentVolume", &["update v1/PersistentVolume"], "removeFinalizer"),
    row("persistentvolumeclaim-protection", "own-finalizer", "v1/PersistentVolumeClaim", &["update v1/PersistentVolumeClaim"], "removeFinalizer"),
    row("volumeattributesclass-protection", "own-finalizer", "storage.k8s.io/v1/VolumeAttributesClass", &["update storage.k8s.io/v1/VolumeAttributesClass"], "removeFinalizer"),
    row("resourceclaim", "own-finalizer", "resource.k8s.io/v1/ResourceClaim", &["update resource.k8s.io/v1/ResourceClaim", "update resource.k8s.io/v1/ResourceClaim/status"], "syncClaim deallocates it and removes the finalizer"),
    row("namespace", "namespace-terminating", "v1/Namespace", &["update v1/Namespace/status", "update v1/Namespace/finalize"], "Delete"),
    row("persistentvolume-binder", "foreign-finalizer", "storage.k8s.io/v1/StorageClass", &["Warning ProvisioningFailed"], "provisionClaimOperation, once it is gone"),
    row("persistentvolume-binder", "foreign-finalizer", "v1/PersistentVolume", &["Warning ClaimLost"], "syncBoundClaim, once it is gone"),
    row("persistentvolume-binder", "foreign-finalizer", POD, &["Normal WaitForFirstConsumer"], "syncUnboundClaim: no pod waits for the claim any more"),
    row("persistentvolume-attach-detach", "last-step", POD, &["patch v1/Node/status", "delete storage.k8s.io/v1/VolumeAttachment", "create storage.k8s.io/v1/VolumeAttachment"], "IsPodTerminated: no container runs, so that a pod at another node gets the volume"),
    row("persistentvolume-attach-detach", "foreign-finalizer", POD, &["patch v1/Node/status", "delete storage.k8s.io/v1/VolumeAttachment", "create storage.k8s.io/v1/VolumeAttachment"], "IsPodTerminated: no container runs, so that a pod at another node gets the volume"),
    row("persistentvolume-binder", "last-step", POD, &["Normal WaitForFirstConsumer"], "syncUnboundClaim: no pod waits for the claim any more"),
    row("selinux-warning", "foreign-finalizer", "storage.k8s.io/v1/CSIDriver", &["Normal SELinuxChangePolicyConflict", "Normal SELinuxLabelConflict"], "deleteCSIDriver: without it, the policies of its pods are Recursive, and the pods are compared again, one after the other"),
    row("evictionrequest", "foreign-finalizer", EVICTION_REQUEST, &["patch lifecycle.k8s.io/v1alpha1/Eviction/status", "patch lifecycle.k8s.io/v1alpha1/EvictionRequest/status"], "hasEvictionIntent: a deleted request wants no eviction, so that the Eviction is canceled, and its conditions are copied"),

    // An owner that is gone.
    row("deployment", "owner-gone", "apps/v1/ReplicaSet", &["create apps/v1/ReplicaSet", "Normal ScalingReplicaSet", "update apps/v1/Deployment/status"], "getNewReplicaSet"),
    row("evictionrequest", "owner-gone", EVICTION_REQUEST, &["patch lifecycle.k8s.io/v1alpha1/Eviction", "patch lifecycle.k8s.io/v1alpha1/Eviction/status"], "syncEvictionMetaRefresh, and computeEvictionStatus: the requester has withdrawn"),
    row("job", "owner-gone", "batch/v1/Job", &["patch v1/Pod"], "syncOrphanPod"),
    row("persistentvolume-attach-detach", "owner-gone", POD, &["patch v1/Node/status", "delete storage.k8s.io/v1/VolumeAttachment"], "podDelete: the pod was the owner"),
    row("endpointslice-mirroring", "owner-gone", "v1/Endpoints", &["delete discovery.k8s.io/v1/EndpointSlice"], "deleteEndpoints"),
    row("endpointslice-mirroring", "owner-gone", "v1/Service", &["delete discovery.k8s.io/v1/EndpointSlice"], "deleteEndpoints"),

    // Nodes: taints decide, except for the controller that sets them.
    row("node-lifecycle", "no-taint-yet", NODE, &["patch v1/Node"], "doNoScheduleTaintingPass, doNoExecuteTaintingPass"),
    row("node-lifecycle", "taint-still", NODE, &["patch v1/Node"], "markNodeAsReachable"),
    row("daemonset", "no-taint-yet", NODE, &["create v1/Pod", "Normal SuccessfulCreate", "update apps/v1/DaemonSet/status"], "NodeShouldRunDaemonPod: no taint is left"),
    row("daemonset", "taint-still", NODE, &["create v1/Pod", "Normal SuccessfulCreate", "update apps/v1/DaemonSet/status"], "AddOrUpdateDaemonPodTolerations: not-ready is tolerated"),
    row("taint-eviction", "taint-still", NODE, &["Normal TaintManagerEviction", "patch v1/Pod/status", "delete v1/Pod"], "processPodOnNode"),
];
