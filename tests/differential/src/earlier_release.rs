//! What is not compared with stock of an earlier release:
//!
//! - The hashes of pod templates in names, labels and messages. They are made of all fields that the Go types of a release
//!   have: stock has other ones than Flyball, whose types are those of the current release.
//! - The order of the claims in a pod's status, which are a map by name. Before 1.37, stock wrote them in any order.

use std::collections::BTreeSet;

use anyhow::Result;
use flyball_controlplane::Release;
use serde_json::Value;

use crate::normalise::{Random, replace_random, sort};

/// The labels with a hash.
const LABELS: [&str; 3] = [
    "controller-revision-hash",
    "controller.kubernetes.io/hash",
    "pod-template-hash",
];

/// The beginning of the message with the name of a ReplicaSet that could not be created.
const REFUSED: &str = "Failed to create new replica set \"";

/// Hides it in normalised lists of objects and in the managers of their fields, if the chosen release is an earlier one.
///
/// # Errors
/// There is no control plane of the release that the environment chooses.
pub(crate) fn hide_differences(
    objects: &mut [Vec<Value>],
    managers: &mut [BTreeSet<String>],
) -> Result<()> {
    if !Release::chosen()?.is_current() {
        hide(objects, managers);
    }
    Ok(())
}

fn hide(objects: &mut [Vec<Value>], managers: &mut [BTreeSet<String>]) {
    let found: BTreeSet<String> = objects.iter().flatten().flat_map(hashes).collect();
    let hashes = Random::named(found.into_iter(), "HASH");
    for objects in objects {
        for object in &mut *objects {
            *object = replace_random(object, &hashes);
            let claims = object.pointer_mut("/status/resourceClaimStatuses");
            if let Some(claims) = claims.and_then(Value::as_array_mut) {
                claims.sort_by_cached_key(|claim| claim["name"].to_string());
            }
        }
        sort(objects);
    }
    for managers in managers {
        *managers = managers.iter().map(|entry| hashes.replace(entry)).collect();
    }
}

/// The hashes in an object's labels, and in the message about a ReplicaSet that could not be created. In the label of a
/// StatefulSet's pod and in the message, the hash is the end of a name.
fn hashes(object: &Value) -> impl Iterator<Item = String> {
    let labels = &object["metadata"]["labels"];
    let labelled = LABELS.iter().filter_map(|label| labels[*label].as_str());
    let conditions = object["status"]["conditions"].as_array();
    let refused = conditions.into_iter().flatten().filter_map(|condition| {
        let message = condition["message"].as_str()?;
        message.strip_prefix(REFUSED)?.split('"').next()
    });
    let names = labelled.chain(refused);
    names.filter_map(|name| name.rsplit('-').next().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_of_the_same_templates_are_not_compared() {
        let run = |hashes: [&str; 2], image: &str| {
            let sets = hashes.iter().zip(["app:1", image]).map(|(hash, image)| {
                json!({
                    "kind": "ReplicaSet",
                    "metadata": {"name": format!("web-{hash}"), "labels": {"pod-template-hash": hash}},
                    "spec": {"image": image},
                })
            });
            let pod = json!({"kind": "Pod", "metadata": {"labels": {"controller-revision-hash": format!("db-{}", hashes[0])}}});
            let message = format!("web-{} progresses", hashes[1]);
            let deployment = json!({"kind": "Deployment", "status": {"message": message}});
            let message = format!("Failed to create new replica set \"db-z{}\": no", hashes[0]);
            let refused =
                json!({"kind": "Deployment", "status": {"conditions": [{"message": message}]}});
            let mut objects = [sets.chain([pod, deployment, refused]).collect()];
            let mut managers = [hashes.map(|hash| format!("ReplicaSet/web-{hash} a")).into()];
            hide(&mut objects, &mut managers);
            (objects, managers)
        };
        let one = run(["abc", "xyz"], "app:2");
        assert_eq!(one, run(["xyz", "abc"], "app:2"));
        assert_ne!(one, run(["xyz", "abc"], "app:3"));
    }

    #[test]
    fn the_order_of_claims_is_not_compared() {
        let run = |names: [&str; 2]| {
            let claims = names.map(|name| json!({"name": name}));
            let pod = json!({"kind": "Pod", "status": {"resourceClaimStatuses": claims}});
            let mut objects = [vec![pod]];
            hide(&mut objects, &mut []);
            objects
        };
        assert_eq!(run(["gpu", "other"]), run(["other", "gpu"]));
        assert_ne!(run(["gpu", "other"]), run(["gpu", "third"]));
    }
}
