//! What the arguments of a plan name, read and checked before anything starts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flyball_manager::Inspection;
use flyball_plan::{Base, ClusterBase, FileBase, Server};
use flyball_policy::Policy;
use flyball_testserver::manifests::is_definition;
use flyball_types::description::Description;
use kube::Config;
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};

use super::Arguments;
use crate::builtins::BUILTINS;
use crate::cluster;
use crate::config::ClusterConfig;
use crate::selection::Selection;
use crate::tools::test::kinds;
use crate::tools::{load, manifests};

/// The built-in controllers that act on what a plugin writes: they delete what has lost its owner or its namespace, and
/// create the pods of workloads.
const CONSEQUENCES: [&str; 7] = [
    "garbage-collector-controller",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
];

/// The most bytes of all files of `--from`. Their objects take several times as much memory.
const MAX_DUMP: usize = 256 << 20;

pub(super) struct Inputs {
    /// The plugin with the name of its file, which a policy may require.
    pub(super) plugin: Option<(OsString, Inspection)>,
    policy: Policy,
    /// The value of the host's `--controllers`.
    pub(super) controllers: String,
    /// The objects of `--from`.
    objects: Vec<Value>,
    /// The objects to apply and to delete, each with its file.
    changes: Vec<(PathBuf, Value)>,
    deletions: Vec<(PathBuf, Value)>,
}

impl Inputs {
    pub(super) async fn read(arguments: &Arguments) -> anyhow::Result<Self> {
        let policy = load::policy(arguments.policy.as_deref())?;
        let plugin = match &arguments.file {
            None => None,
            Some(file) => {
                let inspection = load::load(file, &policy).await?;
                if !inspection.mistakes.is_empty() {
                    bail!("{}: {}", file.display(), inspection.mistakes.join("; "));
                }
                let name = file.file_name().unwrap_or_default().to_owned();
                Some((name, inspection))
            }
        };
        let mut changes = of_files(&arguments.change)?;
        // Definitions first: they apply to the objects that follow.
        changes.sort_by_key(|(_, object)| !is_definition(object));
        Ok(Self {
            plugin,
            policy,
            controllers: controllers(arguments.controllers.as_deref()),
            objects: dump(&arguments.from, MAX_DUMP)?,
            changes,
            deletions: of_files(&arguments.delete)?,
        })
    }

    /// The plugins that have to run.
    pub(super) fn expected(&self) -> BTreeSet<String> {
        let items: Vec<String> = self.controllers.split(',').map(str::to_owned).collect();
        let selection = Selection::new(&items);
        // With `*`, what runs depends on what the controllers need.
        let is_named =
            |name: &str| !items.iter().any(|item| item == "*") && selection.enables(name);
        let builtins = BUILTINS.iter().filter(|builtin| is_named(builtin.name));
        let builtins = builtins.map(|builtin| builtin.name.to_owned());
        let plugin = self.plugin.iter();
        let plugin = plugin.map(|(_, inspection)| inspection.description.name.clone());
        builtins.chain(plugin).collect()
    }

    /// Returns what lies below the plan. The objects of files are moved there.
    pub(super) async fn base(&mut self, arguments: &Arguments) -> anyhow::Result<Base> {
        if !arguments.from.is_empty() {
            let plugin = self.plugin.iter();
            let mut descriptions = plugin.map(|(_, inspection)| &*inspection.description);
            let none = Description::default();
            let description = descriptions.next().unwrap_or(&none);
            let kinds = kinds::served(self.objects.iter(), description);
            let objects = std::mem::take(&mut self.objects);
            return Ok(Base::Files(FileBase::new(kinds, objects)?));
        }
        let config = match &arguments.kubeconfig {
            None => Config::from_kubeconfig(&KubeConfigOptions::default())
                .await
                .context("no kubeconfig names a cluster: name one with --kubeconfig, or objects with --from")?,
            Some(kubeconfig) => {
                let source = ClusterConfig {
                    kubeconfig: Some(kubeconfig.clone()),
                    context: arguments.context.clone(),
                    master: None,
                };
                cluster::config(&source).await?
            }
        };
        let url = config.cluster_url.clone();
        let base = ClusterBase::new(&config, !arguments.no_dry_run);
        Ok(Base::Cluster(
            base.with_context(|| format!("can't connect to {url}"))?,
        ))
    }

    /// Makes the given change, and creates what the plugin relies on.
    pub(super) async fn prepare(&self, server: &Server) -> anyhow::Result<()> {
        if let Some((_, inspection)) = &self.plugin {
            let policy = self.policy.plugins.get(&inspection.description.name);
            let account = policy.and_then(|policy| policy.service_account.as_deref());
            if let Some((namespace, name)) = account.and_then(|account| account.split_once('/')) {
                let metadata = json!({"namespace": namespace, "name": name});
                let account =
                    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
                let assumed = server.assume(account).await;
                assumed.context("can't look for the plugin's service account")?;
            }
        }
        for (file, object) in &self.changes {
            let applied = server.apply(object).await;
            applied.with_context(|| format!("can't apply an object of {}", file.display()))?;
        }
        for (file, object) in &self.deletions {
            let deleted = server.delete(object).await;
            deleted.with_context(|| format!("can't delete an object of {}", file.display()))?;
        }
        Ok(())
    }
}

/// The value of the host's `--controllers`: the one that is asked for, or else the controllers that act on what a plugin
/// writes.
fn controllers(asked: Option<&str>) -> String {
    let available = |name: &&str| BUILTINS.iter().any(|builtin| builtin.name == *name);
    match asked {
        Some(asked) => asked.to_owned(),
        None => {
            let names: Vec<&str> = CONSEQUENCES.into_iter().filter(available).collect();
            names.join(",")
        }
    }
}

fn of_files(files: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, Value)>> {
    let mut objects = Vec::new();
    for file in files {
        let read = manifests::read(file)?;
        if read.is_empty() {
            bail!("{} has no objects", file.display());
        }
        objects.extend(read.into_iter().map(|object| (file.clone(), object)));
    }
    Ok(objects)
}

/// Reads the objects of a dump: files, and folders of files.
///
/// # Errors
/// A file can't be read or parsed, or they have more than `limit` bytes together.
fn dump(paths: &[PathBuf], limit: usize) -> anyhow::Result<Vec<Value>> {
    let (mut objects, mut left) = (Vec::new(), limit);
    for path in paths {
        for file in files(path)? {
            let Some(text) = text_of(&file, left)? else {
                bail!(
                    "the files of --from have more than {} MiB, and their objects would take several times as much memory: dump \
                     only the kinds that the controllers read, or one namespace; or plan over the cluster itself, which is read \
                     page by page",
                    limit >> 20
                );
            };
            left -= text.len();
            objects.extend(parse(&file, &text)?);
        }
    }
    Ok(objects)
}

/// Reads a file; none if it has more than `limit` bytes.
fn text_of(file: &Path, limit: usize) -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| {
        let mut open = open.take((limit as u64).saturating_add(1));
        open.read_to_string(&mut text)
    });
    read.with_context(|| format!("can't read {}", file.display()))?;
    Ok((text.len() <= limit).then_some(text))
}

/// Parses the objects of a file. JSON, which dumps of clusters are large in, has a parser of its own.
fn parse(file: &Path, text: &str) -> anyhow::Result<Vec<Value>> {
    let is_json = file
        .extension()
        .is_some_and(|extension| extension == "json");
    if !is_json {
        let parsed = flyball_testserver::manifests::parse(text);
        return parsed.with_context(|| format!("{} is not YAML", file.display()));
    }
    let parsed = serde_json::from_str(text);
    let document: Value = parsed.with_context(|| format!("{} is not JSON", file.display()))?;
    Ok(flyball_testserver::manifests::items(document))
}

/// A file, or the files in YAML and JSON of a folder and the folders in it, by name.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let read = || format!("can't read the folder {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(read)? {
            let entry = entry.with_context(read)?;
            // A link may lead back to the folder: it is not followed.
            let kind = entry.file_type().with_context(read)?;
            let path = entry.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if kind.is_dir() {
                folders.push(path);
            } else if matches!(extension, Some("yaml" | "yml" | "json")) {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        bail!("{} has no files in YAML or JSON", path.display());
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use flyball_controllers::built_in;

    use super::*;

    #[test]
    fn the_controllers_of_consequences_exist() {
        for name in CONSEQUENCES {
            let mut known = built_in();
            assert!(known.any(|(one, _)| one.name == name), "{name}");
        }
        assert_eq!(controllers(Some("job")), "job");
    }

    #[test]
    fn the_files_of_a_folder_are_read_in_order_with_the_items_of_lists() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is created");
            std::fs::write(path, text).expect("it is written");
        };
        write(
            "b.json",
            r#"{"kind": "List", "items": [{"kind": "C"}, {"kind": "D"}]}"#,
        );
        write("a/x.yaml", "kind: A\n---\nkind: B\n");
        write("notes.txt", "kind: E\n");
        let dumped = |limit| dump(&[folder.path().to_owned()], limit);
        let objects = dumped(1000).expect("they are valid");
        let kinds: Vec<&str> = objects
            .iter()
            .filter_map(|object| object["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["A", "B", "C", "D"]);
        let error = dumped(20).expect_err("they have more bytes");
        assert!(error.to_string().contains("page by page"), "{error}");
    }
}
