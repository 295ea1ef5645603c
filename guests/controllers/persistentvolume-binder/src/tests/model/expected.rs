//! A slow and obvious model of the end: the objects when nothing changes any more.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::super::world::{PV, PVC, text};

/// Returns the objects that are not as they must be.
pub(super) fn faults(server: &Cluster) -> Vec<String> {
    let (claims, volumes) = (server.objects(PVC), server.objects(PV));
    let of_claims = claims
        .iter()
        .flat_map(|claim| claim_faults(claim, &volumes));
    let of_volumes = volumes
        .iter()
        .flat_map(|volume| volume_faults(volume, &claims));
    of_claims.chain(of_volumes).collect()
}

/// A claim is bound in both directions, or waits for good reason.
fn claim_faults(claim: &Value, volumes: &[Value]) -> Option<String> {
    let named = &claim["spec"]["volumeName"];
    let own = volumes
        .iter()
        .find(|volume| volume["metadata"]["name"] == *named);
    let is_ok = match claim["status"]["phase"].as_str() {
        Some("Bound") => own.is_some_and(|volume| {
            volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
                && claim["status"]["capacity"] == volume["spec"]["capacity"]
                && !claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"].is_null()
        }),
        Some("Pending") => match own {
            _ if named.is_null() => {
                !is_provisioned(claim) && !volumes.iter().any(|volume| may_have(claim, volume))
            }
            Some(volume) => !may_have(claim, volume),
            None => true,
        },
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
        Some(claim) => {
            phase == "Bound" && claim["spec"]["volumeName"] == volume["metadata"]["name"]
        }
        None => phase == "Released" && volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain",
    };
    (!is_ok).then(|| format!("{volume}"))
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
    let reference = &volume["spec"]["claimRef"];
    let is_reserved = reference["name"] == claim["metadata"]["name"];
    let is_free = reference["uid"].is_null() && (reference.is_null() || is_reserved);
    let class = |object: &Value| text(&object["spec"]["storageClassName"]);
    // A claim that names a volume without a reservation must have its class.
    let ignores_class = is_reserved;
    is_free
        && size(&volume["spec"]["capacity"]) >= size(&claim["spec"]["resources"]["requests"])
        && (ignores_class || class(claim) == class(volume))
}

fn is_provisioned(claim: &Value) -> bool {
    !text(&claim["spec"]["storageClassName"]).is_empty()
}
