//! The cloud of the demo: the sample cloud in this process, with an instance for each node, and its provider as a plugin of
//! the host.

use std::path::Path;

use anyhow::{Context, Result};
use flyball_sample_cloud::Server;
use serde_json::{Value, json};
use xtask::build::Built;
use xtask::guests::names::Guest;

/// The provider's name, and that of its file.
const PROVIDER: &str = "cloud-sample";

/// A running cloud.
pub(super) struct Cloud {
    server: Server,
    /// The flags of a host that uses this cloud.
    pub(super) flags: Vec<String>,
}

impl Cloud {
    /// Starts the cloud with an instance for each of these nodes. The plugin and its policy are written into a folder.
    pub(super) async fn start(folder: &Path, built: &Built, nodes: &[String]) -> Result<Self> {
        let server = Server::start("127.0.0.1:0", None).await?;
        for name in nodes {
            let instance =
                json!({"name": name, "type": "small", "zone": "zone-a", "region": "region-a"});
            server.ask("POST", "v1/instances", &instance)?;
        }
        let plugins = folder.join("cloud-plugins");
        std::fs::create_dir(&plugins).context("can't create a folder for the demo's cloud")?;
        let provider = built.guest(Guest::CloudSample);
        std::fs::copy(&provider, plugins.join(format!("{PROVIDER}.wasm")))
            .with_context(|| format!("can't copy {} to the demo's plugins", provider.display()))?;
        let url = server.url();
        let files = [
            (
                "cloud-policy.toml",
                format!(
                    "[plugins.{PROVIDER}]\nfile = \"{PROVIDER}.wasm\"\nhttp-hosts = [\"{url}\"]\n"
                ),
            ),
            ("cloud.json", json!({"url": url}).to_string()),
        ];
        for (name, text) in &files {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("can't write {}", path.display()))?;
        }
        let [policy, config] = files.map(|(name, _)| folder.join(name).display().to_string());
        let flags = vec![
            format!("--cloud-provider={PROVIDER}"),
            format!("--cloud-config={config}"),
            format!("--plugin-dir={}", plugins.display()),
            format!("--policy={policy}"),
            // The nodes of the demo need no routes.
            "--configure-cloud-routes=false".into(),
        ];
        Ok(Self { server, flags })
    }

    /// Returns the number of nodes behind the load balancer of a Service, which is named as `namespace/name`; none if it has
    /// no load balancer.
    pub(super) fn targets(&self, service: &str) -> Result<Option<usize>> {
        let path = format!("v1/load-balancers?service={service}");
        let found = self.server.ask("GET", &path, &Value::Null)?;
        Ok(found["loadBalancers"][0]["targets"]
            .as_array()
            .map(Vec::len))
    }
}
