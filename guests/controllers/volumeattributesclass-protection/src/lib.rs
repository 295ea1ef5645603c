//! volumeattributesclass-protection-controller: keeps VolumeAttributesClasses while volumes or claims refer to them.
//!
//! Each class has a finalizer. When a class is being deleted, the finalizer is removed once no PersistentVolume and no
//! PersistentVolumeClaim refers to the class. As in kube-controller-manager, the caches alone decide: a claim that is
//! created at that moment may refer to a class that is deleted. Live lists would cost too much in large clusters
//! (kubernetes/kubernetes#109282).
//!
//! Upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go: NewVACProtectionController, processVAC,
//! addFinalizer, removeFinalizer, isBeingUsed, vacAddedUpdated, pvcDeleted, pvcUpdated, pvUpdated, pvDeleted,
//! getPVCReferencedVACNames, getPVReferencedVACNames.
//! Upstream: pkg/controller/util/protectionutil/utils.go: IsDeletionCandidate, NeedToAddFinalizer.

use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;
use serde::Deserialize;

/// The finalizer.
pub const FINALIZER: &str = "kubernetes.io/vac-protection";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/VolumeAttributesClass")]
struct Class {
    #[view(path = "metadata", fields("deletionTimestamp", "finalizers"))]
    meta: Meta,
}

/// A PersistentVolume. Its fields are the paths of the classes' names, and only indexes read them.
#[derive(Clone, Debug, Default, Deserialize)]
struct Volume {}

impl View for Volume {
    const KIND: &'static str = "v1/PersistentVolume";
    const FIELDS: &'static [&'static str] = &["spec.volumeAttributesClassName"];
}

/// A PersistentVolumeClaim. It refers to the desired class, to the current class of its volume, and to the class to
/// which its volume is being changed.
#[derive(Clone, Debug, Default, Deserialize)]
struct Claim {}

impl View for Claim {
    const KIND: &'static str = "v1/PersistentVolumeClaim";
    const FIELDS: &'static [&'static str] = &[
        "spec.volumeAttributesClassName",
        "status.currentVolumeAttributesClassName",
        "status.modifyVolumeStatus.targetVolumeAttributesClassName",
    ];
}

/// The controller. Keys are names of classes.
pub struct ClassProtection;

export!(ClassProtection);

impl Controller for ClassProtection {
    fn describe() -> Description {
        let description = describe(
            "volumeattributesclass-protection-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Class>()
                .when_at(&[
                    "metadata.uid",
                    "metadata.deletionTimestamp",
                    "metadata.finalizers",
                ])
                .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified])),
        )
        .queue("vacprotection")
        .permission(Class::KIND, ["get", "update"])
        .concurrency(1);
        with_references_of::<Claim>(with_references_of::<Volume>(description))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(Class { meta }) = host.get_by_key(&request.key)? else {
            return Ok(Outcome::Done);
        };
        if finalizer::is_missing(&meta, FINALIZER) {
            host.write(finalizer::add(Class::KIND, &meta, FINALIZER))?;
        } else if finalizer::is_held(&meta, FINALIZER) && !is_used(host, &meta.name)? {
            host.write(finalizer::remove(Class::KIND, &meta, FINALIZER))
                .found()?;
        }
        Ok(Outcome::Done)
    }
}

/// Declares a kind that refers to classes: an index of each path, which has the path as its name, and mappings to the
/// classes that an object stops referring to.
fn with_references_of<T: View>(description: Description) -> Description {
    let ends = [DeltaType::Modified, DeltaType::Deleted];
    let watch = T::FIELDS
        .iter()
        .fold(watch::<T>().when_at(T::FIELDS), |watch, path| {
            watch.enqueue(Mapping::named_in_cluster(path).on(ends))
        });
    T::FIELDS
        .iter()
        .fold(description.watch(watch), |description, path| {
            description.index(path, T::KIND, path)
        })
}

/// Whether a volume or a claim refers to the class.
fn is_used(host: &Host, class: &str) -> Result<bool, Error> {
    Ok(is_referred_to_by::<Volume>(host, class)? || is_referred_to_by::<Claim>(host, class)?)
}

fn is_referred_to_by<T: View>(host: &Host, class: &str) -> Result<bool, Error> {
    for path in T::FIELDS {
        if host.list::<T>().index(path, class).count()? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
