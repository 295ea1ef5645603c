//! `cargo xtask bench`: what many Deployments cost under Flyball and under the stock kube-controller-manager, and what it
//! costs to call a guest.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flyball_cluster_tests::{Cluster, guest};
use flyball_controlplane::{Assets, Options, Process};
use flyball_differential::plane::WORKLOADS;
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use crate::run::{command, run, say};

const NAMESPACE: &str = "bench";
const NODES: usize = 20;
const PODS_PER_NODE: usize = 110;
const DEPLOYMENTS: usize = 20;
/// Limits of requests so high that they don't bind.
const QPS: u32 = 1000;
const BURST: u32 = 2000;
/// How often it is looked whether all is ready, how long that may take, and how long the controllers then get to rest.
const LOOK: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(600);
const REST: Duration = Duration::from_secs(3);

/// What a run cost.
struct Cost {
    ready: Duration,
    /// CPU time of the controllers' process from before the first Deployment until all is at rest.
    cpu: f64,
    /// CPU time before.
    start_cpu: f64,
    peak_mib: f64,
    writes: Writes,
}

/// Measures; `small` takes 20 replicas of each Deployment instead of 100.
pub(crate) fn measure(small: bool) -> Result<()> {
    let deployments = if small { 5 } else { DEPLOYMENTS };
    let replicas = if small { 20 } else { 100 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build()?;
    say(&format!("{deployments} Deployments with {replicas} replicas each, under Flyball"));
    let ours = runtime.block_on(load(Subject::Flyball, deployments, replicas))?;
    let stock = if Assets::find_or_build()?.has_kcm() {
        say("the same under stock");
        Some(runtime.block_on(load(Subject::Stock, deployments, replicas))?)
    } else {
        println!("Without a comparison: there is no kube-controller-manager among the binaries.");
        None
    };
    print(&ours, stock.as_ref());
    say("what crossing the boundary costs");
    let mut cargo = command("cargo");
    run(cargo.args(["run", "--release", "--quiet", "--package", "flyball-plugin", "--example", "boundary"]))
}

async fn load(subject: Subject, deployments: usize, replicas: usize) -> Result<Cost> {
    let cluster = Cluster::without_nodes(Options { audit: true, ..Options::default() }).await?;
    let mut nodes = start_nodes(&cluster)?;
    let mut controllers = subject.start(&cluster, &WORKLOADS, QPS, BURST)?;
    let client = &cluster.client;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api::create(client, "", &namespace).await?;
    wait("there are a service account and all nodes", async || {
        let accounts = api::list(client, "ServiceAccount", NAMESPACE).await?.len();
        let nodes = api::list(client, "Node", "").await?;
        let usable = nodes.iter().filter(|node| node["spec"]["taints"].is_null()).count();
        Ok((accounts + usable, NODES + 1))
    })
    .await?;

    let start_cpu = cpu(&controllers)?;
    let begun = Instant::now();
    for number in 0..deployments {
        api::create(client, NAMESPACE, &deployment(number, replicas)).await?;
    }
    wait("all pods are ready", async || {
        let deployments = api::list(client, "Deployment", NAMESPACE).await?;
        let ready: u64 = deployments.iter().filter_map(|object| object["status"]["readyReplicas"].as_u64()).sum();
        Ok((ready as usize, deployments.len() * replicas))
    })
    .await?;
    let ready = begun.elapsed();
    tokio::time::sleep(REST).await;
    let (cpu, peak_mib) = (cpu(&controllers)? - start_cpu, peak_mib(&controllers)?);
    controllers.stop().await?;
    nodes.stop().await?;
    let writes = Writes::count(&cluster.plane.audit_events()?, NAMESPACE);
    cluster.shutdown().await?;
    Ok(Cost { ready, cpu, start_cpu, peak_mib, writes })
}

fn start_nodes(cluster: &Cluster) -> Result<Process> {
    let plugins = cluster.folder_with("nodes", &[guest("fake-kubelet")?])?;
    let args = [
        "--controllers=".to_owned(),
        "--trust-plugins".into(),
        format!("--plugin-dir={}", plugins.display()),
        format!("--plugin-config=fake-kubelet.nodes={NODES}"),
        format!("--plugin-config=fake-kubelet.pods-per-node={PODS_PER_NODE}"),
        format!("--kube-api-qps={QPS}"),
        format!("--kube-api-burst={BURST}"),
    ];
    cluster.spawn_host("nodes", cluster.plane.kubeconfig_path(), &args)
}

fn deployment(number: usize, replicas: usize) -> Value {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        }},
    })
}

/// Waits until as much is there as is wanted.
async fn wait(what: &str, mut look: impl AsyncFnMut() -> Result<(usize, usize)>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let (there, wanted) = look().await?;
        if there >= wanted {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("waited {} s until {what}: {there} of {wanted}", PATIENCE.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The seconds of CPU time that a process has used: `utime` and `stime` of proc(5), which counts in hundredths.
fn cpu(process: &Process) -> Result<f64> {
    let text = proc_file(process, "stat")?;
    // The second field is a name in parentheses, which may hold spaces.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// The most memory that a process has had resident.
fn peak_mib(process: &Process) -> Result<f64> {
    let text = proc_file(process, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("there is no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().context("VmHWM is no number")?;
    Ok(kib / 1024.0)
}

fn proc_file(process: &Process, name: &str) -> Result<String> {
    let path = format!("/proc/{}/{name}", process.pid());
    fs::read_to_string(&path).with_context(|| format!("can't read {path}: {} has ended", process.name()))
}

fn print(ours: &Cost, stock: Option<&Cost>) {
    type Figure = (&'static str, fn(&Cost) -> f64);
    let figures: [Figure; 5] = [
        ("until all are ready, s", |cost| cost.ready.as_secs_f64()),
        ("CPU under load, s", |cost| cost.cpu),
        ("CPU at the start, s", |cost| cost.start_cpu),
        ("peak memory, MiB", |cost| cost.peak_mib),
        ("API writes", |cost| cost.writes.total() as f64),
    ];
    println!("{:<24} {:>10} {:>10} {:>12}", "", "Flyball", "stock", "ours/stock");
    for (name, figure) in figures {
        let ours = figure(ours);
        match stock.map(figure) {
            Some(stock) => println!("{name:<24} {ours:>10.2} {stock:>10.2} {:>12.2}", ours / stock),
            None => println!("{name:<24} {ours:>10.2} {:>10} {:>12}", "-", "-"),
        }
    }
    println!("writes of Flyball: {}", ours.writes);
    if let Some(stock) = stock {
        println!("writes of stock: {}", stock.writes);
    }
}
