//! Leader migration: the controllers that run under a second lease, for which another controller manager competes too.
//!
//! It is read from a LeaderMigrationConfiguration, as kube-controller-manager reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const GROUP: &str = "controllermanager.config.k8s.io";
/// The controller that never migrates: kube-controller-manager starts it before all others.
const TOKENS: &str = "serviceaccount-token-controller";

/// The component that this process stands for.
const COMPONENT: &str = "kube-controller-manager";
/// Stands for all components.
const ANY: &str = "*";
/// The kind of the second lease.
const LOCK: &str = "leases";
/// The controllers of the default configuration, which left kube-controller-manager.
const DEFAULT: [&str; 3] = [
    "route-controller",
    "service-controller",
    "cloud-node-lifecycle-controller",
];

/// The owners of the controllers that migrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderMigration {
    /// The name of the second lease.
    pub(crate) lease: String,
    /// The controllers, as they are configured; none if the configuration does not name any.
    leaders: Option<Vec<Leader>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Option<Vec<Leader>>,
}

/// A controller, and the component that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Leader {
    #[serde(default)]
    name: String,
    #[serde(default)]
    component: String,
}

impl Default for LeaderMigration {
    fn default() -> Self {
        Self {
            lease: "cloud-provider-extraction-migration".to_owned(),
            leaders: Some(DEFAULT.map(Leader::of_any).into()),
        }
    }
}

impl LeaderMigration {
    /// Reads a configuration in YAML or JSON.
    ///
    /// # Errors
    /// Fails if it is not a valid LeaderMigrationConfiguration.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let read: Configuration =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let version = read.api_version.strip_prefix(GROUP);
        let version = version.and_then(|version| version.strip_prefix('/'));
        let is_known = matches!(version, Some("v1" | "v1beta1" | "v1alpha1"));
        if !is_known || read.kind != "LeaderMigrationConfiguration" {
            return Err(format!(
                "it is {}, {}, and not {GROUP}/v1, LeaderMigrationConfiguration",
                read.api_version, read.kind
            ));
        }
        // v1 has no such field; its lock is a Lease.
        match (version, read.resource_lock.as_deref()) {
            (Some("v1"), None) | (Some("v1beta1" | "v1alpha1"), Some(LOCK)) => {}
            (Some("v1"), Some(_)) => return Err("v1 has no resourceLock".to_owned()),
            _ => return Err("resourceLock must be leases".to_owned()),
        }
        if read.leader_name.is_empty() {
            return Err("leaderName is missing".to_owned());
        }
        let leaders = read.controller_leaders;
        let incomplete = |leader: &Leader| leader.name.is_empty() || leader.component.is_empty();
        if let Some(at) = leaders.iter().flatten().position(incomplete) {
            return Err(format!(
                "controllerLeaders[{at}] lacks a name or a component"
            ));
        }
        Ok(Self {
            lease: read.leader_name,
            leaders,
        })
    }

    /// The configuration as `/configz` shows it.
    pub(crate) fn shown(&self) -> Value {
        json!({"leaderName": self.lease, "resourceLock": LOCK, "controllerLeaders": self.leaders})
    }

    /// The controllers that run under the second lease.
    pub(crate) fn migrated(&self) -> impl Iterator<Item = &str> {
        self.by_owner(true)
    }

    /// The controllers that another controller manager runs.
    pub(crate) fn of_others(&self) -> impl Iterator<Item = &str> {
        self.by_owner(false)
    }

    /// The controller of tokens always runs under the first lease, because kube-controller-manager's other controllers
    /// may need its tokens.
    fn by_owner(&self, ours: bool) -> impl Iterator<Item = &str> {
        // If a controller has several entries, the last one counts.
        let named = self.leaders.iter().flatten();
        let owners: BTreeMap<&str, bool> = named
            .map(|leader| (&*leader.name, leader.is_ours()))
            .collect();
        let of_owner = owners
            .into_iter()
            .filter(move |(_, is_ours)| *is_ours == ours);
        let names = of_owner.map(|(name, _)| name);
        names.filter(|name| *name != TOKENS)
    }
}

impl Leader {
    /// A controller that any component may run.
    fn of_any(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            component: ANY.to_owned(),
        }
    }

    /// Whether this process runs the controller.
    fn is_ours(&self) -> bool {
        matches!(&*self.component, COMPONENT | ANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";

    #[test]
    fn a_controller_belongs_to_its_component_or_to_all() {
        let text = format!(
            "{HEAD}leaderName: shared\ncontrollerLeaders:\n\
             - {{name: a-controller, component: kube-controller-manager}}\n\
             - {{name: b-controller, component: cloud-controller-manager}}\n\
             - {{name: c-controller, component: '*'}}\n\
             - {{name: {TOKENS}, component: '*'}}\n"
        );
        let read = LeaderMigration::parse(&text).unwrap();
        assert_eq!(read.lease, "shared");
        assert_eq!(
            read.migrated().collect::<Vec<_>>(),
            ["a-controller", "c-controller"]
        );
        assert_eq!(read.of_others().collect::<Vec<_>>(), ["b-controller"]);
    }

    #[test]
    fn the_versions_differ_in_the_kind_of_lock() {
        for (version, lock, is_valid) in [
            ("v1", "", true),
            ("v1", "resourceLock: leases\n", false),
            ("v1beta1", "resourceLock: leases\n", true),
            ("v1alpha1", "resourceLock: leases\n", true),
            ("v1alpha1", "resourceLock: endpoints\n", false),
            ("v1alpha1", "", false),
            ("v2", "", false),
        ] {
            let text = HEAD.replace("/v1\n", &format!("/{version}\n"));
            let read = LeaderMigration::parse(&format!("{text}leaderName: a\n{lock}"));
            assert_eq!(read.is_ok(), is_valid, "{version} {lock}: {read:?}");
        }
    }

    #[test]
    fn what_kube_controller_manager_refuses_is_an_error() {
        for (text, reason) in [
            (HEAD.to_owned(), "leaderName is missing"),
            (format!("{HEAD}leaderName: a\nleader: b\n"), "leader"),
            (
                format!("{HEAD}leaderName: a\ncontrollerLeaders: [{{name: b}}]\n"),
                "controllerLeaders[0] lacks a name or a component",
            ),
            ("apiVersion: v1\nkind: Pod\n".to_owned(), "it is v1, Pod"),
            (String::new(), ""),
        ] {
            let error = LeaderMigration::parse(&text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
