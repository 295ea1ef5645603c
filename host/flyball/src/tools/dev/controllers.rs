//! The built-in controllers of a host of `flyball dev`.

use std::collections::BTreeSet;

use crate::builtins::BUILTINS;

/// The controllers that authors rely on: what is owned or in a deleted namespace is deleted, namespaces have their
/// service account, and workloads create pods. There are no nodes, so no pod runs.
const OF_AUTHORS: [&str; 14] = [
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",
    "resourcequota-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "endpointslice-controller",
    "disruption-controller",
];

/// The value of the host's `--controllers`: the one that is asked for, or else the controllers of authors on a control
/// plane of `flyball dev`, and none on another cluster, which has its own.
pub(super) fn chosen(asked: Option<&str>, is_local: bool) -> String {
    let available = |name: &&str| BUILTINS.iter().any(|builtin| builtin.name == *name);
    match asked {
        Some(asked) => asked.to_owned(),
        None if is_local => {
            let names: Vec<&str> = OF_AUTHORS.into_iter().filter(available).collect();
            names.join(",")
        }
        None => String::new(),
    }
}

/// The names of the plugins whose lines in the log are not shown: the built-in controllers, if some run.
pub(super) fn hidden(chosen: &str) -> BTreeSet<&'static str> {
    let names = BUILTINS.iter().map(|builtin| builtin.name);
    names.filter(|_| !chosen.is_empty()).collect()
}

/// A sentence about the controllers of the control plane.
pub(super) fn sentence(chosen: &str) -> String {
    match chosen {
        "" => "no built-in controller runs: --controllers enables some".to_owned(),
        names => format!("built-in controllers: {}", names.replace(',', ", ")),
    }
}

#[cfg(test)]
mod tests {
    use flyball_controllers::built_in;

    use super::*;

    #[test]
    fn the_controllers_of_authors_exist() {
        for name in OF_AUTHORS {
            let mut known = built_in();
            assert!(known.any(|(one, _)| one.name == name), "{name}");
        }
    }

    #[test]
    fn a_cluster_with_its_own_controllers_gets_none_unless_asked() {
        assert_eq!(chosen(None, false), "");
        assert_eq!(chosen(Some("*"), false), "*");
        assert_eq!(chosen(Some(""), true), "");
        assert!(hidden("").is_empty());
    }
}
