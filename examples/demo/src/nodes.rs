//! The nodes of the demo: hosts that run only the fake kubelet, with the rights of a kubelet.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use flyball_controlplane::ControlPlane;
use xtask::build::Built;
use xtask::guests::names::Guest;

use super::host::Host;
use super::story::Kubelet;

/// How often a node reports that it is alive.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);

/// The kubelet of some nodes.
pub(super) struct Nodes {
    name: String,
    binary: PathBuf,
    folder: PathBuf,
    args: Vec<String>,
    /// `None` after the kubelet was killed.
    running: Option<Host>,
}

impl Nodes {
    /// Starts the kubelet of `count` nodes whose names begin with the prefix.
    pub(super) fn start(
        plane: &ControlPlane,
        built: &Built,
        name: &str,
        prefix: &str,
        count: usize,
    ) -> Result<Self> {
        let plugins = plane.dir().join(format!("{name}-plugins"));
        std::fs::create_dir(&plugins).context("can't create a folder for the demo's plugin")?;
        let kubelet = built.guest(Guest::FakeKubelet);
        std::fs::copy(&kubelet, plugins.join("fake-kubelet.wasm"))
            .with_context(|| format!("can't copy {} to the demo's plugins", kubelet.display()))?;
        let config = |key: &str, value: &str| format!("--plugin-config=fake-kubelet.{key}={value}");
        let mut nodes = Self {
            name: name.into(),
            binary: built.host.clone(),
            folder: plane.dir().into(),
            args: vec![
                format!("--kubeconfig={}", plane.kubeconfig_path().display()),
                "--controllers=".into(),
                format!("--plugin-dir={}", plugins.display()),
                "--trust-plugins".into(),
                "--kube-api-qps=500".into(),
                "--kube-api-burst=1000".into(),
                config("nodes", &count.to_string()),
                config("node-prefix", prefix),
                config("heartbeat-period", &format!("{}s", HEARTBEAT.as_secs())),
                config("remove-not-ready-taint", "false"),
                config("external-cloud", "true"),
            ],
            running: None,
        };
        Kubelet::start(&mut nodes)?;
        Ok(nodes)
    }

    /// Stops the kubelet, if it runs.
    pub(super) async fn stop(self) -> Result<()> {
        match self.running {
            Some(host) => host.stop().await,
            None => Ok(()),
        }
    }
}

impl Kubelet for Nodes {
    fn kill(&mut self) -> Result<()> {
        match self.running.take() {
            Some(host) => host.kill(),
            None => Ok(()),
        }
    }

    fn start(&mut self) -> Result<()> {
        let host = Host::start_as(&self.name, &self.binary, &self.folder, &self.args)?;
        self.running = Some(host);
        Ok(())
    }
}
