//! Services of type LoadBalancer over nodes that come and go, with the sample cloud.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use flyball_cluster_tests::Cluster;
use flyball_controlplane::Options;
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{NAMESPACE, QUIET, REST, create_all, create_namespace, plane, send_all};
use super::process::{cpu_seconds, peak_mib};
use super::report::Figures;
use super::wait::wait;

const CONTROLLERS: &str =
    "cloud-node-controller,cloud-node-lifecycle-controller,service-lb-controller";
/// The taint of nodes that the cloud is yet to be asked about. The server's own taint of new nodes stays, because no
/// controller here removes it.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// How often some nodes leave and as many others come, and which part of the nodes they are.
const ROUNDS: usize = 5;
const PART: usize = 50;

/// Measures from the start of the controllers until they have initialised all nodes, until each Service, one for two
/// nodes, has a load balancer of all nodes, and through some rounds in which nodes are replaced.
pub(super) async fn measure(subject: Subject, nodes: usize) -> Result<Figures> {
    let mut cluster = plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    cluster.start_cloud().await?;
    let client = cluster.client.clone();
    create_namespace(&client, NAMESPACE).await?;
    join(&cluster, 0..nodes).await?;

    let (mut figures, begun) = (Figures::default(), Instant::now());
    let mut flags = vec![
        "--node-monitor-period=1s".to_owned(),
        "--concurrent-service-syncs=10".into(),
        "--concurrent-node-syncs=10".into(),
    ];
    flags.extend(QUIET.iter().map(|&flag| flag.to_owned()));
    let mut controllers = match subject {
        Subject::Flyball => cluster.spawn_cloud_host(CONTROLLERS, &flags)?,
        Subject::Stock | Subject::StockBefore => {
            cluster.spawn_stock_cloud_manager(CONTROLLERS, &flags)?
        }
    };
    wait_for_nodes(&cluster, 0..nodes).await?;
    figures.push("start: time, s", begun.elapsed().as_secs_f64());

    let (services, begun) = (nodes / 2, Instant::now());
    create_all(&client, NAMESPACE, (0..services).map(service)).await?;
    wait_for_load_balancers(&cluster, services, 0..nodes).await?;
    figures.push("Services: time, s", begun.elapsed().as_secs_f64());

    let (part, begun) = ((nodes / PART).max(1), Instant::now());
    for round in 0..ROUNDS {
        let gone = round * part..(round + 1) * part;
        let new = nodes + gone.start..nodes + gone.end;
        let present = gone.end..new.end;
        leave(&cluster, gone).await?;
        join(&cluster, new).await?;
        wait_for_nodes(&cluster, present.clone()).await?;
        wait_for_load_balancers(&cluster, services, present).await?;
    }
    figures.push("nodes: time, s", begun.elapsed().as_secs_f64());

    tokio::time::sleep(REST).await;
    figures.push("CPU, s", cpu_seconds(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    let calls = cluster.cloud()?.ask("GET", "control/calls", &Value::Null)?;
    let calls = calls["calls"].as_array().map_or(0, Vec::len);
    figures.push("cloud calls", calls as f64);
    controllers.stop().await?;
    let mut writes = Writes::default();
    cluster
        .plane
        .each_audit_event(|event| writes.note_outside(&event, "kube-system"))?;
    figures.push("API writes", writes.total() as f64);
    cluster.shutdown().await?;
    Ok(figures)
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// Creates instances, and their nodes as kubelets register them.
async fn join(cluster: &Cluster, numbers: Range<usize>) -> Result<()> {
    let cloud = cluster.cloud()?;
    for number in numbers.clone() {
        let address = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        let instance = json!({
            "name": node_name(number), "type": "small", "zone": "a", "region": "r",
            "addresses": [{"type": "InternalIP", "address": address}],
        });
        cloud.ask("POST", "v1/instances", &instance)?;
    }
    let nodes = numbers.map(|number| {
        let taint = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(number)},
            "spec": {"taints": [taint]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    });
    create_all(&cluster.client, "", nodes).await
}

/// Deletes instances. Their nodes are no longer ready, and the controllers find out why.
async fn leave(cluster: &Cluster, numbers: Range<usize>) -> Result<()> {
    let cloud = cluster.cloud()?;
    for number in numbers.clone() {
        let path = format!("v1/instances/{}", node_name(number));
        cloud.ask("DELETE", &path, &Value::Null)?;
    }
    let client = &cluster.client;
    let status = &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let patches = numbers.map(|number| async move {
        api::patch_on(client, "Node", "", &node_name(number), "status", status).await
    });
    send_all(patches).await
}

fn service(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": service_name(number)},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

fn service_name(number: usize) -> String {
    format!("web-{number}")
}

/// Waits until the nodes are exactly these, all of them initialised.
async fn wait_for_nodes(cluster: &Cluster, numbers: Range<usize>) -> Result<()> {
    wait(
        "the nodes are initialised, and others deleted",
        async || {
            let nodes = api::list(&cluster.client, "Node", "").await?;
            let is_initialised = |node: &&Value| {
                let taints = node["spec"]["taints"].as_array();
                let mut taints = taints.into_iter().flatten();
                let is_tainted = taints.any(|taint| taint["key"] == UNINITIALIZED);
                node["spec"]["providerID"].is_string() && !is_tainted
            };
            let initialised = nodes.iter().filter(is_initialised);
            let surplus = nodes.len().saturating_sub(numbers.len());
            Ok((initialised.count().saturating_sub(surplus), numbers.len()))
        },
    )
    .await
}

/// Waits until each Service has a load balancer whose targets are exactly these nodes, and its address.
async fn wait_for_load_balancers(
    cluster: &Cluster,
    services: usize,
    nodes: Range<usize>,
) -> Result<()> {
    let cloud = cluster.cloud()?;
    let wanted: BTreeSet<String> = nodes.map(node_name).collect();
    // Those before need not be looked at again: nothing else changes them.
    let mut done = 0;
    wait("the load balancers have all nodes", async || {
        while done < services {
            let name = service_name(done);
            let path = format!("v1/load-balancers?service={NAMESPACE}/{name}");
            let found = cloud.ask("GET", &path, &Value::Null)?;
            let targets = found["loadBalancers"][0]["targets"].as_array();
            let targets = targets.into_iter().flatten().filter_map(Value::as_str);
            let targets: BTreeSet<&str> = targets.collect();
            let has_all = targets.len() == wanted.len()
                && wanted.iter().all(|name| targets.contains(name.as_str()));
            if !has_all {
                break;
            }
            done += 1;
        }
        if done < services {
            return Ok((done, services));
        }
        let all = api::list(&cluster.client, "Service", NAMESPACE).await?;
        let addressed = all
            .iter()
            .filter(|service| service["status"]["loadBalancer"]["ingress"].is_array());
        Ok((addressed.count(), services))
    })
    .await
}
