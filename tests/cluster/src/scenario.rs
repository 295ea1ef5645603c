//! Scenarios that run concurrently on one cluster, each in a separate namespace, and their helper
//! functions.

use std::fmt::Debug;
use std::future::Future;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use flyball_controlplane::Process;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet};

use crate::{Cluster, until};

/// Scenarios to run.
pub struct Scenarios {
    client: Client,
    tasks: LocalSet,
    added: Vec<(&'static str, JoinHandle<Result<()>>)>,
}

impl Scenarios {
    pub fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            tasks: LocalSet::new(),
            added: Vec::new(),
        }
    }

    /// Adds a scenario. It gets a namespace of this name, with the service account `default`.
    pub fn add<F>(&mut self, name: &'static str, scenario: impl FnOnce(Space) -> F + 'static)
    where
        F: Future<Output = Result<()>> + 'static,
    {
        let client = self.client.clone();
        let task = self.tasks.spawn_local(async move {
            let space = Space::create(client, name).await?;
            space.wait_for_account().await?;
            let start = Instant::now();
            scenario(space).await?;
            println!("{name}: {:.1} s", start.elapsed().as_secs_f32());
            Ok(())
        });
        self.added.push((name, task));
    }

    /// Runs all scenarios. The error names each one that failed, with the reason.
    pub async fn run(self) -> Result<()> {
        let Self { tasks, added, .. } = self;
        let failed = tasks.run_until(async move {
            let mut failed = Vec::new();
            for (name, task) in added {
                match task.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => failed.push(format!("{name}: {error:#}")),
                    Err(error) => failed.push(format!("{name}: {error}")),
                }
            }
            failed
        });
        match failed.await.as_slice() {
            [] => Ok(()),
            failed => bail!("{} failed:\n{}", failed.len(), failed.join("\n")),
        }
    }
}

/// Whether the host panicked. A guest's panic is logged too, with a path under `guests/` or `tests/guests/`.
fn has_panicked(log: &str) -> bool {
    let mut panics = log.split("panicked").skip(1);
    panics.any(|rest| {
        let of_guest = [" at guests/", " at tests/guests/"];
        !of_guest.iter().any(|start| rest.starts_with(start))
    })
}

/// Stops the hosts and the cluster. The logs are kept if the test failed, if a host panicked, or if
/// it failed to shut down.
pub async fn finish(
    mut cluster: Cluster,
    hosts: impl IntoIterator<Item = Process>,
    result: Result<()>,
) -> Result<()> {
    let mut result = result;
    for mut host in hosts {
        let status = host.stop().await?;
        let log = log_of(&host)?;
        if result.is_ok() && has_panicked(&log) {
            result = Err(anyhow::anyhow!("{} panicked", host.name()));
        }
        if result.is_ok() && !status.success() {
            let last = last_lines(&log);
            result = Err(anyhow::anyhow!(
                "{} did not shut down cleanly on SIGTERM: {status}\n{last}",
                host.name()
            ));
        }
    }
    if result.is_err() {
        cluster.plane.keep_logs();
    }
    let ended = cluster.shutdown().await;
    result.and(ended)
}

/// The output of a process so far.
pub fn log_of(process: &Process) -> Result<String> {
    let path = process.log_path();
    std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

/// The last lines of a log, for error messages, since the log itself may be deleted.
pub fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A namespace, with a client of its administrator.
#[derive(Clone)]
pub struct Space {
    /// A client of the whole cluster.
    pub client: Client,
    pub name: String,
}

impl Space {
    /// Creates a namespace. Underscores in the name become dashes.
    pub async fn create(client: Client, name: &str) -> Result<Self> {
        let name = name.replace('_', "-");
        let object = Namespace {
            metadata: kube::api::ObjectMeta {
                name: Some(name.clone()),
                ..Default::default()
            },
            ..Default::default()
        };
        let created = Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await;
        created.with_context(|| format!("can't create the namespace {name}"))?;
        Ok(Self { client, name })
    }

    /// Waits for the service account `default`, without which no pod can be created.
    pub async fn wait_for_account(&self) -> Result<ServiceAccount> {
        until("the namespace has its service account", async || {
            Ok(self
                .api::<ServiceAccount>()
                .get_opt("default")
                .await?
                .ok_or_else(|| "none".into()))
        })
        .await
    }

    /// The API of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub async fn create_object<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object: K = serde_json::from_value(object).context("a test's object is not valid")?;
        Ok(self.api().create(&PostParams::default(), &object).await?)
    }

    /// Changes an object by a merge patch.
    pub async fn change<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let patched = self
            .api()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.with_context(|| format!("can't change {name}"))
    }

    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.delete::<Pod>(name).await
    }

    /// Requests the deletion of an object.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = self.api::<K>();
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted
            .map(drop)
            .with_context(|| format!("can't delete the {} {name}", K::kind(&())))
    }

    pub async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self
            .api()
            .list(&ListParams::default())
            .await
            .context("can't list the pods")?
            .items)
    }

    pub async fn replica_sets(&self) -> Result<Vec<ReplicaSet>> {
        Ok(self
            .api()
            .list(&ListParams::default())
            .await
            .context("can't list the ReplicaSets")?
            .items)
    }

    /// Creates the Deployment `web` with this image. `more` is merged into its spec.
    pub async fn deploy(&self, replicas: i32, image: &str, more: Value) -> Result<Deployment> {
        let mut object = json!({"metadata": {"name": "web"}, "spec": workload(replicas, image)});
        merge(&mut object["spec"], more);
        self.create_object(object).await
    }

    /// Changes the spec of the Deployment `web`.
    pub async fn redeploy(&self, spec: Value) -> Result<Deployment> {
        self.change("web", json!({"spec": spec})).await
    }

    /// Waits until this number of pods run this image and no others exist, according to both the
    /// status of the Deployment `web` and the list of pods.
    pub async fn settled(&self, replicas: i32, image: &str) -> Result<Scene> {
        self.until_scene(&format!("{replicas} pods run {image}"), |scene| {
            scene.is_settled(replicas, image)
        })
        .await
    }

    /// Waits until the Deployment `web`, the ReplicaSets and the pods meet a condition.
    pub async fn until_scene(
        &self,
        what: &str,
        mut is_met: impl FnMut(&Scene) -> bool,
    ) -> Result<Scene> {
        until(what, async || {
            let scene = self.look().await?;
            if is_met(&scene) {
                Ok(Ok(scene))
            } else {
                Ok(Err(scene.describe()))
            }
        })
        .await
    }

    /// The current Deployment `web`, ReplicaSets and pods.
    pub async fn look(&self) -> Result<Scene> {
        let deployment = self
            .api::<Deployment>()
            .get("web")
            .await
            .context("can't read the Deployment")?;
        Ok(Scene {
            deployment,
            sets: self.replica_sets().await?,
            pods: self.pods().await?,
        })
    }
}

/// A Deployment, and the ReplicaSets and pods of its namespace, at one time.
pub struct Scene {
    pub deployment: Deployment,
    pub sets: Vec<ReplicaSet>,
    pub pods: Vec<Pod>,
}

impl Scene {
    /// Whether the status counts this number of pods as up to date and available, and no others
    /// exist.
    pub fn is_settled(&self, replicas: i32, image: &str) -> bool {
        let Some(status) = &self.deployment.status else {
            return false;
        };
        let count = |value: Option<i32>| value.unwrap_or(0);
        self.is_observed()
            && [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ]
            .into_iter()
            .all(|value| count(value) == replicas)
            && i32::try_from(self.pods.len()) == Ok(replicas)
            && self
                .pods
                .iter()
                .all(|pod| runs(pod, image) && is_ready(pod))
    }

    /// Whether the observed generation is the current one.
    pub fn is_observed(&self) -> bool {
        let observed = self
            .deployment
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed == self.deployment.metadata.generation
    }

    /// The status and the reason of a condition of the Deployment; empty if it lacks the condition.
    pub fn condition(&self, kind: &str) -> (&str, &str) {
        let mut conditions = self
            .deployment
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let found = conditions.find(|condition| condition.type_.as_deref() == Some(kind));
        found.map_or(("", ""), |condition| {
            (
                condition.status.as_deref().unwrap_or_default(),
                condition.reason.as_deref().unwrap_or_default(),
            )
        })
    }

    /// The only ReplicaSet with this image. Fails if there are several.
    pub fn set_of(&self, image: &str) -> Result<&ReplicaSet> {
        let mut found = self.sets.iter().filter(|set| {
            let template = set.spec.template.as_ref();
            let spec = template.and_then(|template| template.spec.as_ref());
            spec.is_some_and(|spec| {
                spec.containers
                    .iter()
                    .all(|container| container.image.as_deref() == Some(image))
            })
        });
        match (found.next(), found.next()) {
            (Some(set), None) => Ok(set),
            (None, _) => bail!("no ReplicaSet has the image {image}"),
            _ => bail!("two ReplicaSets have the image {image}"),
        }
    }

    /// The number of pods with this image.
    pub fn running(&self, image: &str) -> usize {
        self.pods.iter().filter(|pod| runs(pod, image)).count()
    }

    fn describe(&self) -> String {
        let pods: Vec<String> = self.pods.iter().map(describe_pod).collect();
        let sets: Vec<String> = self.sets.iter().map(ResourceExt::name_any).collect();
        let status = serde_json::to_string(&self.deployment.status).unwrap_or_default();
        format!(
            "ReplicaSets {}; pods {}; status {status}",
            sets.join(", "),
            pods.join(", ")
        )
    }
}

/// The spec of a Deployment or ReplicaSet with the label `app=web`.
pub fn workload(replicas: i32, image: &str) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": with_image(image)},
    })
}

/// The spec of a pod with this image.
pub fn with_image(image: &str) -> Value {
    json!({"containers": [{"name": "web", "image": image}]})
}

/// A patch of a Deployment's spec that changes the image.
pub fn new_image(image: &str) -> Value {
    json!({"template": {"spec": with_image(image)}})
}

/// A pod template with annotations for the fake kubelet.
pub fn pods_that<const N: usize>(annotations: [(&str, Option<&str>); N]) -> Value {
    let annotations =
        annotations.map(|(name, value)| (format!("fake-kubelet.flyball.dev/{name}"), json!(value)));
    json!({"template": {"metadata": {"annotations": serde_json::Map::from_iter(annotations)}}})
}

/// Merges `more` into a value: objects are merged field by field, other values are replaced.
pub fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// Returns `one` with `other` merged into it.
pub fn merged(mut one: Value, other: Value) -> Value {
    merge(&mut one, other);
    one
}

/// Whether the pod's containers have this image.
pub fn runs(pod: &Pod, image: &str) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.all(|container| container.image.as_deref() == Some(image))
}

/// Whether the pod is Failed or Succeeded.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn describe_pod(pod: &Pod) -> String {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("without phase");
    let ready = if is_ready(pod) { ", Ready" } else { "" };
    let deleted = if pod.metadata.deletion_timestamp.is_some() {
        ", being deleted"
    } else {
        ""
    };
    format!("{} ({phase}{ready}{deleted})", pod.name_any())
}

/// Creates a namespace, and waits until a greeter has created, updated and deleted its ConfigMap, and
/// has restored it after another client changed it.
pub async fn greeted(client: &Client, namespace: &str) -> Result<()> {
    let space = Space::create(client.clone(), namespace).await?;
    let greeting = |text: Option<&str>| json!({"metadata": {"annotations": {"greeter.flyball.dev/greeting": text}}});
    annotate(client, namespace, greeting(Some("hello"))).await?;
    space.greeting_is("hello").await?;
    annotate(client, namespace, greeting(Some("good morning"))).await?;
    space.greeting_is("good morning").await?;
    space
        .change::<ConfigMap>("greeting", json!({"data": {"greeting": "go away"}}))
        .await?;
    space.greeting_is("good morning").await?;
    annotate(client, namespace, greeting(None)).await?;
    until("the ConfigMap is deleted", async || {
        let left = space.api::<ConfigMap>().get_opt("greeting").await?;
        Ok(left.map_or(Ok(()), |map| Err(format!("{:?}", map.data))))
    })
    .await
}

/// Changes a namespace by a merge patch.
pub async fn annotate(client: &Client, namespace: &str, patch: Value) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let patched = namespaces
        .patch(namespace, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched
        .map(drop)
        .with_context(|| format!("can't change the namespace {namespace}"))
}

impl Space {
    async fn greeting_is(&self, text: &str) -> Result<ConfigMap> {
        until(&format!("the ConfigMap says {text:?}"), async || {
            let map = self.api::<ConfigMap>().get_opt("greeting").await?;
            let says = map
                .as_ref()
                .and_then(|map| map.data.as_ref()?.get("greeting").cloned());
            let seen = format!("{says:?}");
            Ok(map.filter(|_| says.as_deref() == Some(text)).ok_or(seen))
        })
        .await
    }
}
