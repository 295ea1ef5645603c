//! `cargo xtask demo`: shows Flyball at work on a real API server, step by step.

mod binder;
mod cloud;
mod cluster;
mod host;
mod nodes;
mod stage;
mod story;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use flyball_controlplane::{Assets, ControlPlane, Options};
use xtask::build;
use xtask::run::{exit_code, say};

use self::cloud::Cloud;
use self::host::Host;
use self::nodes::{HEARTBEAT, Nodes};

/// Show a small cluster whose only controller manager is Flyball; it stays up until Ctrl-C
#[derive(Parser)]
#[command(name = "demo", bin_name = "cargo xtask demo", max_term_width = 100)]
struct Arguments {
    /// End after the last step
    #[arg(long)]
    once: bool,
    /// Show the greeter on this cluster instead, in one namespace that is deleted afterwards
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    kubeconfig: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let assets = match arguments.kubeconfig {
        Some(_) => None,
        None => Assets::installed(None).ok(),
    };
    let (built, assets) = match (&arguments.kubeconfig, assets) {
        (Some(_), assets) => (build::all(build::Profile::Dev)?, assets),
        (None, Some(assets)) => {
            say(&format!("using {assets}"));
            (build::all(build::Profile::Dev)?, Some(assets))
        }
        (None, None) => {
            say("neither KUBEBUILDER_ASSETS nor PATH has etcd and kube-apiserver: building them");
            let (built, assets) = build::all_and_control_plane(build::Profile::Dev)?;
            (built, Some(assets))
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    runtime.block_on(async {
        match (&arguments.kubeconfig, assets) {
            (Some(kubeconfig), _) => cluster::play(kubeconfig, &built).await,
            (None, assets) => {
                play(arguments.once, &built, assets.context("a control plane")?).await
            }
        }
    })
}

/// Number of nodes that don't die.
const LASTING_NODES: usize = 3;

async fn play(once: bool, built: &build::Built, assets: Assets) -> Result<()> {
    println!("\nStarting a control plane with TLS and RBAC, on loopback.");
    let scheduler = assets.has_scheduler();
    let options = Options {
        scheduler,
        ..Options::default()
    };
    let plane = ControlPlane::start(assets, options).await?;
    println!("The API server serves at {}.", plane.url());
    if !scheduler {
        println!("There is no kube-scheduler, so the demo binds the pods.");
    }

    let names = (0..LASTING_NODES).map(|number| format!("node-{number}"));
    let names: Vec<String> = names.chain([story::FAILING_NODE.to_owned()]).collect();
    let cloud = Cloud::start(plane.dir(), built, &names).await?;
    println!("The sample cloud has an instance for each node.");
    let mut flags = vec![
        format!("--kubeconfig={}", plane.kcm_kubeconfig_path().display()),
        "--use-service-account-credentials=true".into(),
        "--controllers=*".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=300".into(),
        // A dead node is noticed soon.
        "--node-monitor-period=1s".into(),
        format!("--node-monitor-grace-period={}s", 5 * HEARTBEAT.as_secs()),
    ];
    flags.extend(cloud.flags.iter().cloned());
    let mut host = Host::start(&built.host, plane.dir(), &flags)?;
    let nodes = Nodes::start(&plane, built, "nodes", "node-", LASTING_NODES)?;
    let mut failing = Nodes::start(&plane, built, "failing-node", "failing-", 1)?;
    let client = plane.admin_client()?;
    let result = tokio::select! {
        result = story::play(&client, &mut host, &cloud, names.len(), &mut failing) => result,
        error = binder::run(&client), if !scheduler => error,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    if let Err(error) = &result {
        eprintln!(
            "\nThe demo failed: {error:#}\n\nThe last lines of the host's log:\n{}",
            host.log_tail()
        );
    } else if !once {
        println!("\nLook around, in another terminal:");
        println!("  export KUBECONFIG={}", plane.kubeconfig_path().display());
        println!("  kubectl get pods -w");
        println!("  kubectl create deployment web --image=nginx --replicas=3");
        println!("The host's log: {}", host.log_path().display());
        println!("Ctrl-C ends everything.");
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped.context("can't wait for Ctrl-C")?,
            error = binder::run(&client), if !scheduler => error?,
        }
    }
    host.stop().await?;
    nodes.stop().await?;
    failing.stop().await?;
    plane.shutdown().await?;
    result
}
