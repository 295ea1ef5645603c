//! End-to-end tests against a real API server: a control plane, the host under test, and a second
//! host that runs the fake kubelet and, if a test adds them, fake CSI drivers. They make pods and volumes behave as their
//! annotations request.
//!
//! The tests use the binary and the plugins that `cargo xtask build` builds.

mod book;
mod builds;
mod cloud;
mod container;
mod examples;
mod interceptor;
mod metrics_api;
mod proxy;
mod scenario;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flyball_controlplane::{ControlPlane, Options, Process};
use flyball_sample_cloud::Server;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::config::AuthInfo;
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use serde_json::Value;

pub use book::{Book, Step, is_shown, links};
pub use builds::{replace, stamped};
pub use container::{Pod, Running, bundle_command, projected, unable};
pub use examples::Example;
pub use flyball_controlplane::FULL;
pub use interceptor::Interceptor;
pub use metrics_api::MetricsApi;
pub use proxy::Proxy;
pub use scenario::*;

/// Whether [`FULL`] is set.
pub fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// How long a test waits for a condition. The error shows the last state seen.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The number of nodes that the fake kubelet registers by default.
const NODES: usize = 3;
/// How often a condition is checked.
const POLL: Duration = Duration::from_millis(50);
/// The message that a host logs if the policy of a built-in controller is the reason for a denial. No test may see it.
const DENIED: &str = "denied a built-in controller a request";

/// A control plane with fake nodes, and no controllers yet.
pub struct Cluster {
    /// A client with the administrator's rights.
    pub client: Client,
    pub plane: ControlPlane,
    /// See [`running_since`](Self::running_since).
    running_since: Mutex<Option<Instant>>,
    nodes: Option<Process>,
    /// See [`start_cloud`](Self::start_cloud).
    cloud: Option<Server>,
    /// The logs of all hosts that were started.
    logs: Mutex<Vec<PathBuf>>,
}

impl Cluster {
    /// Starts a control plane with nodes. Returns when pods can be scheduled on all of them.
    pub async fn start(options: Options) -> Result<Self> {
        let mut cluster = Self::without_nodes(options).await?;
        let plugins = cluster.folder_with("nodes", &[guest("fake-kubelet")?])?;
        let kubeconfig = cluster.plane.kubeconfig_path().to_owned();
        let args = [
            "--controllers=",
            "--trust-plugins",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.push(format!("--plugin-dir={}", plugins.display()));
        cluster.nodes = Some(cluster.spawn_host("nodes", &kubeconfig, &args)?);
        cluster.until_nodes_are_ready().await?;
        Ok(cluster)
    }

    /// Lets the host of the nodes play CSI drivers, too.
    ///
    /// # Errors
    /// The plugin has not been built.
    pub fn add_csi_drivers(&self) -> Result<()> {
        self.folder_with("nodes", &[guest("fake-csi")?]).map(drop)
    }

    /// Starts a control plane without nodes.
    pub async fn without_nodes(options: Options) -> Result<Self> {
        let plane = flyball_controlplane::start(options).await?;
        Ok(Self {
            client: plane.admin_client()?,
            plane,
            running_since: Mutex::new(Some(Instant::now())),
            nodes: None,
            cloud: None,
            logs: Mutex::default(),
        })
    }

    /// Starts a control plane without nodes and scheduler, for plugins that run no pods.
    pub async fn for_plugins() -> Result<Self> {
        Self::without_nodes(Options {
            scheduler: false,
            ..Options::default()
        })
        .await
    }

    /// Waits until pods can be scheduled on all nodes. A new node has a taint until its kubelet reports.
    async fn until_nodes_are_ready(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        until("the nodes are registered and have no taints", async || {
            let nodes = nodes.list(&ListParams::default()).await?.items;
            let has_taints =
                |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_some());
            let tainted = nodes.iter().filter(|node| has_taints(node)).count();
            Ok(if nodes.len() == NODES && tainted == 0 {
                Ok(())
            } else {
                Err(format!(
                    "{} nodes, of which {tainted} have taints",
                    nodes.len()
                ))
            })
        })
        .await
    }

    /// Starts the host with these controllers (in the syntax of `--controllers`), as the user of
    /// kube-controller-manager and with a service account for each controller.
    pub fn controllers(&self, name: &str, controllers: &str) -> Result<Process> {
        let args = [
            format!("--controllers={controllers}"),
            "--use-service-account-credentials=true".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=300".into(),
        ];
        self.spawn_host(name, self.plane.kcm_kubeconfig_path(), &args)
    }

    /// Starts the host. It has no leader election unless `args`, which override the other flags,
    /// enable it.
    pub fn spawn_host(&self, name: &str, kubeconfig: &Path, args: &[String]) -> Result<Process> {
        self.spawn_command(name, &["run"], kubeconfig, args)
    }

    /// Starts the host by this command of its binary.
    fn spawn_command(
        &self,
        name: &str,
        subcommand: &[&str],
        kubeconfig: &Path,
        args: &[String],
    ) -> Result<Process> {
        let mut command = Command::new(host()?);
        command
            .args(subcommand)
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "-v=4",
        ]);
        command.arg(format!(
            "--admin-socket={}",
            self.admin_socket(name).display()
        ));
        command.arg(format!(
            "--state-dir={}",
            self.plane.dir().join(format!("{name}-state")).display()
        ));
        command.args(flyball_controlplane::emulated_version()?);
        command.args(args);
        let log = self.plane.dir().join(format!("{name}.log"));
        let process = Process::spawn(name, command, &log)?;
        self.logs.lock().push(log);
        Ok(process)
    }

    /// The time of the last restart of the host under test, or of the cluster's start if there was none. `None` during
    /// a restart, in which no state of the cluster is final.
    pub fn running_since(&self) -> Option<Instant> {
        *self.running_since.lock()
    }

    /// Records that the host under test was killed.
    pub fn killed(&self) {
        *self.running_since.lock() = None;
    }

    /// Records that the host under test has started again.
    pub fn restarted(&self) {
        *self.running_since.lock() = Some(Instant::now());
    }

    /// Like [`until`], from the last restart of the host under test on: a new host begins its grace periods again.
    pub async fn until<T>(
        &self,
        what: &str,
        look: impl AsyncFnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        let begun = Instant::now();
        let start = || {
            let restarted = self.running_since().unwrap_or_else(Instant::now);
            restarted.max(begun)
        };
        until_since(start, PATIENCE, what, look).await
    }

    /// The admin socket of the host of this name.
    pub fn admin_socket(&self, host: &str) -> PathBuf {
        self.plane.dir().join(format!("{host}.sock"))
    }

    /// Creates the roles that the binary prints for a plugin's file under a policy. Returns their kinds.
    pub async fn apply_roles(&self, policy: &Path, plugin: &Path) -> Result<Vec<String>> {
        let (policy, plugin) = (policy.display().to_string(), plugin.display().to_string());
        let roles = host_output(&["rbac", "-o", "json", "--policy", &policy, &plugin])?;
        self.apply(&roles).await
    }

    /// Creates the objects of a list in JSON, except for namespaces that exist already. Returns
    /// their kinds.
    pub async fn apply(&self, list: &str) -> Result<Vec<String>> {
        let list: Value = serde_json::from_str(list)?;
        let mut kinds = Vec::new();
        for item in list["items"]
            .as_array()
            .context("the JSON is not a list of objects")?
        {
            let object: DynamicObject = serde_json::from_value(item.clone())?;
            let of = |field: &str| item[field].as_str().unwrap_or_default();
            let (group, version) = of("apiVersion")
                .rsplit_once('/')
                .unwrap_or(("", of("apiVersion")));
            let resource =
                ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, of("kind")));
            let api = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            };
            match api.create(&PostParams::default(), &object).await {
                Err(kube::Error::Api(status))
                    if of("kind") == "Namespace" && status.is_already_exists() => {}
                created => drop(created.with_context(|| format!("can't create {item}"))?),
            }
            kinds.push(of("kind").to_owned());
        }
        Ok(kinds)
    }

    /// Returns a token of a service account.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest::default();
        let issued = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let token = issued.status.and_then(|status| status.token);
        token.context("the API server issued no token")
    }

    /// Returns a client of a host's port, as a service account.
    pub async fn client_as(&self, namespace: &str, account: &str, port: u16) -> Result<Client> {
        let mut config = self.plane.admin_config()?;
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        config.accept_invalid_certs = true;
        config.auth_info = AuthInfo {
            token: Some(self.token(namespace, account).await?.into()),
            ..AuthInfo::default()
        };
        Ok(Client::try_from(config)?)
    }

    /// Sends a GET as the cluster's administrator to a host that serves on this port. Returns the
    /// body, or the text of the error.
    pub async fn https(&self, port: u16, path: &str) -> Result<String> {
        let mut config = self.plane.admin_config()?;
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        // The host's certificate is self-signed.
        config.accept_invalid_certs = true;
        let page = Client::try_from(config)?
            .request_text(hyper::Request::get(path).body(Vec::new())?)
            .await;
        Ok(page.unwrap_or_else(|error| error.to_string()))
    }

    /// The control plane's spare port, and the flags with which a host serves on it and lets the API
    /// server authenticate and authorize requests.
    pub fn serving(&self) -> (u16, [String; 3]) {
        let port = self.plane.spare_port();
        let kubeconfig = self.plane.kcm_kubeconfig_path().display();
        let flags = [
            format!("--secure-port={port}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
        ];
        (port, flags)
    }

    /// Runs a command such as `status` against the host of this name, and returns its output.
    pub fn operator_command(&self, host_name: &str, args: &[&str]) -> Result<String> {
        let socket = self.admin_socket(host_name).display().to_string();
        host_output(&[args, &["--admin-socket", &socket]].concat())
    }

    /// The status of a plugin in `flyball status` of the host of this name.
    pub fn plugin(&self, host_name: &str, plugin: &str) -> Result<Option<Value>> {
        let all = self.plugins(host_name)?;
        Ok(all.into_iter().find(|status| status["name"] == plugin))
    }

    /// The statuses of all plugins of the host of this name.
    pub fn plugins(&self, host_name: &str) -> Result<Vec<Value>> {
        let all = self.operator_command(host_name, &["status", "-o", "json"])?;
        Ok(serde_json::from_str(&all)?)
    }

    /// Waits until the status of a plugin meets a condition.
    pub async fn until_plugin(
        &self,
        host_name: &str,
        plugin: &str,
        what: &str,
        mut is_met: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        until(&format!("{plugin} {what}"), async || {
            // The command fails until the host has created its socket.
            match self.plugin(host_name, plugin) {
                Ok(Some(status)) if is_met(&status) => Ok(Ok(status)),
                seen => Ok(Err(format!("{seen:?}"))),
            }
        })
        .await
    }

    /// The flags with which a host runs the plugins of a folder under a policy, and no built-in
    /// controllers.
    pub fn plugins_alone(plugins: &Path, policy: &Path) -> [String; 3] {
        [
            "--controllers=".into(),
            format!("--plugin-dir={}", plugins.display()),
            format!("--policy={}", policy.display()),
        ]
    }

    /// Creates a folder in the control plane's folder, with copies of these files.
    pub fn folder_with(&self, name: &str, files: &[PathBuf]) -> Result<PathBuf> {
        let folder = self.plane.dir().join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("can't create {}", folder.display()))?;
        for file in files {
            let copy = folder.join(file.file_name().context("a plugin has no file name")?);
            std::fs::copy(file, &copy)
                .with_context(|| format!("can't copy {} to {}", file.display(), copy.display()))?;
        }
        Ok(folder)
    }

    /// Stops everything. Fails if a host denied a built-in controller anything.
    pub async fn shutdown(mut self) -> Result<()> {
        if let Some(mut nodes) = self.nodes.take() {
            nodes.stop().await?;
        }
        let denials = self.denials();
        if !matches!(&denials, Ok(denials) if denials.is_empty()) {
            self.plane.keep_logs();
        }
        self.plane.shutdown().await?;
        let denials = denials?;
        ensure!(denials.is_empty(), "a built-in was denied: {denials:#?}");
        Ok(())
    }

    /// Returns the hosts' messages about denials of built-in controllers.
    fn denials(&self) -> Result<Vec<String>> {
        let mut denials = Vec::new();
        for path in self.logs.lock().iter() {
            let log =
                std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
            let log = String::from_utf8_lossy(&log);
            let lines = log.lines().filter(|line| line.contains(DENIED));
            denials.extend(lines.map(str::to_owned));
        }
        Ok(denials)
    }
}

/// Runs a command of the host's binary, and returns its standard output.
pub fn host_output(args: &[&str]) -> Result<String> {
    let output = Command::new(host()?)
        .args(args)
        .output()
        .context("can't run the host's command")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`flyball {}` ended with {}: {errors}",
        args.join(" "),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The host's binary and the folder of the guests in Rust, if they differ from the tests' own.
static BUILD: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();

/// Lets this process run another binary of the host, and other guests in Rust. The first call decides.
pub fn use_build(host: PathBuf, components: PathBuf) {
    BUILD.get_or_init(|| (host, components));
}

/// The host's binary.
pub fn host() -> Result<PathBuf> {
    BUILD
        .get()
        .map_or_else(|| built("debug/flyball"), |(host, _)| Ok(host.clone()))
}

/// The folder of the components of the guests in Rust, if [`use_build`] has set one.
pub fn components() -> Option<&'static Path> {
    BUILD.get().map(|(_, components)| components.as_path())
}

/// A guest's component.
pub fn guest(name: &str) -> Result<PathBuf> {
    let file = format!("{name}.wasm");
    let of_build = components().map(|folder| folder.join(&file));
    match of_build.filter(|path| path.exists()) {
        Some(path) => Ok(path),
        None => built(&format!("guests/components/{file}")),
    }
}

/// The target folder of projects in Rust that tests build, which is kept between their runs.
pub fn target_of_projects() -> PathBuf {
    target().join("guests/new-project")
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}

fn built(path: &str) -> Result<PathBuf> {
    let path = target().join(path);
    ensure!(
        path.is_file(),
        "{} is missing: build it with `cargo xtask build`",
        path.display()
    );
    Ok(path)
}

/// Waits until `look` returns `Ok`. Its `Err` describes the current state.
pub async fn until<T>(
    what: &str,
    look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    until_within(PATIENCE, what, look).await
}

/// Like [`until`], for at most `patience`.
pub async fn until_within<T>(
    patience: Duration,
    what: &str,
    look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let start = Instant::now();
    until_since(|| start, patience, what, look).await
}

/// Like [`until_within`], with the time at which the wait began. It may change.
async fn until_since<T>(
    start: impl Fn() -> Instant,
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    loop {
        match look()
            .await
            .with_context(|| format!("while waiting until {what}"))?
        {
            Ok(value) => return Ok(value),
            Err(seen) if start().elapsed() > patience => {
                bail!(
                    "waited {} s until {what}; seen last: {seen}",
                    patience.as_secs()
                )
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
