//! The controller's description: its watches, indexes, queues and permissions.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: NewController.

use flyball_pods::watch_until_over;
use flyball_sdk::prelude::*;

use crate::views::{BY_TARGET, Eviction, EvictionRequest, Pod};
use crate::{EVICTIONS, METADATA, NAME, REQUESTS};

/// The path of a target's UID.
const TARGET: &str = "spec.target.pod.uid";

pub(crate) fn description() -> Description {
    let changed = [DeltaType::Added, DeltaType::Modified];
    let evictions = watch::<Eviction>()
        .enqueue(
            Mapping::itself()
                .on(changed)
                .unless_having("status.conditions[type=TargetEvicted].status", "True")
                .unless_having("status.conditions[type=Failed].status", "True"),
        )
        .enqueue(Mapping::route());
    let requests = watch::<EvictionRequest>()
        .enqueue(Mapping::itself().on(changed).queue(REQUESTS))
        .enqueue(Mapping::route());
    describe(NAME, env!("CARGO_PKG_VERSION"))
        .watch(evictions)
        .watch(requests)
        .watch(watch_until_over::<Pod>(Eviction::KIND))
        .index(BY_TARGET, Eviction::KIND, TARGET)
        .index(BY_TARGET, EvictionRequest::KIND, TARGET)
        .queue(EVICTIONS)
        .queue(REQUESTS)
        .queue(METADATA)
        .permission(Eviction::KIND, ["create", "patch"])
        .permission_on(Eviction::KIND, "status", ["patch"])
        .permission_on(EvictionRequest::KIND, "status", ["patch"])
        .memo_schema(1)
        .concurrency(5)
}
