//! CSI drivers without storage: volumes are provisioned, attached and resized as annotations and parameters script it.
//!
//! The plugin has one queue for each kind: VolumeAttachments ([`attacher`]), PersistentVolumes, which it deletes, and
//! PersistentVolumeClaims, which it provisions ([`provisioner`]) and resizes ([`resizer`]). Each operation first reads its
//! [`script`], and then asks for its [`progress`]: it waits, fails or is done. `README.md` lists the configuration and the
//! scripts.

use std::time::Duration;

use flyball_sdk::describe::Queue;
use flyball_sdk::prelude::*;

pub mod attacher;
pub mod objects;
pub mod progress;
pub mod provisioner;
pub mod resizer;
pub mod script;
pub mod settings;

use objects::{Attachment, Claim, Class, Volume};
use progress::Step;
use settings::Settings;

/// The queue of VolumeAttachments.
pub const ATTACHMENTS: &str = "attachments";
/// The queue of PersistentVolumeClaims.
pub const CLAIMS: &str = "claims";
/// The queue of PersistentVolumes.
pub const VOLUMES: &str = "volumes";
/// The manager of the fields that the plugin writes.
pub const FIELD_MANAGER: &str = "fake-csi";
/// The most time between a failed attempt and the next one.
const RETRY: Duration = Duration::from_secs(1);

pub struct FakeCsi;

export!(FakeCsi);

impl Controller for FakeCsi {
    fn describe() -> Description {
        let description = describe("fake-csi", env!("CARGO_PKG_VERSION"))
            .watch(attachments())
            .watch(claims())
            .watch(volumes())
            .watch(watch::<Class>().enqueue(Mapping::all_of(Claim::KIND).queue(CLAIMS)))
            .queue_with(retrying(ATTACHMENTS))
            .queue_with(retrying(CLAIMS))
            .queue_with(retrying(VOLUMES))
            .permission(Attachment::KIND, ["patch"])
            .permission_on(Attachment::KIND, "status", ["patch"])
            .permission(Claim::KIND, ["patch"])
            .permission_on(Claim::KIND, "status", ["patch"])
            .permission(Volume::KIND, ["create", "delete", "patch"])
            .concurrency(16);
        settings::declare(description)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host);
        let name = &request.key.name;
        let step = match request.queue.as_str() {
            ATTACHMENTS => attacher::reconcile(host, &settings, name)?,
            VOLUMES => provisioner::delete(host, &settings, name)?,
            _ => match host.get_by_key::<Claim>(&request.key)? {
                Some(claim) if claim.volume_name.is_empty() => {
                    provisioner::provision(host, &settings, &claim)?
                }
                Some(claim) => resizer::reconcile(host, &settings, &claim)?,
                None => Step::Done,
            },
        };
        match step {
            Step::Done => Ok(Outcome::Done),
            Step::Wait(time) => Ok(Outcome::RequeueAfter(time)),
            Step::Fail(error) => Err(Error::failed(error)),
        }
    }
}

/// A queue whose failed keys are retried soon, however often they have failed.
fn retrying(name: &str) -> Queue {
    Queue {
        max_delay_ms: RETRY.as_millis() as u32,
        qps: 0.0,
        ..flyball_sdk::describe::queue(name)
    }
}

/// VolumeAttachments. Changes of their status are ignored, because this controller writes it.
fn attachments() -> Watch {
    watch::<Attachment>()
        .when_at(&["metadata.deletionTimestamp"])
        .enqueue(
            Mapping::itself()
                .queue(ATTACHMENTS)
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

/// Claims that may have to be provisioned or resized.
fn claims() -> Watch {
    watch::<Claim>()
        .when_at(&["metadata.annotations", "spec", "status.capacity"])
        .enqueue(
            Mapping::itself()
                .queue(CLAIMS)
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

/// Volumes that may have to be deleted.
fn volumes() -> Watch {
    watch::<Volume>()
        .when_at(&[
            "metadata.annotations",
            "metadata.deletionTimestamp",
            "spec.persistentVolumeReclaimPolicy",
            "status.phase",
        ])
        .enqueue(
            Mapping::itself()
                .queue(VOLUMES)
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

#[cfg(test)]
mod tests;
