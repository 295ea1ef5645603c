//! Deletes pods that need a patch first.
//!
//! Upstream: pkg/controller/podgc/gc_controller.go: markFailedAndDeletePodWithCondition.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

/// Patches pods and deletes them, all side by side. `patch` returns `None` for a pod that needs no patch. A pod that
/// can't be patched is not deleted. Returns each pod with its result, first the pods that could not be patched.
pub fn patch_and_delete<T>(
    host: &Host,
    pods: impl IntoIterator<Item = T>,
    patch: impl Fn(&T) -> Option<Write>,
    delete: impl Fn(&T) -> Write,
) -> Vec<(T, Result<Answer, ApiError>)> {
    // The pods by position, so that they are deleted in their order.
    let mut ready = BTreeMap::new();
    let mut patches = host.tagged_batch();
    for (position, pod) in pods.into_iter().enumerate() {
        match patch(&pod) {
            Some(patch) => patches = patches.with((position, pod), patch),
            None => drop(ready.insert(position, pod)),
        }
    }
    let mut results = Vec::new();
    for ((position, pod), patched) in patches.run() {
        match patched {
            Ok(_) => drop(ready.insert(position, pod)),
            Err(error) => results.push((pod, Err(error))),
        }
    }
    let deletions = ready.into_values().map(|pod| {
        let deletion = delete(&pod);
        (pod, deletion)
    });
    results.extend(host.tagged_batch().extend(deletions).run());
    results
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::{Cluster, refusal};

    use super::*;

    #[test]
    fn a_pod_that_cannot_be_patched_is_not_deleted() {
        const POD: &str = "v1/Pod";
        let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name}});
        let cluster = Cluster::with(["patched", "refused", "ready"].map(pod));
        cluster.fail_nth("patch", POD, 2, refusal(500, "InternalError"));
        let change = json!({"metadata": {"labels": {"a": "b"}}});
        let patch = |name: &&str| Write::patch(POD, "a", name, PatchType::Merge, &change);
        let results = patch_and_delete(
            &cluster.host(),
            ["patched", "refused", "ready"],
            |name| (*name != "ready").then(|| patch(name)),
            |name| Write::delete(POD, "a", name).grace_seconds(0),
        );
        let results: Vec<_> = results
            .into_iter()
            .map(|(name, result)| (name, result.is_ok()))
            .collect();
        assert_eq!(
            results,
            [("refused", false), ("patched", true), ("ready", true)]
        );
        let exist =
            ["ready", "patched", "refused"].map(|name| cluster.object(POD, "a", name).is_some());
        assert_eq!(exist, [false, false, true]);
    }
}
