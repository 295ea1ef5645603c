//! The objects that a plugin needs in its cluster: the project's custom resources, and the service account and roles of
//! the plugin under its policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_author::Project;
use flyball_manager::PluginDescription;
use flyball_policy::Policy;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::{Client, ResourceExt, discovery};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::console::say;
use crate::admin::RunningHost;
use crate::tools::load::load;
use crate::tools::plural::PluralFlags;
use crate::tools::served::ClusterFlags;
use crate::tools::{manifests, rbac};

/// The field manager of applied objects.
const MANAGER: &str = "flyball-dev";
/// The file of a project's custom resources.
const CRDS: &str = "crd.yaml";
/// How long the API server may take to serve a custom resource, and the interval of the checks.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// The objects to apply, in this order: files, and then the roles.
pub(super) struct Objects {
    client: Client,
    /// Names the cluster for the plurals of kinds.
    plurals: PluralFlags,
    files: Vec<PathBuf>,
    /// The objects as they were applied last, by kind and name.
    applied: BTreeMap<String, Value>,
}

impl Objects {
    /// The custom resources of a project, and the objects of further files.
    pub(super) fn new(
        client: Client,
        cluster: ClusterFlags,
        project: &Project,
        further: &[PathBuf],
    ) -> Self {
        let of_project = Some(project.dir.join(CRDS)).filter(|path| path.is_file());
        Self {
            client,
            plurals: PluralFlags::of_cluster(cluster),
            files: of_project.into_iter().chain(further.to_owned()).collect(),
            applied: BTreeMap::new(),
        }
    }

    /// Applies the objects that have changed since the last call.
    pub(super) async fn apply(
        &mut self,
        component: &Path,
        policy: Option<&Path>,
    ) -> anyhow::Result<()> {
        let mut objects = Vec::new();
        for file in &self.files {
            objects.extend(manifests::read(file)?);
        }
        for object in objects {
            self.apply_one(object).await?;
        }
        // The cluster serves the project's kinds now.
        if let Some(policy) = policy {
            for object in self.roles(component, policy).await? {
                self.apply_one(object).await?;
            }
        }
        Ok(())
    }

    async fn roles(&self, component: &Path, policy: &Path) -> anyhow::Result<Vec<Value>> {
        let description = load(component, &Policy::default()).await?.description;
        let described = PluginDescription {
            description: (*description).clone(),
            policy: None,
        };
        let (flags, host) = (&self.plurals, RunningHost::default());
        let roles = rbac::run(described, Some(policy), flags, &host).await?;
        let (objects, warnings) = roles.into_parts();
        warnings.iter().for_each(|warning| say(warning));
        Ok(objects)
    }

    async fn apply_one(&mut self, object: Value) -> anyhow::Result<()> {
        let kind: TypeMeta =
            serde_json::from_value(object.clone()).context("an object has no kind")?;
        let parsed: DynamicObject = serde_json::from_value(object.clone())
            .with_context(|| format!("a {} is malformed", kind.kind))?;
        let name = format!("{} {}", kind.kind, parsed.name_any());
        if self.applied.get(&name) == Some(&object) {
            return Ok(());
        }
        let apply = async {
            let gvk = GroupVersionKind::try_from(&kind)?;
            let (resource, capabilities) = discovery::pinned_kind(&self.client, &gvk).await?;
            let api: Api<DynamicObject> = match capabilities.scope {
                discovery::Scope::Namespaced => {
                    let namespace = parsed.namespace().unwrap_or_else(|| "default".into());
                    Api::namespaced_with(self.client.clone(), &namespace, &resource)
                }
                discovery::Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            };
            apply_once_ready(&api, &parsed.name_any(), &object).await?;
            if kind.kind == "CustomResourceDefinition" {
                until_established(&api, &parsed.name_any()).await?;
            }
            anyhow::Ok(())
        };
        apply
            .await
            .with_context(|| format!("can't apply the {name}"))?;
        say(&format!("applied the {name}"));
        self.applied.insert(name, object);
        Ok(())
    }
}

/// Applies an object. The storage of a kind that was just created takes a moment to be ready.
async fn apply_once_ready(
    api: &Api<DynamicObject>,
    name: &str,
    object: &Value,
) -> kube::Result<()> {
    let params = PatchParams::apply(MANAGER).force();
    let deadline = Instant::now() + ESTABLISHED_WITHIN;
    loop {
        match api.patch(name, &params, &Patch::Apply(object)).await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => sleep(POLL).await,
            applied => return applied.map(drop),
        }
    }
}

/// Whether the API server asks to come back later.
fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}

async fn until_established(api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + ESTABLISHED_WITHIN;
    loop {
        let found = api.get(name).await?;
        let mut conditions = found.data["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        if conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the API server does not serve it: {}", found.data["status"]);
        }
        sleep(POLL).await;
    }
}
