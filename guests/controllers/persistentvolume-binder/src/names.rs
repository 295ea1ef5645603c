//! The annotations and finalizers by which the controller, the scheduler and external provisioners speak to each other.
//! The presence of an annotation counts, unless its value is a name.
//!
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go.

/// On a claim: it was bound once, so that its volume holds data.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or a volume: the controller chose the other side. Without it, the user did.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim or a volume: the CSI driver that replaces its in-tree provisioner.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a volume: the provisioner that created it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: the node that the scheduler chose for its first pod.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim: the provisioner that must create a volume for it.
pub(crate) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The former name of [`PROVISIONER`], which is still written.
pub(crate) const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim or a volume: its class. It precedes the field.
pub(crate) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a volume that was expanded: the capacity that its file system still has.
pub(crate) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// On a StorageClass: it is a default class if the value is `true`.
pub(crate) const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The former name of [`IS_DEFAULT`].
pub(crate) const BETA_IS_DEFAULT: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// The value of annotations whose presence counts.
pub(crate) const YES: &str = "yes";

/// Keeps a volume until this controller has deleted its storage.
pub(crate) const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// Keeps a volume until an external provisioner has deleted its storage.
pub(crate) const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
