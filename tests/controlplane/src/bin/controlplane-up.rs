//! Runs a control plane until Ctrl-C or SIGTERM, and prints its URL and kubeconfig. If this process is killed, its
//! children are killed too.

use std::io::Write;

use flyball_controlplane::Options;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let assets = tokio::task::spawn_blocking(flyball_controlplane::find_or_build).await??;
    let plane = flyball_controlplane::start(Options {
        scheduler: assets.has_scheduler(),
        ..Options::default()
    })
    .await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "# serving at {}; press Ctrl-C to stop", plane.url())?;
    for (name, pid) in plane.pids() {
        writeln!(out, "# pid {pid} {name}")?;
    }
    writeln!(
        out,
        "export KUBECONFIG={}",
        plane.kubeconfig_path().display()
    )?;
    out.flush()?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result?,
        _ = terminate.recv() => {}
    }
    plane.shutdown().await
}
