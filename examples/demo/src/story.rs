//! The steps of the demo: workloads of each kind come up on a small cluster, a node dies, and everything is deleted.

use anyhow::{Context, Result};
use flyball_controlplane::api;
use kube::Client;
use serde_json::{Value, json};

use super::cloud::Cloud;
use super::host::Host;
use super::stage::{Observation, Stage};

/// The namespace of all objects of the demo.
const NAMESPACE: &str = "demo";
/// The node that dies.
pub(super) const FAILING_NODE: &str = "failing-0";
/// Seconds that pods stay bound to a node that can't be reached.
const TOLERATION_SECONDS: u32 = 2;

/// The kubelet of the node that dies. It can be stopped and started again.
pub(super) trait Kubelet {
    /// Kills the kubelet.
    fn kill(&mut self) -> Result<()>;
    /// Starts the kubelet again.
    fn start(&mut self) -> Result<()>;
}

/// Plays all steps on a cluster with this number of nodes, and shows the host's reconciles in each.
pub(super) async fn play(
    client: &Client,
    host: &mut Host,
    cloud: &Cloud,
    nodes: usize,
    kubelet: &mut impl Kubelet,
) -> Result<()> {
    let mut stage = Stage::new(client.clone(), host);
    stage
        .step(
            &format!(
                "{nodes} nodes join, whose instances the cloud has, and a namespace is created"
            ),
            async |client| create(client, namespace()).await,
            async |client| nodes_and_namespace(client, nodes).await,
        )
        .await?;
    stage
        .begin(
            "A CronJob backup is created, which is due every 5 seconds",
            "demo/backup",
            async |client| create(client, cron_job()).await,
        )
        .await?;
    services(&mut stage).await?;
    load_balancer(&mut stage, cloud, nodes).await?;
    workloads(&mut stage, nodes).await?;
    outage(&mut stage, nodes, kubelet).await?;
    stage
        .finish("The CronJob's first time has come", first_job)
        .await?;
    stage
        .step(
            "The namespace is deleted",
            async |client| api::delete(client, "Namespace", "", NAMESPACE).await,
            async |client| {
                let left = api::get(client, "Namespace", "", NAMESPACE).await?;
                let pods = api::list(client, "Pod", NAMESPACE).await?.len();
                let targets = cloud.targets(&format!("{NAMESPACE}/web"))?;
                Ok(Observation {
                    done: left.is_none() && targets.is_none(),
                    description: format!("{pods} pods remain"),
                })
            },
        )
        .await?;
    stage.summarise();
    println!("\nAll steps succeeded.");
    Ok(())
}

/// A Deployment behind a Service.
async fn services(stage: &mut Stage<'_>) -> Result<()> {
    let settled = async |client: &Client| web(client).await.map(|web| web.observation(4, None));
    stage
        .step(
            "A Deployment web with 4 replicas and its Service are created",
            async |client| {
                create(client, service()).await?;
                create(client, deployment()).await
            },
            settled,
        )
        .await?;
    stage
        .step(
            "A pod of web is deleted",
            async |client| {
                let pods = web(client).await?.pods;
                let pod = pods.first().context("web has no pod to delete")?;
                api::delete(client, "Pod", NAMESPACE, name(pod)).await
            },
            settled,
        )
        .await?;
    stage
        .step(
            "The image of web is changed: a rolling update",
            async |client| {
                let template = pod_template("web", "web:2");
                let patch = json!({"spec": {"template": template}});
                api::patch(client, "Deployment", NAMESPACE, "web", &patch)
                    .await
                    .map(drop)
            },
            async |client| {
                web(client)
                    .await
                    .map(|web| web.observation(4, Some("web:2")))
            },
        )
        .await
}

/// A load balancer of the cloud for the Service.
async fn load_balancer(stage: &mut Stage<'_>, cloud: &Cloud, nodes: usize) -> Result<()> {
    stage
        .step(
            "The Service web becomes one of type LoadBalancer",
            async |client| {
                let patch = json!({"spec": {"type": "LoadBalancer"}});
                api::patch(client, "Service", NAMESPACE, "web", &patch).await
            },
            async |client| {
                let service = api::get(client, "Service", NAMESPACE, "web").await?;
                let service = service.context("the Service web does not exist")?;
                let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
                let targets = cloud.targets(&format!("{NAMESPACE}/web"))?.unwrap_or(0);
                Ok(Observation {
                    done: address.is_some() && targets == nodes,
                    description: format!(
                        "the cloud has given it {}, for {targets} nodes",
                        address.unwrap_or("no address")
                    ),
                })
            },
        )
        .await
}

/// A StatefulSet and a DaemonSet.
async fn workloads(stage: &mut Stage<'_>, nodes: usize) -> Result<()> {
    stage
        .step(
            "A StatefulSet db with 3 ordered replicas is created",
            async |client| create(client, stateful_set()).await,
            async |client| status(client, "StatefulSet", "db", "readyReplicas", 3).await,
        )
        .await?;
    stage
        .step(
            "A DaemonSet agent is created",
            async |client| create(client, daemon_set()).await,
            async |client| status(client, "DaemonSet", "agent", "numberAvailable", nodes).await,
        )
        .await
}

/// A node dies and comes back.
async fn outage(stage: &mut Stage<'_>, nodes: usize, kubelet: &mut impl Kubelet) -> Result<()> {
    stage
        .step(
            &format!("The node {FAILING_NODE} dies"),
            async |_| kubelet.kill(),
            async |client| {
                let web = web(client).await?;
                let stranded = web.pods.iter().filter(|pod| is_stranded(pod)).count();
                let observed = web.observation(4, None);
                Ok(Observation {
                    done: observed.done && stranded == 0,
                    description: format!("{}; {stranded} on {FAILING_NODE}", observed.description),
                })
            },
        )
        .await?;
    stage
        .step(
            &format!("The node {FAILING_NODE} comes back"),
            async |_| kubelet.start(),
            async |client| status(client, "DaemonSet", "agent", "numberAvailable", nodes).await,
        )
        .await
}

/// Whether the CronJob has created a Job, which completed.
async fn first_job(client: &Client) -> Result<Observation> {
    let jobs = api::list(client, "Job", NAMESPACE).await?;
    let complete = jobs.iter().filter(|job| job["status"]["succeeded"] == 1);
    let complete = complete.count();
    let scheduled = api::get(client, "CronJob", NAMESPACE, "backup")
        .await?
        .is_some_and(|cron_job| cron_job["status"]["lastSuccessfulTime"].is_string());
    Ok(Observation {
        done: complete > 0 && scheduled,
        description: format!("{} Jobs, {complete} complete", jobs.len()),
    })
}

/// The pods of the Deployment `web` that are not being deleted, and its Service's ready addresses.
struct Web {
    deployment: Value,
    pods: Vec<Value>,
    addresses: usize,
}

async fn web(client: &Client) -> Result<Web> {
    let deployment = api::get(client, "Deployment", NAMESPACE, "web")
        .await?
        .context("the Deployment web does not exist")?;
    let mut pods = api::list(client, "Pod", NAMESPACE).await?;
    pods.retain(|pod| {
        pod["metadata"]["labels"]["app"] == "web" && pod["metadata"]["deletionTimestamp"].is_null()
    });
    let slices = api::list(client, "EndpointSlice", NAMESPACE).await?;
    let endpoints = slices
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    let addresses = endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .count();
    Ok(Web {
        deployment,
        pods,
        addresses,
    })
}

impl Web {
    /// Whether the Deployment has this number of available pods, and all of them run this image and are addresses of
    /// the Service.
    fn observation(&self, replicas: usize, image: Option<&str>) -> Observation {
        let status = &self.deployment["status"];
        let settled = ["replicas", "updatedReplicas", "availableReplicas"]
            .into_iter()
            .all(|count| status[count] == replicas)
            && status["observedGeneration"] == self.deployment["metadata"]["generation"];
        let runs =
            |pod: &Value| image.is_none_or(|image| pod["spec"]["containers"][0]["image"] == image);
        let ready = self.pods.iter().filter(|pod| is_ready(pod)).count();
        Observation {
            done: settled
                && self.pods.len() == replicas
                && ready == replicas
                && self.pods.iter().all(runs)
                && self.addresses == replicas,
            description: format!(
                "{} pods, {ready} Ready, {} addresses",
                self.pods.len(),
                self.addresses
            ),
        }
    }
}

/// Whether a number in an object's status has this value.
async fn status(
    client: &Client,
    kind: &str,
    name: &str,
    field: &str,
    expected: usize,
) -> Result<Observation> {
    let object = api::get(client, kind, NAMESPACE, name)
        .await?
        .with_context(|| format!("the {kind} {name} does not exist"))?;
    let count = object["status"][field].as_u64().unwrap_or(0);
    Ok(Observation {
        done: count == expected as u64,
        description: format!("{field} is {count}"),
    })
}

/// Whether all nodes are Ready and the namespace can be used.
async fn nodes_and_namespace(client: &Client, expected: usize) -> Result<Observation> {
    let nodes = api::list(client, "Node", "").await?;
    let usable = nodes
        .iter()
        .filter(|node| is_ready(node) && node["spec"]["taints"].is_null())
        .count();
    let account = api::get(client, "ServiceAccount", NAMESPACE, "default").await?;
    let bundle = api::get(client, "ConfigMap", NAMESPACE, "kube-root-ca.crt").await?;
    Ok(Observation {
        done: usable == expected && account.is_some() && bundle.is_some(),
        description: format!("{usable} nodes are Ready and untainted"),
    })
}

async fn create(client: &Client, object: Value) -> Result<()> {
    api::create(client, NAMESPACE, &object).await.map(drop)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn is_stranded(pod: &Value) -> bool {
    pod["spec"]["nodeName"] == FAILING_NODE
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template("web", "web:1"),
        },
    })
}

fn stateful_set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": pod_template("db", "db:1"),
        },
    })
}

fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": pod_template("agent", "agent:1"),
        },
    })
}

fn cron_job() -> Value {
    let mut template = pod_template("backup", "backup:1");
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"] = json!({"fake-kubelet.flyball.dev/exit-code": "0"});
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "backup"},
        "spec": {
            "schedule": "@every 5s",
            "jobTemplate": {"spec": {"template": template}},
        },
    })
}

/// A pod template whose pods leave a dead node soon.
fn pod_template(app: &str, image: &str) -> Value {
    let tolerations: Vec<Value> = ["not-ready", "unreachable"]
        .into_iter()
        .map(|taint| {
            json!({
                "key": format!("node.kubernetes.io/{taint}"),
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            })
        })
        .collect();
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": app, "image": image}],
            "terminationGracePeriodSeconds": 1,
            "tolerations": tolerations,
        },
    })
}
