//! The control plane: starts its parts in order, and lets tests stop, pause and restart them.

mod client;
mod etcd;
mod options;
mod parts;

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::{fmt, fs, io, thread};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Config};
use serde_json::Value;

use self::client::{client, client_config, get, without_retry};
use self::etcd::{etcd_data, start_etcd};
pub use self::options::Options;
use self::parts::{TAIL, log_file, until};
use crate::assets::Assets;
use crate::pki::{CertificateFiles, Pki};
use crate::process::{self, Process};
use crate::slot::{self, Slot};

/// The data of a stopped control plane's etcd, from which other control planes can start: see
/// [`ControlPlane::into_snapshot`]. The data is removed when the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<ControlPlane>);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot")
            .field(&etcd_data(&self.0.slot))
            .finish()
    }
}

/// A running control plane. It shares no data, ports or certificates with others.
///
/// Dropping it kills its processes and removes its folder. During a panic, the logs are kept and their path is printed.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use flyball_devcluster::{Assets, ControlPlane, Options};
///
/// let options = Options { scheduler: false, ..Options::default() };
/// let plane = ControlPlane::start(Assets::installed(None)?, options).await?;
/// let version = plane.admin_client()?.apiserver_version().await?;
/// println!("{} serves {}", plane.url(), version.git_version);
/// plane.shutdown().await
/// # }
/// ```
pub struct ControlPlane {
    assets: Assets,
    options: Options,
    url: String,
    pki: Pki,
    server: CertificateFiles,
    admin: CertificateFiles,
    kubeconfig: PathBuf,
    kcm_kubeconfig: PathBuf,
    keep_logs: bool,
    kcms: AtomicU32,
    // Fields are dropped in this order: each part before the part that it uses, and the folder last.
    scheduler: Option<Process>,
    apiserver: Option<Process>,
    etcd: Process,
    slot: Slot,
}

impl ControlPlane {
    /// Starts the parts and waits until the API server is ready and has created its RBAC roles and the default
    /// namespaces.
    ///
    /// # Errors
    /// A part does not become ready. The error names the part, and quotes the end of its log.
    pub async fn start(assets: Assets, options: Options) -> anyhow::Result<Self> {
        if options.scheduler {
            assets
                .scheduler()
                .context("`Options::scheduler` needs kube-scheduler")?;
        }
        let slot = Slot::take(options.seed)?;
        let url = format!("https://127.0.0.1:{}", slot.apiserver_port());
        let pki = Pki::create(slot.dir().join("pki"))?;
        let server = pki.server()?;
        let admin = pki.client("admin", "admin", Some("system:masters"))?;
        let kubeconfig = pki.kubeconfig("admin", &url, &admin)?;
        let kcm = pki.client(
            "kube-controller-manager",
            "system:kube-controller-manager",
            None,
        )?;
        let kcm_kubeconfig = pki.kubeconfig("kube-controller-manager", &url, &kcm)?;
        if let Some(Snapshot(ended)) = &options.snapshot {
            let (from, to) = (etcd_data(&ended.slot), etcd_data(&slot));
            let copied = tokio::task::spawn_blocking(move || slot::copy(&from, &to)).await?;
            copied.context("can't copy the data of a snapshot")?;
        }
        let etcd = start_etcd(&assets, &options, &slot, &pki, &server)?;
        let mut plane = Self {
            assets,
            options,
            url,
            pki,
            server,
            admin,
            kubeconfig,
            kcm_kubeconfig,
            keep_logs: false,
            kcms: AtomicU32::new(0),
            scheduler: None,
            apiserver: None,
            etcd,
            slot,
        };
        match plane.start_parts().await {
            Ok(()) => Ok(plane),
            Err(error) => {
                plane.kill();
                Err(error.context(match plane.move_logs() {
                    Ok(dir) => format!(
                        "can't start a control plane (the logs are in {})",
                        dir.display()
                    ),
                    Err(_) => "can't start a control plane".to_owned(),
                }))
            }
        }
    }

    async fn start_parts(&mut self) -> anyhow::Result<()> {
        // The API server waits for etcd itself. Waiting for etcd first makes an error name the part that failed.
        self.apiserver = Some(self.spawn_apiserver()?);
        let etcd = self.etcd_client()?;
        until(
            &mut self.etcd,
            self.options.ready_within,
            "become healthy",
            async || {
                let health: Value = etcd.request(get("/health")).await?;
                ensure!(health["health"] == "true", "the response is {health}");
                Ok(())
            },
        )
        .await?;
        self.apiserver_ready().await?;
        if self.options.scheduler {
            self.scheduler = Some(self.spawn_scheduler()?);
        }
        Ok(())
    }

    /// The URL of the API server: `https://127.0.0.1:PORT`. A restart does not change it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of this control plane's files, which is removed at the end. Tests may put files in it.
    pub fn dir(&self) -> &Path {
        self.slot.dir()
    }

    /// A port that is reserved for another process of the test, such as a host.
    pub fn spare_port(&self) -> u16 {
        self.slot.spare_port()
    }

    /// The binaries of this control plane. [`ControlPlane::start_kcm`] fails unless [`Assets::has_kcm`].
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The names and process IDs of the running parts, without those that the caller owns.
    pub fn pids(&self) -> Vec<(&str, u32)> {
        let parts = [
            Some(&self.etcd),
            self.apiserver.as_ref(),
            self.scheduler.as_ref(),
        ];
        parts
            .into_iter()
            .flatten()
            .map(|part| (part.name(), part.pid()))
            .collect()
    }

    /// The kubeconfig of the administrator, who is in the group `system:masters`.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubeconfig of the user `system:kube-controller-manager`, with only its RBAC rights.
    pub fn kcm_kubeconfig_path(&self) -> &Path {
        &self.kcm_kubeconfig
    }

    /// Creates a kubeconfig for any user, in at most one group. `name` is the name of the files, and must be unused.
    pub fn kubeconfig_for(
        &self,
        name: &str,
        user: &str,
        group: Option<&str>,
    ) -> anyhow::Result<PathBuf> {
        let files = self.pki.client(name, user, group)?;
        self.pki.kubeconfig(name, &self.url, &files)
    }

    /// The certificate of the certificate authority.
    pub fn ca_pem(&self) -> String {
        self.pki.ca_pem()
    }

    /// The file of [`ControlPlane::ca_pem`], for `--root-ca-file` and `--cluster-signing-cert-file`.
    pub fn root_ca_file(&self) -> PathBuf {
        self.pki.ca_file()
    }

    /// The file of the certificate authority's private key, for `--cluster-signing-key-file`.
    pub fn ca_key_file(&self) -> PathBuf {
        self.pki.ca_key_file()
    }

    /// The file of the private key (ECDSA P-256, PKCS #8) that signs service account tokens, for
    /// `--service-account-private-key-file`.
    pub fn service_account_key_file(&self) -> PathBuf {
        self.pki.service_account_key_file()
    }

    /// A client with the administrator's rights.
    pub fn admin_client(&self) -> anyhow::Result<Client> {
        client(self.admin_config()?)
    }

    /// The configuration of [`ControlPlane::admin_client`], for tests that change it, such as the `user-agent` header.
    pub fn admin_config(&self) -> anyhow::Result<Config> {
        client_config(&self.url, &self.pki, &self.admin)
    }

    /// The API server's audit log, if [`Options::audit`] is set. Each line is a JSON object.
    pub fn audit_log_path(&self) -> Option<PathBuf> {
        self.options
            .audit
            .then(|| self.slot.dir().join("audit.log"))
    }

    /// The events of the audit log so far, of the API type `audit.k8s.io/v1` `Event`.
    ///
    /// The server writes the event of a request when its handler returns, and flushes the last bytes of the response
    /// afterwards. So the event exists once a client has read a short response, such as that of a write. The event of a
    /// long list may follow a little later. A watch has one event when it begins (stage `ResponseStarted`) and one when
    /// it ends (`ResponseComplete`).
    pub fn audit_events(&self) -> anyhow::Result<Vec<Value>> {
        let mut events = Vec::new();
        self.each_audit_event(|event| events.push(event))?;
        Ok(events)
    }

    /// Visits the events of [`audit_events`](Self::audit_events) one by one, so that a log of a million requests is
    /// never held in memory.
    pub fn each_audit_event(&self, mut visit: impl FnMut(Value)) -> anyhow::Result<()> {
        let path = self
            .audit_log_path()
            .context("can't read the audit log: `Options::audit` is not set")?;
        let failed = || format!("can't read the audit log {}", path.display());
        let mut log = match fs::File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => io::BufReader::new(result.with_context(failed)?),
        };
        let mut line = String::new();
        // The server is still writing a line without a newline.
        while log.read_line(&mut line).with_context(failed)? > 0 && line.ends_with('\n') {
            let event = serde_json::from_str(&line)
                .with_context(|| format!("can't read this line of {}: {line}", path.display()))?;
            visit(event);
            line.clear();
        }
        Ok(())
    }

    /// Restarts the API server with the same port and data.
    pub async fn restart_apiserver(&mut self) -> anyhow::Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Stops the API server gracefully. Does nothing if it is stopped.
    pub async fn stop_apiserver(&mut self) -> anyhow::Result<()> {
        if let Some(mut apiserver) = self.apiserver.take() {
            apiserver
                .stop()
                .await
                .context("can't stop kube-apiserver")?;
        }
        Ok(())
    }

    /// Starts the API server unless it is running, and waits until it is ready, as in [`ControlPlane::start`].
    pub async fn start_apiserver(&mut self) -> anyhow::Result<()> {
        if self.apiserver.is_none() {
            self.apiserver = Some(self.spawn_apiserver()?);
        }
        self.apiserver_ready().await
    }

    /// Freezes the API server: connections stay open and nothing responds, as if the network dropped all packets.
    pub fn pause_apiserver(&mut self) -> anyhow::Result<()> {
        self.running_apiserver()?
            .pause()
            .context("can't pause kube-apiserver")
    }

    /// Resumes a frozen API server.
    pub fn resume_apiserver(&mut self) -> anyhow::Result<()> {
        self.running_apiserver()?
            .resume()
            .context("can't resume kube-apiserver")
    }

    /// Keeps the logs when this is dropped, even without a panic, and prints their path.
    pub fn keep_logs(&mut self) {
        self.keep_logs = true;
    }

    /// Kills all parts and removes the folder, like a drop. Fails if a part had ended unexpectedly.
    pub async fn shutdown(mut self) -> anyhow::Result<()> {
        let parts = [
            Some(&mut self.etcd),
            self.apiserver.as_mut(),
            self.scheduler.as_mut(),
        ];
        let ended: Vec<String> = parts
            .into_iter()
            .flatten()
            .filter_map(|part| {
                let status = part.exited()?;
                let (name, end) = (part.name(), process::describe(status));
                Some(format!(
                    "{name} ended unexpectedly: {end}; its log ends with:\n{}",
                    part.log_tail(TAIL)
                ))
            })
            .collect();
        self.keep_logs |= !ended.is_empty();
        // Removing the data of a large test takes long.
        tokio::task::spawn_blocking(move || drop(self))
            .await
            .context("can't shut the control plane down")?;
        ensure!(ended.is_empty(), "{}", ended.join("\n"));
        Ok(())
    }

    /// Stops all parts gracefully, and keeps the data of etcd, so that other control planes can start from it.
    pub async fn into_snapshot(mut self) -> anyhow::Result<Snapshot> {
        if let Some(mut scheduler) = self.scheduler.take() {
            scheduler
                .stop()
                .await
                .context("can't stop kube-scheduler")?;
        }
        self.stop_apiserver().await?;
        self.etcd.stop().await.context("can't stop etcd")?;
        Ok(Snapshot(Arc::new(self)))
    }

    fn running_apiserver(&mut self) -> anyhow::Result<&mut Process> {
        self.apiserver
            .as_mut()
            .context("kube-apiserver is stopped: call `start_apiserver` first")
    }

    async fn apiserver_ready(&mut self) -> anyhow::Result<()> {
        let admin = without_retry(self.admin_config()?)?;
        let limit = self.options.ready_within;
        let apiserver = self.running_apiserver()?;
        // `readyz` includes the hook that creates the RBAC roles, but not the one that creates namespaces.
        until(apiserver, limit, "become ready", async || {
            admin.request_text(get("/readyz")).await?;
            Ok(())
        })
        .await?;
        let namespaces = Api::<Namespace>::all(admin);
        until(
            apiserver,
            limit,
            "create the default namespaces",
            async || {
                for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
                    namespaces.get(name).await?;
                }
                Ok(())
            },
        )
        .await
    }

    /// Kills all parts without a graceful stop, since the data is no longer needed.
    fn kill(&mut self) {
        for part in [
            self.scheduler.as_mut(),
            self.apiserver.as_mut(),
            Some(&mut self.etcd),
        ]
        .into_iter()
        .flatten()
        {
            // This fails only for a part that has ended.
            let _ = part.kill();
        }
    }

    /// Moves the folder so that it is kept. Removes etcd's data first, which takes hundreds of megabytes.
    fn move_logs(&mut self) -> io::Result<PathBuf> {
        slot::remove(&etcd_data(&self.slot))?;
        self.slot.keep()
    }

    fn log(&self, name: &str) -> PathBuf {
        log_file(&self.slot, name)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.kill();
        if self.keep_logs || thread::panicking() {
            match self.move_logs() {
                Ok(dir) => eprintln!("controlplane: the logs are kept in {}", dir.display()),
                Err(error) => eprintln!(
                    "controlplane: can't keep the logs in {}: {error}",
                    self.dir().display()
                ),
            }
        }
    }
}
