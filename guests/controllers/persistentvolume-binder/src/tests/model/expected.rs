//! A slow and obvious model of the end: the objects when nothing changes any more.

use flyball_sdk::prelude::*;

use super::super::world::{CLASS, NODE, PV, PVC, text};
use super::users::{BROKEN, DELAYED, EXISTING_NODE, provisioned_name};
use super::world::World;
use crate::names::IS_DEFAULT;

/// Returns the objects that are not as they must be.
pub(super) fn faults(world: &World) -> Vec<String> {
    let (claims, volumes) = (world.server.objects(PVC), world.server.objects(PV));
    let of_claims = claims
        .iter()
        .flat_map(|claim| claim_faults(world, claim, &volumes));
    let of_volumes = volumes
        .iter()
        .flat_map(|volume| volume_faults(volume, &claims));
    of_claims.chain(of_volumes).collect()
}

/// A claim is bound in both directions, waits for good reason, or has lost its volume.
fn claim_faults(world: &World, claim: &Value, volumes: &[Value]) -> Option<String> {
    let named = &claim["spec"]["volumeName"];
    let own = volumes
        .iter()
        .find(|volume| volume["metadata"]["name"] == *named);
    let is_of = |volume: &Value| volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"];
    let was_bound = !claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"].is_null();
    let has_capacity = |volume: &Value| {
        claim["status"]["capacity"] == volume["spec"]["capacity"]
            || !world.watchdog.has_first(claim, volume)
    };
    let is_ok = match claim["status"]["phase"].as_str() {
        Some("Bound") => {
            was_bound && own.is_some_and(|volume| is_of(volume) && has_capacity(volume))
        }
        Some("Pending") if !was_bound => match own {
            None if named.is_null() => {
                let may_get = |volume| may_have(claim, volume) && !is_delayed(world, claim, volume);
                let is_blocked = volumes.iter().any(|volume| is_named_for(volume, claim));
                (is_blocked || !is_provisioned(world, claim)) && !volumes.iter().any(may_get)
            }
            Some(volume) => !may_have(claim, volume),
            None => true,
        },
        // Another claim has its volume, or another claim of the same name may have it.
        Some("Lost") => {
            let is_taken = |volume: &Value| !volume["spec"]["claimRef"].is_null();
            was_bound && own.is_none_or(|volume| is_taken(volume) && !is_of(volume))
        }
        _ => false,
    };
    (!is_ok).then(|| format!("{claim}"))
}

/// A volume is free, bound in both directions, or retained after its claim.
fn volume_faults(volume: &Value, claims: &[Value]) -> Option<String> {
    let phase = text(&volume["status"]["phase"]);
    let uid = &volume["spec"]["claimRef"]["uid"];
    let claim = claims.iter().find(|claim| claim["metadata"]["uid"] == *uid);
    let is_ok = match claim {
        _ if uid.is_null() => phase == "Available",
        Some(claim) if is_deleted_too_early(volume, claim) => true,
        Some(claim) => {
            phase == "Bound" && claim["spec"]["volumeName"] == volume["metadata"]["name"]
        }
        // An external provisioner neither recycles nor knows volumes that it did not create.
        None => phase == "Released" && volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain",
    };
    (!is_ok).then(|| format!("{volume}"))
}

/// Whether a volume was provisioned for a claim. If a user has deleted it or given it away before they were bound, the claim
/// gets neither it nor another one of the same name: kube-controller-manager, too, waits for the user then.
fn is_named_for(volume: &Value, claim: &Value) -> bool {
    text(&volume["metadata"]["name"]) == provisioned_name(claim)
}

/// Whether a user has deleted the volume that was provisioned for a claim before they were bound.
fn is_deleted_too_early(volume: &Value, claim: &Value) -> bool {
    claim["spec"]["volumeName"].is_null() && !volume["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a claim can have a volume that nobody has.
fn may_have(claim: &Value, volume: &Value) -> bool {
    let size = |value: &Value| {
        value["storage"]
            .as_str()
            .unwrap()
            .parse::<Quantity>()
            .unwrap()
    };
    let is_free = volume["spec"]["claimRef"]["uid"].is_null()
        && (volume["spec"]["claimRef"].is_null() || is_reserved(claim, volume));
    let class = |object: &Value| text(&object["spec"]["storageClassName"]);
    is_free
        && (volume["metadata"]["deletionTimestamp"].is_null() || is_named(claim, volume))
        && (size(&volume["spec"]["capacity"]) >= size(&claim["spec"]["resources"]["requests"])
            || is_named(claim, volume))
        && (is_reserved(claim, volume) || class(claim) == class(volume))
}

/// Whether a volume is reserved for a claim.
fn is_reserved(claim: &Value, volume: &Value) -> bool {
    volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
}

/// Whether a claim and a volume name each other. Nothing else matters then.
fn is_named(claim: &Value, volume: &Value) -> bool {
    is_reserved(claim, volume) && claim["spec"]["volumeName"] == volume["metadata"]["name"]
}

/// Whether a claim may not have a volume before the scheduler has chosen it.
fn is_delayed(world: &World, claim: &Value, volume: &Value) -> bool {
    !is_reserved(claim, volume)
        && claim["spec"]["storageClassName"] == DELAYED
        && class_of(world, claim).is_some()
}

/// Whether a volume has to be provisioned for a claim, so that it may not wait.
fn is_provisioned(world: &World, claim: &Value) -> bool {
    if claim["spec"]["storageClassName"].is_null() {
        return world.server.objects(CLASS).iter().any(is_default);
    }
    let node = &claim["metadata"]["annotations"][NODE];
    class_of(world, claim).is_some_and(|class| match text(&class["metadata"]["name"]).as_str() {
        DELAYED => *node == EXISTING_NODE,
        BROKEN => false,
        _ => true,
    })
}

fn is_default(class: &Value) -> bool {
    class["metadata"]["annotations"][IS_DEFAULT] == "true"
}

fn class_of(world: &World, claim: &Value) -> Option<Value> {
    let name = text(&claim["spec"]["storageClassName"]);
    world.server.object(CLASS, "", &name)
}
