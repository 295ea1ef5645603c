//! The sample cloud of a cluster, and the cloud controller managers: that of Flyball with the provider in Rust, and the
//! stock one with the provider in Go. Both providers are clients of the same cloud.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use flyball_controlplane::{Process, cloud_controller_manager};
use flyball_sample_cloud::Server;

use crate::{Cluster, guest};

/// The provider of Flyball: its plugin, and the name of its file.
const PROVIDER: &str = "cloud-sample";
/// The provider of the stock manager.
const STOCK_PROVIDER: &str = "sample";

impl Cluster {
    /// Starts the sample cloud.
    ///
    /// # Errors
    /// It can't listen.
    pub async fn start_cloud(&mut self) -> Result<()> {
        self.cloud = Some(Server::start("127.0.0.1:0", None).await?);
        Ok(())
    }

    /// The sample cloud.
    ///
    /// # Errors
    /// It was not started.
    pub fn cloud(&self) -> Result<&Server> {
        self.cloud
            .as_ref()
            .context("the plane of the scenario has no cloud")
    }

    /// Starts the cloud controller manager of Flyball, with these controllers (in the syntax of `--controllers`) and flags.
    ///
    /// # Errors
    /// The host or the provider has not been built.
    pub fn spawn_cloud_host(&self, controllers: &str, flags: &[String]) -> Result<Process> {
        let plugins = self.folder_with("cloud-plugins", &[guest(PROVIDER)?])?;
        let policy = self.plane.dir().join("cloud-policy.toml");
        let url = self.cloud()?.url();
        let server = url.trim_start_matches("http://");
        let grants = format!(
            "[plugins.{PROVIDER}]\nfile = \"{PROVIDER}.wasm\"\nhttp-hosts = [\"http://{server}\"]\n"
        );
        std::fs::write(&policy, grants)
            .with_context(|| format!("can't write {}", policy.display()))?;
        let mut args = self.cloud_flags(PROVIDER, controllers)?;
        args.push(format!("--plugin-dir={}", plugins.display()));
        args.push(format!("--policy={}", policy.display()));
        args.extend_from_slice(flags);
        self.spawn_cloud_controllers(&args)
    }

    /// Starts the cloud controller manager of Flyball with these arguments.
    ///
    /// # Errors
    /// The host has not been built.
    pub fn spawn_cloud_controllers(&self, args: &[String]) -> Result<Process> {
        let kubeconfig = self.plane.kcm_kubeconfig_path();
        self.spawn_command("cloud-controllers", &["cloud", "run"], kubeconfig, args)
    }

    /// Starts the stock cloud-controller-manager, with these controllers and flags. The first call on a machine builds it,
    /// which takes minutes.
    ///
    /// # Errors
    /// It can't be built or started.
    pub fn spawn_stock_cloud_manager(
        &self,
        controllers: &str,
        flags: &[String],
    ) -> Result<Process> {
        let mut command = Command::new(cloud_controller_manager()?);
        let kubeconfig = self.plane.kcm_kubeconfig_path();
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--leader-elect=false", "--secure-port=0"])
            .args(self.cloud_flags(STOCK_PROVIDER, controllers)?)
            .args(flags);
        let log = self.plane.dir().join("cloud-controller-manager.log");
        Process::spawn("cloud-controller-manager", command, &log)
    }

    /// The flags of both managers.
    fn cloud_flags(&self, provider: &str, controllers: &str) -> Result<Vec<String>> {
        Ok(vec![
            format!("--controllers={controllers}"),
            format!("--cloud-provider={provider}"),
            format!("--cloud-config={}", self.cloud_config()?.display()),
            "--use-service-account-credentials=true".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=300".into(),
        ])
    }

    /// The file of `--cloud-config`. Routes lead to the addresses of nodes.
    fn cloud_config(&self) -> Result<PathBuf> {
        let path = self.plane.dir().join("cloud.json");
        let config = serde_json::json!({"url": self.cloud()?.url(), "nodeAddresses": true});
        std::fs::write(&path, config.to_string())
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }
}
