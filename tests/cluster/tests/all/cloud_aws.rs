//! Kubernetes' provider for AWS as a plugin of Flyball and in the stock aws-cloud-controller-manager, with the same cluster
//! and the same cloud: both leave the same objects and events behind.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, guest, until_within};
use flyball_controlplane::{Moto, Process, Vpc, api, aws_cloud_controller_manager, skip};
use serde_json::{Value, json};

/// The plugin.
const PROVIDER: &str = "cloud-aws";
const CONTROLLERS: &str =
    "cloud-node-controller,cloud-node-lifecycle-controller,service-lb-controller";
/// The time that a host may take to compile the plugin on a busy machine. The provider asks moto again and again for what
/// moto doesn't have, too.
const PATIENCE: Duration = Duration::from_secs(600);
const NAMESPACE: &str = "aws";
const NODE: &str = "node-0";
const SERVICE: &str = "web";
/// The variables with the credentials. Moto checks none.
const CREDENTIALS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// Who runs the provider.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Flyball,
    Stock,
}

#[tokio::test]
#[ignore = "compiles a large plugin and builds the stock manager, which takes minutes"]
async fn the_provider_for_aws_does_the_same_as_in_its_own_manager() -> Result<()> {
    let test = "the_provider_for_aws_does_the_same_as_in_its_own_manager";
    let Ok(component) = guest(PROVIDER) else {
        return skip(test, "Go is missing");
    };
    let mut left = Vec::new();
    for subject in [Subject::Stock, Subject::Flyball] {
        let Some(moto) = Moto::start().await? else {
            return skip(test, "moto_server is not installed");
        };
        let cluster = Cluster::for_plugins().await?;
        let mut found = Vec::new();
        let result = play(subject, &cluster, &moto, component.clone(), &mut found).await;
        let result = result.with_context(|| format!("under {subject:?}"));
        finish(cluster, [], result).await?;
        left.push(found);
    }
    ensure!(
        left[0] == left[1],
        "stock and Flyball differ: {} and {}",
        json!(left[0]),
        json!(left[1])
    );
    Ok(())
}

/// Plays the scenario, and adds what each step left behind.
async fn play(
    subject: Subject,
    cluster: &Cluster,
    moto: &Moto,
    component: PathBuf,
    found: &mut Vec<Value>,
) -> Result<()> {
    let vpc = Vpc::create(moto, 2).await?;
    let client = &cluster.client;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api::create(client, "", &namespace).await?;
    api::create(client, "", &node(&vpc)).await?;
    let mut manager = match subject {
        Subject::Flyball => start_flyball(cluster, moto, &vpc, component).await?,
        Subject::Stock => start_stock(cluster, moto, &vpc).await?,
    };

    let initialised = until_within(PATIENCE, "the node is initialised", async || {
        let node = api::get(client, "Node", "", NODE).await?;
        let node = node.context("the node is gone")?;
        let has_addresses = node["status"]["addresses"].is_array();
        Ok(if node["spec"]["taints"].is_null() && has_addresses {
            Ok(node)
        } else {
            Err(node.to_string())
        })
    });
    found.push(shown_node(&initialised.await?));

    api::create(client, NAMESPACE, &service()).await?;
    let balanced = until_within(PATIENCE, "the Service has a load balancer", async || {
        let service = api::get(client, "Service", NAMESPACE, SERVICE).await?;
        let service = service.context("the Service is gone")?;
        Ok(if service["status"]["loadBalancer"]["ingress"].is_array() {
            Ok(service)
        } else {
            Err(service.to_string())
        })
    });
    found.push(shown_service(&balanced.await?));

    api::delete(client, "Service", NAMESPACE, SERVICE).await?;
    gone(cluster, "Service", NAMESPACE, SERVICE).await?;
    moto.ec2(&format!(
        "Action=TerminateInstances&InstanceId.1={}",
        vpc.instances[0]
    ))
    .await?;
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    api::patch_on(client, "Node", "", NODE, "status", &unknown).await?;
    gone(cluster, "Node", "", NODE).await?;
    // Events are written beside the changes that they are about.
    let events = until_within(PATIENCE, "the last event is written", async || {
        let all = events(cluster).await?;
        let is_last = |event: &String| event.ends_with("DeletingNode");
        Ok(if all.iter().any(is_last) {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        })
    });
    found.push(json!(events.await?));
    manager.stop().await?;
    Ok(())
}

async fn gone(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> Result<()> {
    until_within(PATIENCE, &format!("the {kind} is gone"), async || {
        let object = api::get(&cluster.client, kind, namespace, name).await?;
        Ok(object.map_or(Ok(()), |object| Err(object.to_string())))
    })
    .await
}

/// The flags of both managers.
fn flags(cluster: &Cluster, moto: &Moto, vpc: &Vpc, provider: &str) -> Result<Vec<String>> {
    let config = cluster.plane.dir().join("cloud.conf");
    std::fs::write(&config, vpc.config(moto))?;
    Ok(vec![
        format!("--controllers={CONTROLLERS}"),
        format!("--cloud-provider={provider}"),
        format!("--cloud-config={}", config.display()),
        "--use-service-account-credentials=true".into(),
        "--node-monitor-period=1s".into(),
    ])
}

async fn start_flyball(
    cluster: &Cluster,
    moto: &Moto,
    vpc: &Vpc,
    component: PathBuf,
) -> Result<Process> {
    let credentials = cluster.folder_with("aws-credentials", &[])?;
    for name in CREDENTIALS {
        std::fs::write(credentials.join(name), "none")?;
    }
    let policy = cluster.plane.dir().join("aws-policy.toml");
    let grants = format!(
        "[plugins.{PROVIDER}]\nfile = \"{PROVIDER}.wasm\"\nhttp-hosts = [\"{}\"]\n\
         [plugins.{PROVIDER}.credentials]\nfolder = \"{}\"\n\
         [plugins.{PROVIDER}.limits]\nwall = \"10m\"\nmemory = \"256Mi\"\n\
         [[plugins.{PROVIDER}.allow]]\nkinds = [\"v1/Node\"]\nverbs = [\"watch\"]\n",
        moto.url(),
        credentials.display()
    );
    std::fs::write(&policy, grants)?;
    cluster.apply_roles(&policy, &component).await?;
    let plugins = cluster.folder_with("aws-plugins", &[component])?;
    let mut args = flags(cluster, moto, vpc, PROVIDER)?;
    args.push(format!("--plugin-dir={}", plugins.display()));
    args.push(format!("--policy={}", policy.display()));
    cluster.spawn_cloud_controllers(&args)
}

async fn start_stock(cluster: &Cluster, moto: &Moto, vpc: &Vpc) -> Result<Process> {
    let mut command = Command::new(aws_cloud_controller_manager().await?);
    let kubeconfig = cluster.plane.kcm_kubeconfig_path();
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(flags(cluster, moto, vpc, "aws")?)
        .env("AWS_EC2_METADATA_DISABLED", "true");
    for name in CREDENTIALS {
        command.env(name, "none");
    }
    let log = cluster.plane.dir().join("aws-cloud-controller-manager.log");
    Process::spawn("aws-cloud-controller-manager", command, &log)
}

/// A node as its kubelet registers it, with its provider ID.
fn node(vpc: &Vpc) -> Value {
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "spec": {"providerID": vpc.provider_id(0), "taints": [taint]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": SERVICE,
            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

/// What the manager has written of a node: labels, and the types of addresses, which moto draws by lot.
fn shown_node(node: &Value) -> Value {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let types: Vec<&Value> = addresses.map(|address| &address["type"]).collect();
    json!({"labels": node["metadata"]["labels"], "addresses": types})
}

/// What the manager has written of a Service. The name of its load balancer comes from its UID.
fn shown_service(service: &Value) -> Value {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let names = ingress.into_iter().flatten().map(|one| {
        let name = one["hostname"].as_str().unwrap_or_default();
        name.split_once('.').map(|(_, domain)| domain)
    });
    json!({"finalizers": service["metadata"]["finalizers"], "domains": names.collect::<Vec<_>>()})
}

/// The kinds, components and reasons of all events about the node and the Service.
async fn events(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for namespace in [NAMESPACE, "default"] {
        for event in api::list(&cluster.client, "Event", namespace).await? {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let about = &event["involvedObject"];
            if [NODE, SERVICE].contains(&&*text(&about["name"])) {
                let words = [
                    &event["type"],
                    &event["source"]["component"],
                    &about["kind"],
                    &event["reason"],
                ];
                all.insert(words.map(text).join(" "));
            }
        }
    }
    Ok(all)
}
