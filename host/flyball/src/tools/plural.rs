//! The plurals of kinds, as RBAC rules name them, and whether kinds are namespaced. They come, in this order, from flags,
//! from the list of built-in kinds, from a running host or a cluster, and from the CustomResourceDefinitions of the
//! project. If none of them has it, the plural is guessed, with a warning.

mod built_in;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::bail;
use flyball_policy::kinds::{KnownKind, look_up};
use flyball_types::{Kind, usual_plural};

use super::kinds::{KindFlags, of_definition};
use super::manifests;
use super::served::{self, ClusterFlags, Served};
use crate::admin::RunningHost;

/// The plural and the scope of a kind in any version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plural {
    /// The plural, as in `deployments`.
    pub(super) resource: String,
    /// Whether the kind is namespaced; none if that is not known.
    pub(super) namespaced: Option<bool>,
}

/// Plurals that the list of built-in kinds lacks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PluralFlags {
    /// Plural of a kind, as in Leaf=leaves or example.com/v1/Leaf=leaves; may be repeated
    #[arg(long = "plural", value_name = "KIND=PLURAL")]
    plurals: Vec<Given>,
    #[command(flatten)]
    kinds: KindFlags,
    /// Folders that may have the project's CustomResourceDefinitions.
    #[arg(skip)]
    folders: Vec<PathBuf>,
}

impl PluralFlags {
    /// Adds the folder of a file of the project, such as its component or its policy, and the current folder. Their
    /// CustomResourceDefinitions name plurals that neither a host nor a cluster knows.
    pub(super) fn beside(mut self, file: Option<&Path>) -> Self {
        let folder = file.and_then(|file| match file.is_dir() {
            true => Some(file),
            false => file.parent(),
        });
        let folders = folder.into_iter().chain([Path::new("")]);
        self.folders.extend(folders.map(Path::to_owned));
        self
    }

    /// The flags for a cluster.
    pub(super) fn of_cluster(cluster: ClusterFlags) -> Self {
        let kinds = KindFlags {
            cluster,
            ..KindFlags::default()
        };
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// The flags for a file with CustomResourceDefinitions.
    #[cfg(test)]
    pub(super) fn of_file(file: std::path::PathBuf) -> Self {
        let kinds = KindFlags {
            crds: vec![file],
            ..KindFlags::default()
        };
        Self {
            kinds,
            ..Self::default()
        }
    }
}

/// A plural that a flag gives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    /// A kind, or only its name.
    kind: String,
    plural: String,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_resource = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        match text.split_once('=') {
            Some((kind, plural)) if !kind.is_empty() && is_resource(plural) => Ok(Self {
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            }),
            _ => Err("write a kind and its plural, as in Leaf=leaves".to_owned()),
        }
    }
}

impl Given {
    fn is_of(&self, kind: &Kind) -> bool {
        self.kind == kind.kind || self.kind == kind.to_string()
    }
}

/// The plurals of some kinds.
#[derive(Debug, Default)]
pub(super) struct Plurals {
    /// Those of kinds that are not built in, by group and kind.
    found: BTreeMap<(String, String), Plural>,
    /// A sentence about each plural that is a guess.
    pub(super) warnings: Vec<String>,
}

impl Plurals {
    /// Finds the plurals of these kinds. Asks a host or a cluster only if one of them is neither built in nor in the flags.
    ///
    /// # Errors
    /// Kubernetes does not have a kind of its groups, a flag is about none of the kinds, a file can't be read, or the
    /// host or cluster that a flag names can't be asked.
    pub(super) async fn find(
        kinds: &BTreeSet<Kind>,
        flags: &PluralFlags,
        host: &RunningHost,
    ) -> anyhow::Result<Self> {
        let mut plurals = Self::default();
        for defined in flags.kinds.defined()? {
            let namespaced = Some(defined.namespaced);
            plurals.insert(&defined.kind, &defined.plural, namespaced);
        }
        plurals.add_given(kinds, &flags.plurals)?;
        let unknown = |plurals: &Self| -> Vec<Kind> {
            let unknown = kinds.iter().filter(|kind| plurals.known(kind).is_none());
            unknown.cloned().collect()
        };
        if unknown(&plurals).is_empty() {
            return Ok(plurals);
        }
        let served = served::ask(host, &flags.kinds.cluster).await?;
        if let Served::Kinds(served) = &served {
            for kind in unknown(&plurals) {
                let mut same = served.iter().filter(|one| one.kind.group == kind.group);
                if let Some(found) = same.find(|one| one.kind.kind == kind.kind) {
                    plurals.insert(&kind, &found.plural, Some(found.namespaced));
                }
            }
        }
        if !unknown(&plurals).is_empty() {
            plurals.add_project(&flags.folders);
        }
        for kind in unknown(&plurals) {
            if let KnownKind::Wrong(problem) = look_up(&kind.to_string()) {
                bail!("the plural of a kind is not known: {problem}");
            }
            let guess = usual_plural(&kind.kind);
            let why = match &served {
                Served::Kinds(_) => "the cluster does not serve it".to_owned(),
                Served::Unknown(reason) => format!("no cluster could be asked ({reason})"),
            };
            plurals.warnings.push(format!(
                "the plural of {kind} is not known, `{guess}` is a guess: {why}. Name it with --plural {}=PLURAL, or the file of \
                 its CustomResourceDefinition with --crd",
                kind.kind
            ));
        }
        Ok(plurals)
    }

    /// Returns the plural of a kind: a known one, or else the usual one.
    pub(super) fn of(&self, kind: &Kind) -> Plural {
        self.known(kind).unwrap_or_else(|| usual(kind))
    }

    fn known(&self, kind: &Kind) -> Option<Plural> {
        let found = self.found.get(&(kind.group.clone(), kind.kind.clone()));
        let built_in = || {
            let known = built_in::find(kind)?;
            Some(Plural {
                resource: known.plural.into(),
                namespaced: Some(known.namespaced),
            })
        };
        // Kinds of Kubernetes in alpha and beta versions.
        let usual = || (look_up(&kind.to_string()) == KnownKind::Known).then(|| usual(kind));
        found.cloned().or_else(built_in).or_else(usual)
    }

    fn insert(&mut self, kind: &Kind, plural: &str, namespaced: Option<bool>) {
        let plural = Plural {
            resource: plural.to_owned(),
            namespaced,
        };
        self.found
            .insert((kind.group.clone(), kind.kind.clone()), plural);
    }

    /// Adds those of the CustomResourceDefinitions of the project that are not known yet. A file that can't be read is a
    /// warning.
    fn add_project(&mut self, folders: &[PathBuf]) {
        for file in folders.iter().flat_map(|folder| definitions(folder)) {
            match manifests::read(&file) {
                Ok(objects) => {
                    for defined in objects.iter().flat_map(of_definition) {
                        if self.known(&defined.kind).is_none() {
                            let namespaced = Some(defined.namespaced);
                            self.insert(&defined.kind, &defined.plural, namespaced);
                        }
                    }
                }
                Err(error) => self
                    .warnings
                    .push(format!("no plural is taken from a file: {error:#}")),
            }
        }
    }

    fn add_given(&mut self, kinds: &BTreeSet<Kind>, given: &[Given]) -> anyhow::Result<()> {
        for one in given {
            let mut of_flag = kinds.iter().filter(|kind| one.is_of(kind)).peekable();
            if of_flag.peek().is_none() {
                let names: Vec<String> = kinds.iter().map(Kind::to_string).collect();
                bail!(
                    "--plural names the kind {:?}, which is not used here: the kinds are {}",
                    one.kind,
                    names.join(", ")
                );
            }
            of_flag.for_each(|kind| self.insert(kind, &one.plural, None));
        }
        Ok(())
    }
}

fn usual(kind: &Kind) -> Plural {
    Plural {
        resource: usual_plural(&kind.kind),
        namespaced: None,
    }
}

/// The files in a project's folder that have its CustomResourceDefinitions: `crd.yaml`, and those that controller-gen
/// writes.
fn definitions(folder: &Path) -> Vec<PathBuf> {
    let generated = std::fs::read_dir(folder.join("config/crd/bases"));
    let generated = generated.into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = generated.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    files.insert(0, folder.join("crd.yaml"));
    files.retain(|file| file.is_file());
    files
}

/// The built-in kinds, each in the newest version that this program knows, with their plurals and whether they are
/// namespaced.
pub(super) fn built_in() -> impl Iterator<Item = (Kind, &'static str, bool)> {
    built_in::all().map(|known| {
        let kind = Kind::new(known.group, known.version, known.kind);
        (kind, known.plural, known.namespaced)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_text(plurals: &Plurals, kind: &str) -> (String, Option<bool>) {
        let Plural {
            resource,
            namespaced,
        } = plurals.of(&kind.parse().expect("a kind"));
        (resource, namespaced)
    }

    fn kinds(texts: &[&str]) -> BTreeSet<Kind> {
        let kinds = texts.iter().map(|kind| kind.parse().expect("a kind"));
        kinds.collect()
    }

    /// Flags for a host that does not exist.
    fn nowhere() -> RunningHost {
        RunningHost::at("/no/such".into())
    }

    #[test]
    fn built_in_kinds_are_known_in_every_version() {
        for (kind, plural, namespaced) in [
            ("v1/Endpoints", "endpoints", true),
            (
                "networking.k8s.io/v1/NetworkPolicy",
                "networkpolicies",
                true,
            ),
            ("networking.k8s.io/v1/Ingress", "ingresses", true),
            ("v1/Namespace", "namespaces", false),
            (
                "autoscaling/v1/HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                true,
            ),
            (
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
            ("events.k8s.io/v1/Event", "events", true),
        ] {
            let found = of_text(&Plurals::default(), kind);
            assert_eq!(found, (plural.into(), Some(namespaced)), "{kind}");
        }
    }

    #[test]
    fn the_plural_of_another_kind_is_a_usual_plural() {
        for (kind, plural) in [
            ("Widget", "widgets"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Mesh", "meshes"),
            ("Class", "classes"),
        ] {
            let kind = format!("example.com/v1/{kind}");
            let found = of_text(&Plurals::default(), &kind);
            assert_eq!(found, (plural.into(), None));
        }
    }

    #[test]
    fn the_guess_is_right_for_all_built_in_kinds_except_one() {
        let wrong: Vec<&str> = built_in::all()
            .filter(|known| usual_plural(known.kind) != known.plural)
            .map(|known| known.kind)
            .collect();
        assert_eq!(wrong, ["Endpoints"]);
    }

    #[tokio::test]
    async fn plurals_of_flags_and_files_need_no_host() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let definition = json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Mouse", "plural": "mice"},
            "versions": [{"name": "v1", "served": true}]
        }});
        std::fs::write(file.path(), definition.to_string()).expect("it is written");
        let mut flags = PluralFlags::of_file(file.path().to_owned());
        flags.plurals = vec!["Leaf=leaves".parse().expect("a plural")];
        let kinds = kinds(&["v1/Pod", "example.com/v1/Leaf", "example.com/v2/Mouse"]);
        let plurals = Plurals::find(&kinds, &flags, &nowhere()).await;
        let plurals = plurals.expect("all are known");
        assert_eq!(plurals.warnings, [] as [&str; 0]);
        let leaf = of_text(&plurals, "example.com/v1/Leaf");
        assert_eq!(leaf, ("leaves".into(), None));
        let mouse = of_text(&plurals, "example.com/v1/Mouse");
        assert_eq!(mouse, ("mice".into(), Some(false)));
        let wrong = self::kinds(&["apps/v1/Deploymnt"]);
        let refused = Plurals::find(&wrong, &PluralFlags::default(), &RunningHost::default()).await;
        let refused = refused.expect_err("there is no such kind").to_string();
        assert!(refused.contains("`apps/v1/Deployment`"), "{refused}");
        // Without the flags, the host is asked.
        let refused = Plurals::find(&kinds, &PluralFlags::default(), &nowhere()).await;
        let refused = format!("{:#}", refused.expect_err("there is no host"));
        assert!(
            refused.contains("can't connect to a running host at /no/such"),
            "{refused}"
        );
    }

    #[test]
    fn plurals_are_found_in_the_files_of_the_project() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, kind: &str, plural: &str| {
            let definition = json!({"kind": "CustomResourceDefinition", "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true}]
            }});
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is created");
            std::fs::write(path, definition.to_string()).expect("it is written");
        };
        write("crd.yaml", "Leaf", "leaves");
        write("config/crd/bases/example.com_mice.yaml", "Mouse", "mice");
        write("config/crd/bases/example.com_leaves.yaml", "Leaf", "other");
        write("config/crd/bases/notes.txt", "Ox", "oxen");
        let file = folder.path().join("hello.wasm");
        for beside in [file.as_path(), folder.path()] {
            let flags = PluralFlags::default().beside(Some(beside));
            let mut plurals = Plurals::default();
            plurals.add_project(&flags.folders);
            for (kind, plural) in [("Leaf", "leaves"), ("Mouse", "mice"), ("Ox", "oxes")] {
                let found = plurals.of(&Kind::new("example.com", "v1", kind));
                assert_eq!(found.resource, plural);
            }
            assert_eq!(plurals.warnings, [] as [&str; 0]);
        }
        std::fs::write(folder.path().join("crd.yaml"), "a: [").expect("it is written");
        let mut plurals = Plurals::default();
        plurals.add_project(&[folder.path().to_owned()]);
        assert!(
            plurals.warnings[0].contains("crd.yaml is not YAML"),
            "{:?}",
            plurals.warnings
        );
    }

    #[tokio::test]
    async fn a_flag_about_another_kind_is_refused() {
        let kinds = kinds(&["example.com/v1/Leaf"]);
        let other = PluralFlags {
            plurals: vec!["Laef=leaves".parse().expect("a plural")],
            ..PluralFlags::default()
        };
        let found = Plurals::find(&kinds, &other, &nowhere()).await;
        let said = found.expect_err("it is wrong").to_string();
        assert!(
            said.contains("\"Laef\"") && said.contains("example.com/v1/Leaf"),
            "{said}"
        );
        for text in ["Leaf", "Leaf=", "=leaves", "Leaf=Le aves"] {
            assert!(text.parse::<Given>().is_err(), "{text}");
        }
    }
}
