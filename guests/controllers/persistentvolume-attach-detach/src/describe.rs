//! The controller's description: its watches, indexes, permissions and metrics.
//!
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: NewAttachDetachController.

use std::time::Duration;

use flyball_sdk::describe::Ticker;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::mock;

use crate::decide::{ATTACHED, BY_VOLUME};
use crate::desired::BY_NODE;
use crate::key::{Item, Look};
use crate::metrics;
use crate::observe::ATTACHED_TO;
use crate::settings::{DRIVERS, KEYS, NODES, VERIFICATION};
use crate::views::{Attachment, Claim, Driver, Node, PersistentVolume, Pod};
use crate::wake::{BY_CLAIM, CLAIMS};

/// The queue of nodes.
pub const QUEUE: &str = "attach_detach_nodes";

/// A pod with a volume that a plugin may attach has at least one of these fields.
const VOLUMES: [&str; 13] = [
    "spec.volumes[*].persistentVolumeClaim.claimName",
    // The API server defaults it.
    "spec.volumes[*].ephemeral.volumeClaimTemplate.spec.volumeMode",
    "spec.volumes[*].csi.driver",
    "spec.volumes[*].fc.targetWWNs[*]",
    "spec.volumes[*].fc.wwids[*]",
    "spec.volumes[*].iscsi.iqn",
    "spec.volumes[*].awsElasticBlockStore.volumeID",
    "spec.volumes[*].azureDisk.diskURI",
    "spec.volumes[*].azureFile.shareName",
    "spec.volumes[*].cinder.volumeID",
    "spec.volumes[*].gcePersistentDisk.pdName",
    "spec.volumes[*].portworxVolume.volumeID",
    "spec.volumes[*].vsphereVolume.volumePath",
];

/// The description. A mock of the plugins attaches the volumes of all pods.
pub fn description(has_mock: bool) -> Description {
    let description = describe(
        "persistentvolume-attach-detach-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(pods(has_mock))
    .watch(claims())
    .watch(volumes())
    .watch(nodes())
    .watch(attachments())
    .watch(watch::<Driver>())
    .index(BY_NODE, Pod::KIND, "spec.nodeName")
    .index(BY_CLAIM, Pod::KIND, VOLUMES[0])
    .index(ATTACHED, Node::KIND, "status.volumesAttached[*].name")
    .index(ATTACHED_TO, Attachment::KIND, "spec.nodeName")
    .index(
        BY_VOLUME,
        Attachment::KIND,
        "spec.source.persistentVolumeName",
    )
    .queue(QUEUE)
    .queue(CLAIMS)
    .permission(Node::KIND, ["get"])
    .permission_on(Node::KIND, "status", ["patch"])
    .permission(Attachment::KIND, ["create", "delete", "get"])
    .event_source("attachdetach-controller")
    .emulated_version()
    .memo_schema(1)
    // One call at a time: two nodes that want a volume must not be given it at once.
    .concurrency(1);
    let description = metrics::declare(mock::declare(tickers(description)));
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

fn tickers(description: Description) -> Description {
    let every = |look: Look, period: Duration, config: &str| Ticker {
        key: Item::All(look).key().to_string(),
        queue: QUEUE.into(),
        period_ms: period.as_millis() as u32,
        config: config.into(),
    };
    let minute = Duration::from_secs(60);
    description
        .ticker_with(every(Look::Verification, minute, VERIFICATION))
        .ticker_with(every(Look::Drivers, minute, DRIVERS))
        .ticker_with(every(Look::Nodes, 3 * minute, NODES))
}

fn pods(has_mock: bool) -> Watch {
    let node = Mapping::named_in_cluster("spec.nodeName");
    let node = match has_mock {
        true => node,
        false => node.having_any(&VOLUMES),
    };
    watch::<Pod>()
        .when_at(&[
            "metadata.uid",
            "metadata.deletionTimestamp",
            "spec.nodeName",
            "status.phase",
            "status.initContainerStatuses[*].state.terminated",
            "status.initContainerStatuses[*].state.waiting",
            "status.containerStatuses[*].state.terminated",
            "status.containerStatuses[*].state.waiting",
            "status.ephemeralContainerStatuses[*].state.terminated",
            "status.ephemeralContainerStatuses[*].state.waiting",
        ])
        .enqueue(node)
}

fn claims() -> Watch {
    watch::<Claim>()
        .when_at(&["metadata.uid", "spec.volumeName", "status.phase"])
        .enqueue(Mapping::route().on([DeltaType::Added, DeltaType::Modified]))
}

/// The volumes. Their sources never change.
fn volumes() -> Watch {
    watch::<PersistentVolume>()
        .when_at(&["metadata.uid", "spec.claimRef.uid"])
        .enqueue(Mapping::route().on([DeltaType::Added, DeltaType::Modified]))
}

/// The nodes. Only this controller writes the list of attached volumes.
fn nodes() -> Watch {
    watch::<Node>()
        .when_at(&[
            "metadata.uid",
            "metadata.annotations['volumes.kubernetes.io/controller-managed-attach-detach']",
            "spec.taints[*].key",
            "status.conditions[type=Ready].status",
            "status.volumesInUse",
        ])
        .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
        .enqueue(Mapping::route().on([DeltaType::Deleted]))
}

fn attachments() -> Watch {
    watch::<Attachment>()
        .when_at(&[
            "metadata.uid",
            "metadata.deletionTimestamp",
            "status.attached",
            "status.attachError.message",
            "status.detachError.message",
        ])
        .enqueue(Mapping::named_in_cluster("spec.nodeName"))
}
