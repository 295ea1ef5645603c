//! `cargo xtask demo`: shows Flyball at work on a real API server, step by step.

mod cluster;
mod host;
mod story;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use flyball_controlplane::{ControlPlane, Options};
use k8s_openapi::jiff::Timestamp;

use self::host::Host;
use crate::build::{self, Guest};

/// Show the life of a Deployment on a local control plane, which stays up until Ctrl-C
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// End after the last step
    #[arg(long)]
    once: bool,
    /// Show the greeter on this cluster instead, in one namespace that is deleted afterwards
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    kubeconfig: Option<PathBuf>,
}

/// Plays the demo.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let built = build::all()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    runtime.block_on(async {
        match &arguments.kubeconfig {
            Some(kubeconfig) => cluster::play(kubeconfig, &built).await,
            None => play(arguments.once, &built).await,
        }
    })
}

fn since(start: Timestamp) -> Duration {
    Timestamp::now().duration_since(start).unsigned_abs()
}

async fn play(once: bool, built: &build::Built) -> Result<()> {
    println!(
        "\nStarting a control plane: etcd, kube-apiserver and kube-scheduler, with TLS and RBAC, on loopback."
    );
    let plane = ControlPlane::start(Options::default()).await?;
    println!("The API server serves at {}.", plane.url());

    let plugins = plane.dir().join("plugins");
    std::fs::create_dir(&plugins).context("can't create a folder for the demo's plugin")?;
    let kubelet = built.guest(Guest::FakeKubelet);
    std::fs::copy(&kubelet, plugins.join("fake-kubelet.wasm"))
        .with_context(|| format!("can't copy {} to the demo's plugins", kubelet.display()))?;
    let mut host = Host::start(
        &built.host,
        plane.dir(),
        &[
            format!("--kubeconfig={}", plane.kcm_kubeconfig_path().display()),
            "--use-service-account-credentials=true".into(),
            "--controllers=*".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=300".into(),
        ],
    )?;
    // The fake nodes run in a separate host, with the rights of a kubelet.
    let nodes = Host::start_as(
        "nodes",
        &built.host,
        plane.dir(),
        &[
            format!("--kubeconfig={}", plane.kubeconfig_path().display()),
            "--controllers=".into(),
            format!("--plugin-dir={}", plugins.display()),
            "--trust-plugins".into(),
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ],
    )?;
    let client = plane.admin_client()?;
    let result = tokio::select! {
        result = story::play(&client, &mut host) => result,
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
        tokio::signal::ctrl_c()
            .await
            .context("can't wait for Ctrl-C")?;
    }
    host.stop().await?;
    nodes.stop().await?;
    plane.shutdown().await?;
    result
}
