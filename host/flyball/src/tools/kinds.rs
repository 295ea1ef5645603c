//! Checks the kinds that plugins and policies name: Kubernetes' own against the list in this program, and others against
//! CustomResourceDefinitions in files, and against a running host's cluster or another one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use flyball_manager::ServedKind;
use flyball_policy::kinds::{KnownKind, look_up};
use flyball_types::Kind;
use flyball_types::nearest::nearest;
use serde_json::Value;

use super::manifests;
use super::served::{self, ClusterFlags, Served};
use crate::admin::RunningHost;

/// Where kinds are known from, beside the list of built-in ones.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KindFlags {
    /// File with CustomResourceDefinitions, whose kinds are known; may be repeated
    #[arg(long = "crd", value_name = "FILE")]
    pub(super) crds: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
}

impl KindFlags {
    /// Reads the kinds of the files.
    ///
    /// # Errors
    /// A file can't be read, or has no CustomResourceDefinition.
    pub(super) fn defined(&self) -> anyhow::Result<Vec<ServedKind>> {
        let mut kinds = Vec::new();
        for file in &self.crds {
            let objects = manifests::read(file)?;
            let found: Vec<ServedKind> = objects.iter().flat_map(of_definition).collect();
            if found.is_empty() {
                anyhow::bail!(
                    "{} has no CustomResourceDefinition with a served version: name another file with --crd",
                    file.display()
                );
            }
            kinds.extend(found);
        }
        Ok(kinds)
    }
}

/// Returns the kinds of a CustomResourceDefinition: one for each version that is served. Other objects have none.
pub(super) fn of_definition(definition: &Value) -> Vec<ServedKind> {
    let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
    let texts = (
        spec["group"].as_str(),
        names["kind"].as_str(),
        names["plural"].as_str(),
    );
    let (Some(group), Some(kind), Some(plural)) = texts else {
        return Vec::new();
    };
    if definition["kind"] != "CustomResourceDefinition" {
        return Vec::new();
    }
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served
        .filter_map(|version| version["name"].as_str())
        .map(|version| ServedKind {
            kind: Kind::new(group, version, kind),
            plural: plural.to_owned(),
            namespaced: spec["scope"] != "Cluster",
        })
        .collect()
}

/// The result of checking kinds. Each text is a sentence, by the kind as it is written.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) mistakes: BTreeMap<String, String>,
    pub(super) warnings: BTreeMap<String, String>,
}

/// Checks these kinds and patterns. A cluster is asked if the flags name one, or if a kind is not Kubernetes' own.
///
/// # Errors
/// A file can't be read, or the host or cluster that a flag names can't be asked.
pub(super) async fn check(
    kinds: &BTreeSet<String>,
    flags: &KindFlags,
    host: &RunningHost,
) -> anyhow::Result<Checked> {
    let mut served = flags.defined()?;
    let is_defined = |kind: &str, served: &[ServedKind]| {
        let mut served = served.iter();
        served.any(|known| known.kind.to_string() == kind)
    };
    let unknown: Vec<(&String, KnownKind)> = kinds
        .iter()
        .filter(|kind| !is_defined(kind, &served))
        .map(|kind| (kind, look_up(kind)))
        .filter(|(_, found)| *found != KnownKind::Known)
        .collect();
    let is_named = host.is_named() || flags.cluster.kubeconfig.is_some();
    let has_others = unknown
        .iter()
        .any(|(_, found)| matches!(found, KnownKind::OfOthers(_)));
    let mut is_asked = false;
    if !unknown.is_empty() && (is_named || has_others) {
        let asked = served::ask(host, &flags.cluster).await;
        if let Served::Kinds(kinds) = asked.context("can't check the kinds")? {
            served.extend(kinds);
            is_asked = true;
        }
    }
    let mut checked = Checked::default();
    for (text, found) in unknown {
        match found {
            _ if is_defined(text, &served) => {}
            KnownKind::Known => {}
            KnownKind::Wrong(problem) => drop(checked.mistakes.insert(text.clone(), problem)),
            KnownKind::OfOthers(kind) if is_asked || !flags.crds.is_empty() => {
                checked.judge(text, &kind, &served);
            }
            // Nobody knows.
            KnownKind::OfOthers(_) => {}
        }
    }
    Ok(checked)
}

impl Checked {
    /// Adds what is to be said about a kind that is neither served nor defined. If its group is known, the kind is
    /// misspelt; otherwise its definition may be missing.
    fn judge(&mut self, text: &str, kind: &Kind, served: &[ServedKind]) {
        let of_group = served.iter().filter(|one| one.kind.group == kind.group);
        let names: BTreeSet<String> = of_group.map(|one| one.kind.to_string()).collect();
        if names.is_empty() {
            let warning = format!(
                "the kind `{text}` is not known: neither the cluster nor a file of --crd has the group `{}`; create its \
                 CustomResourceDefinition, or name the file of it with --crd",
                kind.group
            );
            self.warnings.insert(text.to_owned(), warning);
            return;
        }
        let meant = match nearest(text, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!(
                "the group has {}",
                names.into_iter().collect::<Vec<_>>().join(", ")
            ),
        };
        let mistake = format!("there is no kind `{text}`: {meant}");
        self.mistakes.insert(text.to_owned(), mistake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = "kind: CustomResourceDefinition\nspec:\n  group: example.com\n  scope: Namespaced\n  \
                        names: {kind: Leaf, plural: leaves}\n  versions: [{name: v1, served: true}, {name: v0, served: false}]\n";

    async fn checked(kinds: &[&str], flags: &KindFlags) -> anyhow::Result<Checked> {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        check(&kinds, flags, &RunningHost::default()).await
    }

    fn defined(text: &str) -> (tempfile::NamedTempFile, KindFlags) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it is written");
        let flags = KindFlags {
            crds: vec![file.path().to_owned()],
            ..KindFlags::default()
        };
        (file, flags)
    }

    #[tokio::test]
    async fn built_in_kinds_are_checked_without_a_cluster_all_at_once() {
        let kinds = [
            "apps/v1/Deploymnt",
            "v1/ConfigMaps",
            "v1/Pod",
            "apps/*",
            "*",
        ];
        let found = checked(&kinds, &KindFlags::default()).await;
        let found = found.expect("nothing is asked").mistakes;
        let names: Vec<&String> = found.keys().collect();
        assert_eq!(names, ["apps/v1/Deploymnt", "v1/ConfigMaps"]);
    }

    #[tokio::test]
    async fn a_kind_of_a_definition_is_known_and_a_misspelt_one_is_a_mistake() {
        let (_file, flags) = defined(LEAF);
        let known = checked(&["example.com/v1/Leaf"], &flags).await;
        let known = known.expect("it is defined");
        assert!(
            known.mistakes.is_empty() && known.warnings.is_empty(),
            "{known:?}"
        );
        // A host that does not exist is not asked for it.
        let named = RunningHost::at("/no/such".into());
        let kinds = ["example.com/v1/Leaf".to_owned()].into();
        assert!(check(&kinds, &flags, &named).await.is_ok());
        let (_other, flags) = defined("kind: ConfigMap");
        let refused = checked(&["v1/Pod"], &flags)
            .await
            .expect_err("it defines nothing");
        assert!(
            refused.to_string().contains("no CustomResourceDefinition"),
            "{refused}"
        );
    }

    #[test]
    fn a_kind_of_a_known_group_is_misspelt_and_one_of_another_group_may_be_missing() {
        let leaf = ServedKind {
            kind: Kind::new("example.com", "v1", "Leaf"),
            plural: "leaves".into(),
            namespaced: true,
        };
        let mut checked = Checked::default();
        for text in [
            "example.com/v1/Leav",
            "example.com/v2/Xylophone",
            "other.com/v1/Leaf",
        ] {
            let kind = text.parse().expect("a kind");
            checked.judge(text, &kind, std::slice::from_ref(&leaf));
        }
        let mistakes: Vec<&String> = checked.mistakes.values().collect();
        assert!(
            mistakes[0].ends_with("did you mean `example.com/v1/Leaf`?"),
            "{mistakes:?}"
        );
        assert_eq!(mistakes.len() + checked.warnings.len(), 3, "{checked:?}");
        assert!(
            checked.warnings.contains_key("other.com/v1/Leaf"),
            "{checked:?}"
        );
    }
}
