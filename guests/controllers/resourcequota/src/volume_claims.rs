//! The usage of a quota by a PersistentVolumeClaim, and the scope that the claim is in.
//!
//! Upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go: V1ResourceByStorageClass, MatchingResources,
//! Usage, getStorageUsage, pvcMatchesScopeFunc, getReferencedVolumeAttributesClassNames.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go: GetPersistentVolumeClaimClass.

use crate::amounts::{ResourceList, one};
use crate::views::{Requirement, VolumeClaim};

/// The scope of claims with a VolumeAttributesClass.
pub const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";
const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// In the name of a limit, stands between the name of a StorageClass and the limited resource.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether a limit with this name counts claims or their storage, of all StorageClasses or of one.
pub fn tracks(name: &str) -> bool {
    let of_class = |limited: &str| {
        name.strip_suffix(limited)
            .is_some_and(|class| class.ends_with(OF_CLASS))
    };
    [COUNT, CLAIMS, STORAGE].contains(&name) || of_class(CLAIMS) || of_class(STORAGE)
}

/// Returns the usage by a claim. During an expansion, its storage is the greater of the requested and the reserved
/// storage. Storage is counted in whole bytes.
pub fn usage(claim: &VolumeClaim) -> ResourceList {
    let mut used = ResourceList::from([(COUNT.into(), one()), (CLAIMS.into(), one())]);
    let class = storage_class(claim);
    if !class.is_empty() {
        used.insert(format!("{class}{OF_CLASS}{CLAIMS}"), one());
    }
    if let Some(requested) = claim.requested {
        let reserved = claim
            .allocated
            .filter(|reserved| *reserved > requested.whole());
        let storage = reserved.unwrap_or(requested).whole();
        used.insert(STORAGE.into(), storage);
        if !class.is_empty() {
            used.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage);
        }
    }
    used
}

/// The name of the claim's StorageClass. An annotation takes precedence over the field.
fn storage_class(claim: &VolumeClaim) -> &str {
    claim
        .meta
        .annotation(CLASS_ANNOTATION)
        .unwrap_or(&claim.storage_class)
}

/// Whether a claim is in a scope. A scope of other kinds has no claims.
pub fn is_in(claim: &VolumeClaim, scope: &Requirement) -> bool {
    scope.scope_name == ATTRIBUTES_CLASS && scope.selects(&attributes_classes(claim))
}

/// The VolumeAttributesClasses that a claim has, wants, or is being changed to.
fn attributes_classes(claim: &VolumeClaim) -> Vec<&str> {
    [
        &claim.attributes_class,
        &claim.current_attributes_class,
        &claim.target_attributes_class,
    ]
    .into_iter()
    .map(String::as_str)
    .filter(|class| !class.is_empty())
    .collect()
}
