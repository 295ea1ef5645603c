//! Reports that a volume can't be attached because another node has it.
//!
//! Upstream: pkg/controller/volume/attachdetach/reconciler/reconciler.go: reportMultiAttachError.
//! Upstream: pkg/controller/volume/attachdetach/cache/desired_state_of_world.go: GetVolumePodsOnNodes.

use flyball_sdk::prelude::*;

use crate::decide::{Decider, Step};
use crate::events;
use crate::observe::Observed;

/// Tells the pods that need a volume which pods at other nodes have it. Returns false, and tells them nothing, if the
/// other nodes are about to detach it.
///
/// # Errors
/// A read failed, or the queue is full.
pub fn report(
    decider: &Decider,
    observed: &Observed,
    volume: &str,
    holders: &[String],
) -> Result<bool, Error> {
    let Some(wanted) = observed.wanted(volume) else {
        return Ok(false);
    };
    let (mut users, mut is_held) = (Vec::new(), false);
    for holder in holders {
        let other = Observed::read(decider.host, decider.disks, holder)?;
        match decider.decide(&other, volume)? {
            Step::Rest | Step::AwaitUnmount => is_held = true,
            _ => decider.host.queue().add("", &Key::new("", holder))?,
        }
        let using = other.desired.volumes.get(volume);
        users.extend(using.into_iter().flat_map(|using| using.pods.clone()));
    }
    if !is_held {
        return Ok(false);
    }
    let since_1_37 = decider.host.release_at_least(37);
    for pod in &wanted.pods {
        let disk = &wanted.disk.name;
        let problem = match since_1_37 {
            true => "Waiting for detach",
            false => "Multi-Attach error",
        };
        let message = format!(
            "{problem} for volume \"{disk}\" {}",
            reason(&users, &pod.namespace, since_1_37)
        );
        events::warn(decider.host, pod, &message);
    }
    Ok(true)
}

/// The reason for the pods of a namespace. They learn the names of pods of the same namespace only.
fn reason(users: &[Meta], namespace: &str, since_1_37: bool) -> String {
    let (own, foreign): (Vec<&Meta>, Vec<&Meta>) =
        users.iter().partition(|pod| pod.namespace == namespace);
    let mut names: Vec<&str> = own.iter().map(|pod| &*pod.name).collect();
    names.sort_unstable();
    let names = names.join(", ");
    match (own.len(), foreign.len()) {
        (0, 0) if since_1_37 => {
            "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
                .into()
        }
        (0, 0) => {
            "Volume is already exclusively attached to one node and can't be attached to another"
                .into()
        }
        (0, count) => {
            format!("Volume is already used by {count} pod(s) in different namespaces")
        }
        (_, 0) => format!("Volume is already used by pod(s) {names}"),
        (_, count) => format!(
            "Volume is already used by pod(s) {names} and {count} pod(s) in different namespaces"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(keys: &[&str]) -> Vec<Meta> {
        let pod = |key: &&str| {
            let Key { namespace, name } = Key::parse(key);
            Meta {
                namespace,
                name,
                ..Meta::default()
            }
        };
        keys.iter().map(pod).collect()
    }

    #[test]
    fn pods_of_other_namespaces_are_counted_and_never_named() {
        for (users, expected) in [
            (
                &[][..],
                "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node",
            ),
            (
                &["team/b", "team/a"],
                "Volume is already used by pod(s) a, b",
            ),
            (
                &["other/x", "team/a", "third/y"],
                "Volume is already used by pod(s) a and 2 pod(s) in different namespaces",
            ),
            (
                &["other/x"],
                "Volume is already used by 1 pod(s) in different namespaces",
            ),
        ] {
            assert_eq!(reason(&pods(users), "team", true), expected);
        }
        assert_eq!(
            reason(&[], "team", false),
            "Volume is already exclusively attached to one node and can't be attached to another"
        );
    }
}
