//! The steps of the demo: the life of a Deployment. Each step has a condition that ends it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::host::Host;
use super::since;
use super::table::Table;

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the condition is checked.
const POLL: Duration = Duration::from_millis(50);

/// The APIs of the objects in the demo.
struct Stage {
    deployments: Api<Deployment>,
    pods: Api<Pod>,
}

/// The Deployment and its pods at one time.
struct Scene {
    deployment: Deployment,
    pods: Vec<Pod>,
}

/// Runs all steps, and shows the host's reconciles in each.
pub(super) async fn play(client: &Client, host: &mut Host) -> Result<()> {
    let stage = Stage {
        deployments: Api::namespaced(client.clone(), "default"),
        pods: Api::namespaced(client.clone(), "default"),
    };
    let table = Table::new();

    let start = Timestamp::now();
    stage.apply().await.context("can't apply the Deployment")?;
    stage
        .until(
            host,
            &table,
            start,
            "A Deployment nginx with 3 replicas is applied",
            |scene| scene.is_settled(3),
        )
        .await?;

    let victim = stage
        .look()
        .await?
        .pods
        .first()
        .map(ResourceExt::name_any)
        .context("no pod exists to delete")?;
    let start = Timestamp::now();
    stage
        .pods
        .delete(&victim, &DeleteParams::default())
        .await
        .with_context(|| format!("can't delete {victim}"))?;
    let title = format!("The pod {victim} is deleted");
    stage
        .until(host, &table, start, &title, |scene| {
            scene.is_settled(3) && !scene.has(&victim)
        })
        .await?;

    let start = Timestamp::now();
    stage.patch(json!({"spec": {"replicas": 5}})).await?;
    stage
        .until(host, &table, start, "It is scaled to 5", |scene| {
            scene.is_settled(5)
        })
        .await?;

    let start = Timestamp::now();
    let container = json!({"name": "nginx", "image": "nginx:1.29"});
    stage
        .patch(json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
        .await?;
    let title = "Its image is changed to nginx:1.29: a rolling update";
    stage
        .until(host, &table, start, title, |scene| {
            scene.is_settled(5) && scene.all_run("nginx:1.29")
        })
        .await?;

    let start = Timestamp::now();
    stage.patch(json!({"spec": {"replicas": 0}})).await?;
    stage
        .until(host, &table, start, "It is scaled to 0", |scene| {
            scene.is_settled(0)
        })
        .await?;

    println!("\nAll steps succeeded.");
    Ok(())
}

impl Stage {
    async fn apply(&self) -> Result<Deployment> {
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "nginx"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "nginx"}},
                "template": {
                    "metadata": {"labels": {"app": "nginx"}},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.28"}]},
                },
            },
        });
        let deployment =
            serde_json::from_value(deployment).context("the demo's Deployment is not valid")?;
        Ok(self
            .deployments
            .create(&PostParams::default(), &deployment)
            .await?)
    }

    async fn patch(&self, patch: serde_json::Value) -> Result<()> {
        let patched = self
            .deployments
            .patch("nginx", &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        patched.map(|_| ()).context("can't change the Deployment")
    }

    async fn look(&self) -> Result<Scene> {
        let deployment = self
            .deployments
            .get("nginx")
            .await
            .context("can't read the Deployment")?;
        let pods = self
            .pods
            .list(&ListParams::default().labels("app=nginx"))
            .await
            .context("can't list the pods")?;
        Ok(Scene {
            deployment,
            pods: pods.items,
        })
    }

    /// Waits for the condition that ends a step, and shows the reconciles meanwhile.
    async fn until(
        &self,
        host: &mut Host,
        table: &Table,
        start: Timestamp,
        title: &str,
        is_reached: impl Fn(&Scene) -> bool,
    ) -> Result<()> {
        table.title(title);
        loop {
            let scene = self.look().await?;
            let done = is_reached(&scene);
            table.rows(start, &host.reconciled()?);
            if done {
                table.end(start, &scene.describe());
                return Ok(());
            }
            if since(start) > PATIENCE {
                bail!(
                    "\"{title}\" did not succeed within {} s: {}",
                    PATIENCE.as_secs(),
                    scene.describe()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Scene {
    /// Whether the Deployment's status counts this number of pods as up to date and available, and
    /// no other pods exist.
    fn is_settled(&self, replicas: i32) -> bool {
        let Some(status) = &self.deployment.status else {
            return false;
        };
        let count = |value: Option<i32>| value.unwrap_or(0);
        status.observed_generation == self.deployment.metadata.generation
            && count(status.replicas) == replicas
            && count(status.updated_replicas) == replicas
            && count(status.available_replicas) == replicas
            && i32::try_from(self.pods.len()) == Ok(replicas)
    }

    fn has(&self, pod: &str) -> bool {
        self.pods.iter().any(|known| known.name_any() == pod)
    }

    fn all_run(&self, image: &str) -> bool {
        let images = self
            .pods
            .iter()
            .flat_map(|pod| pod.spec.iter().flat_map(|spec| &spec.containers));
        images
            .into_iter()
            .all(|container| container.image.as_deref() == Some(image))
    }

    fn describe(&self) -> String {
        let ready = self.pods.iter().filter(|pod| is_ready(pod)).count();
        let nodes: std::collections::BTreeSet<&str> = self
            .pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
            .collect();
        match self.pods.len() {
            0 => "no pods".into(),
            pods => format!("{pods} pods, {ready} Ready, on {} nodes", nodes.len()),
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
