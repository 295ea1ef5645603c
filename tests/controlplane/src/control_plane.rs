//! The control plane itself: which parts run with which flags, in which order, and when each counts as ready.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

use anyhow::{Context, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::assets::Assets;
use crate::pki::{Identity, Pki};
use crate::process::{self, Process};
use crate::slot::{self, Slot};

/// How often a part is asked whether it is ready.
const POLL: Duration = Duration::from_millis(25);
/// How many lines of a part's log an error quotes.
const TAIL: usize = 30;
/// What the API server says it is reached at: clients here use loopback, but the `kubernetes` Endpoints may not hold a
/// loopback address, so it is one of those set aside for documentation (RFC 5737).
const ADVERTISED: &str = "192.0.2.1";

/// What to start, and how. The default is what most tests want.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to run kube-scheduler, without leader election. It is started last, and not waited for.
    pub scheduler: bool,
    /// Whether the API server writes an audit log of every request, without bodies: see [`ControlPlane::audit_events`].
    pub audit: bool,
    /// Whether the API server answers watches from its own cache. Without it a watch begins in etcd, and expires as soon
    /// as etcd is compacted.
    pub watch_cache: bool,
    /// Admission plugins to switch off. `ServiceAccount` is one that keeps pods from being created while no controller
    /// makes the namespaces' default accounts.
    pub disable_admission: Vec<String>,
    /// More flags for kube-apiserver. They come last, so that they win.
    pub apiserver_args: Vec<String>,
    /// More flags for etcd. They come last, so that they win.
    pub etcd_args: Vec<String>,
    /// More flags for kube-scheduler. They come last, so that they win.
    pub scheduler_args: Vec<String>,
    /// How long each part may take to become ready, at a start and at a restart. A build isn't counted.
    pub ready_within: Duration,
    /// What is in etcd when it starts; nothing, if there is none.
    pub snapshot: Option<Snapshot>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: true,
            audit: false,
            watch_cache: true,
            disable_admission: Vec::new(),
            apiserver_args: Vec::new(),
            etcd_args: Vec::new(),
            scheduler_args: Vec::new(),
            ready_within: Duration::from_secs(180),
            snapshot: None,
        }
    }
}

/// What was in etcd when a control plane ended, for others to begin with: see [`ControlPlane::into_snapshot`]. It is removed
/// with its last clone.
#[derive(Clone)]
pub struct Snapshot(Arc<ControlPlane>);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot")
            .field(&etcd_data(&self.0.slot))
            .finish()
    }
}

/// A running control plane with data, ports and certificates of its own.
///
/// Dropping it kills its processes and removes its folder; but in a panic the logs are kept, and their place is printed.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use flyball_controlplane::{ControlPlane, Options};
///
/// let plane = ControlPlane::start(Options { scheduler: false, ..Options::default() }).await?;
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
    server: Identity,
    admin: Identity,
    kubeconfig: PathBuf,
    kcm_kubeconfig: PathBuf,
    keep_logs: bool,
    kcms: AtomicU32,
    // In the order in which they are dropped: who uses another goes first, and the folder last of all.
    scheduler: Option<Process>,
    apiserver: Option<Process>,
    etcd: Process,
    slot: Slot,
}

impl ControlPlane {
    /// Starts the parts and waits until the API server serves, has its RBAC roles and has the namespaces that every
    /// cluster has. The first call on a machine builds the binaries, which takes minutes: see [`Assets::find_or_build`].
    ///
    /// The error names the part that failed to become ready, and quotes the end of its log.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let assets = tokio::task::spawn_blocking(Assets::find_or_build)
            .await
            .context("can't look for binaries")??;
        if options.scheduler {
            assets
                .scheduler()
                .context("`Options::scheduler` asks for a scheduler")?;
        }
        let slot = Slot::take()?;
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
            copied.context("can't begin with what another control plane had in etcd")?;
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
        // The API server waits for etcd itself; etcd is awaited first so that an error names the part that failed.
        self.apiserver = Some(self.spawn_apiserver()?);
        let etcd = self.etcd_client()?;
        until(
            &mut self.etcd,
            self.options.ready_within,
            "become healthy",
            async || {
                let answer: Value = etcd.request(get("/health")).await?;
                ensure!(answer["health"] == "true", "it answers {answer}");
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

    /// Where the API server listens: `https://127.0.0.1:` and a port, which stays the same over a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of all that belongs to this control plane. It is removed in the end; tests may put files of theirs in it.
    pub fn dir(&self) -> &Path {
        self.slot.dir()
    }

    /// The binaries that it runs: a test asks [`Assets::has_kcm`] whether [`ControlPlane::start_kcm`] can work.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The names and process ids of the parts that run, without those that the caller holds.
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

    /// The kubeconfig of the user `system:kube-controller-manager`, with the rights that RBAC gives it and no others.
    pub fn kcm_kubeconfig_path(&self) -> &Path {
        &self.kcm_kubeconfig
    }

    /// Makes a kubeconfig for any user, in one group at most. `name` names the files, and must be new.
    pub fn kubeconfig_for(
        &self,
        name: &str,
        user: &str,
        group: Option<&str>,
    ) -> anyhow::Result<PathBuf> {
        let identity = self.pki.client(name, user, group)?;
        self.pki.kubeconfig(name, &self.url, &identity)
    }

    /// The certificate of the authority that signed all others.
    pub fn ca_pem(&self) -> String {
        self.pki.ca_pem()
    }

    /// The file of [`ControlPlane::ca_pem`]: what `--root-ca-file` and `--cluster-signing-cert-file` want.
    pub fn root_ca_file(&self) -> PathBuf {
        self.pki.ca_file()
    }

    /// The authority's private key: what `--cluster-signing-key-file` wants.
    pub fn ca_key_file(&self) -> PathBuf {
        self.pki.ca_key_file()
    }

    /// The private key (ECDSA P-256, PKCS #8) of service account tokens: what `--service-account-private-key-file` wants.
    pub fn service_account_key_file(&self) -> PathBuf {
        self.pki.service_account_key_file()
    }

    /// A client with the administrator's rights.
    pub fn admin_client(&self) -> anyhow::Result<Client> {
        client(self.admin_config()?)
    }

    /// What [`ControlPlane::admin_client`] is made from, to be changed: a header `user-agent`, for example.
    pub fn admin_config(&self) -> anyhow::Result<Config> {
        client_config(&self.url, &self.pki, &self.admin)
    }

    /// The API server's audit log, if [`Options::audit`] is set: a JSON object in each line, one for each answer sent.
    pub fn audit_log_path(&self) -> Option<PathBuf> {
        self.options
            .audit
            .then(|| self.slot.dir().join("audit.log"))
    }

    /// What is in the audit log by now: objects of the API type `audit.k8s.io/v1` `Event`.
    ///
    /// The server writes the entry of a request when its handler returns, and only then flushes the last bytes of the
    /// answer: a short answer that was read, as those to writes are, has its entry. That of a long list may come a little
    /// later. A watch has one when it begins (stage `ResponseStarted`) and one when it ends (`ResponseComplete`).
    pub fn audit_events(&self) -> anyhow::Result<Vec<Value>> {
        let path = self
            .audit_log_path()
            .context("can't read the audit log: set `Options::audit` to have one")?;
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            result => {
                result.with_context(|| format!("can't read the audit log {}", path.display()))?
            }
        };
        // A line without its end is being written.
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| {
                serde_json::from_str(line)
                    .with_context(|| format!("can't read this line of {}: {line}", path.display()))
            })
            .collect()
    }

    /// Runs the stock kube-controller-manager as `system:kube-controller-manager`, with leader election, a service account
    /// for each controller, and no port. `args` come last, so that they win. It is not waited for; the caller owns it.
    pub fn start_kcm(&self, args: &[&str]) -> anyhow::Result<Process> {
        let number = self.kcms.fetch_add(1, Ordering::Relaxed);
        let mut command = self.assets.kcm()?;
        command
            .arg(flag("kubeconfig", &self.kcm_kubeconfig))
            .arg(flag("root-ca-file", &self.root_ca_file()))
            .arg(flag("cluster-signing-cert-file", &self.root_ca_file()))
            .arg(flag("cluster-signing-key-file", &self.ca_key_file()))
            .arg(flag(
                "service-account-private-key-file",
                &self.service_account_key_file(),
            ))
            .args(["--use-service-account-credentials=true", "--secure-port=0"])
            .args(args);
        Process::spawn(
            "kube-controller-manager",
            command,
            &self.log(&format!("kube-controller-manager-{number}")),
        )
    }

    /// Stops the API server and starts it again, on the same port and the same data.
    pub async fn restart_apiserver(&mut self) -> anyhow::Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Stops the API server, as a rolling update would: it may finish what it is doing. Does nothing if it is stopped.
    pub async fn stop_apiserver(&mut self) -> anyhow::Result<()> {
        if let Some(mut apiserver) = self.apiserver.take() {
            apiserver
                .stop()
                .await
                .context("can't stop kube-apiserver")?;
        }
        Ok(())
    }

    /// Starts the API server and waits until it serves, as in [`ControlPlane::start`]. Does nothing if it is running.
    pub async fn start_apiserver(&mut self) -> anyhow::Result<()> {
        if self.apiserver.is_none() {
            self.apiserver = Some(self.spawn_apiserver()?);
        }
        self.apiserver_ready().await
    }

    /// Freezes the API server: connections stay open and nothing answers, as if the network had eaten all packets.
    pub fn pause_apiserver(&mut self) -> anyhow::Result<()> {
        self.running_apiserver()?
            .pause()
            .context("can't pause kube-apiserver")
    }

    /// Lets a frozen API server go on.
    pub fn resume_apiserver(&mut self) -> anyhow::Result<()> {
        self.running_apiserver()?
            .resume()
            .context("can't resume kube-apiserver")
    }

    /// Makes etcd forget all versions but the newest, and returns that resourceVersion.
    ///
    /// A watch from an older one then gets "410 Expired", but only where the API server asks etcd: with
    /// [`Options::watch_cache`] off, or after [`ControlPlane::restart_apiserver`], which empties the cache's memory.
    pub async fn compact_etcd(&self) -> anyhow::Result<i64> {
        let compact = async || -> anyhow::Result<i64> {
            let etcd = self.etcd_client()?;
            // The key is the byte 0 in base64; numbers of 64 bits are strings in this form of the API.
            let range: Value = etcd
                .request(post(
                    "/v3/kv/range",
                    r#"{"key": "AA==", "count_only": true}"#,
                ))
                .await?;
            let revision = range["header"]["revision"]
                .as_str()
                .context("its answer has no revision")?;
            let body = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
            etcd.request::<Value>(post("/v3/kv/compaction", &body))
                .await?;
            Ok(revision.parse()?)
        };
        compact().await.context("can't compact etcd")
    }

    /// Writes an object to etcd as it is, past the API server and what that forbids, such as another time of creation. `key`
    /// is where the server keeps it: `/registry/secrets/default/token`. It reads JSON there as well as its own format.
    pub async fn put_into_etcd(&self, key: &str, object: &Value) -> anyhow::Result<()> {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let body = serde_json::json!({"key": encode(key), "value": encode(&object.to_string())})
            .to_string();
        let put = self
            .etcd_client()?
            .request::<Value>(post("/v3/kv/put", &body))
            .await;
        put.map(drop)
            .with_context(|| format!("can't put {key} into etcd"))
    }

    /// Keeps the logs when this is dropped, whether or not there is a panic, and prints where they are.
    pub fn keep_logs(&mut self) {
        self.keep_logs = true;
    }

    /// Ends all parts and removes the folder, as a drop does, and fails if a part had ended by itself before.
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
                    "{name} had ended before it was told to: {end}; its log ends with:\n{}",
                    part.log_tail(TAIL)
                ))
            })
            .collect();
        self.keep_logs |= !ended.is_empty();
        // Removing the data of a large test takes a while.
        tokio::task::spawn_blocking(move || drop(self))
            .await
            .context("can't shut the control plane down")?;
        ensure!(ended.is_empty(), "{}", ended.join("\n"));
        Ok(())
    }

    /// Ends all parts, and keeps what is in etcd, so that other control planes can begin with it.
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

    fn spawn_apiserver(&self) -> anyhow::Result<Process> {
        let mut command = self.assets.apiserver();
        command
            .arg(format!(
                "--etcd-servers=https://127.0.0.1:{}",
                self.slot.etcd_port()
            ))
            .arg(flag("etcd-cafile", &self.pki.ca_file()))
            .arg(flag("etcd-certfile", &self.server.certificate))
            .arg(flag("etcd-keyfile", &self.server.key))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={}", self.slot.apiserver_port()))
            .arg(format!("--advertise-address={ADVERTISED}"))
            .arg(flag("tls-cert-file", &self.server.certificate))
            .arg(flag("tls-private-key-file", &self.server.key))
            .arg(flag("client-ca-file", &self.pki.ca_file()))
            .arg("--authorization-mode=Node,RBAC")
            .arg("--service-cluster-ip-range=10.0.0.0/16")
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(flag(
                "service-account-key-file",
                &self.pki.service_account_public_key_file(),
            ))
            .arg(flag(
                "service-account-signing-key-file",
                &self.pki.service_account_key_file(),
            ))
            .arg("--allow-privileged=true")
            .arg(format!("--watch-cache={}", self.options.watch_cache));
        if let Some(log) = self.audit_log_path() {
            command
                .arg(flag("audit-policy-file", &self.write_audit_policy()?))
                .arg(flag("audit-log-path", &log))
                // In megabytes: more than a test writes, so that the log stays one file.
                .arg("--audit-log-maxsize=100000");
        }
        if !self.options.disable_admission.is_empty() {
            command.arg(format!(
                "--disable-admission-plugins={}",
                self.options.disable_admission.join(",")
            ));
        }
        command.args(&self.options.apiserver_args);
        Process::spawn("kube-apiserver", command, &self.log("kube-apiserver"))
    }

    fn write_audit_policy(&self) -> anyhow::Result<PathBuf> {
        let path = self.slot.dir().join("audit-policy.json");
        let policy = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        });
        fs::write(&path, policy.to_string())
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    async fn apiserver_ready(&mut self) -> anyhow::Result<()> {
        let admin = impatient(self.admin_config()?)?;
        let limit = self.options.ready_within;
        let apiserver = self.running_apiserver()?;
        // `readyz` holds the hook that makes the RBAC roles, but not the one that makes namespaces.
        until(apiserver, limit, "become ready", async || {
            admin.request_text(get("/readyz")).await?;
            Ok(())
        })
        .await?;
        let namespaces = Api::<Namespace>::all(admin);
        until(
            apiserver,
            limit,
            "make the namespaces of every cluster",
            async || {
                for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
                    namespaces.get(name).await?;
                }
                Ok(())
            },
        )
        .await
    }

    fn spawn_scheduler(&self) -> anyhow::Result<Process> {
        let kubeconfig = self.kubeconfig_for("kube-scheduler", "system:kube-scheduler", None)?;
        let mut command = self.assets.scheduler()?;
        command
            .arg(flag("kubeconfig", &kubeconfig))
            .args(["--leader-elect=false", "--secure-port=0"]);
        command.args(&self.options.scheduler_args);
        Process::spawn("kube-scheduler", command, &self.log("kube-scheduler"))
    }

    /// etcd's JSON gateway speaks plain HTTP and JSON, as the API server does, so that the same client serves for both.
    fn etcd_client(&self) -> anyhow::Result<Client> {
        let url = format!("https://127.0.0.1:{}", self.slot.etcd_port());
        impatient(client_config(&url, &self.pki, &self.server)?)
    }

    /// Nobody needs the data any more, so nothing is lost if no part may finish its work.
    fn kill(&mut self) {
        for part in [
            self.scheduler.as_mut(),
            self.apiserver.as_mut(),
            Some(&mut self.etcd),
        ]
        .into_iter()
        .flatten()
        {
            // It fails only for a part that has ended.
            let _ = part.kill();
        }
    }

    /// Moves the folder to where it stays, without the hundreds of megabytes that etcd sets aside.
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

fn start_etcd(
    assets: &Assets,
    options: &Options,
    slot: &Slot,
    pki: &Pki,
    server: &Identity,
) -> anyhow::Result<Process> {
    let own = format!("https://127.0.0.1:{}", slot.etcd_port());
    let peer = format!("https://127.0.0.1:{}", slot.etcd_peer_port());
    let mut command = assets.etcd();
    command
        .args(["--name=default", "--log-level=warn"])
        .arg(flag("data-dir", &etcd_data(slot)))
        .args([
            format!("--listen-client-urls={own}"),
            format!("--advertise-client-urls={own}"),
        ])
        .args([
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
        ])
        .arg(format!("--initial-cluster=default={peer}"))
        .args(["--client-cert-auth", "--peer-client-cert-auth"])
        .args([
            flag("trusted-ca-file", &pki.ca_file()),
            flag("peer-trusted-ca-file", &pki.ca_file()),
        ])
        .args([
            flag("cert-file", &server.certificate),
            flag("peer-cert-file", &server.certificate),
        ])
        .args([
            flag("key-file", &server.key),
            flag("peer-key-file", &server.key),
        ])
        // The data needn't outlive the machine, and disks are slow.
        .arg("--unsafe-no-fsync")
        // In bytes: room for the objects of a large benchmark.
        .arg("--quota-backend-bytes=8589934592")
        .args(&options.etcd_args);
    Process::spawn("etcd", command, &log_file(slot, "etcd"))
}

fn etcd_data(slot: &Slot) -> PathBuf {
    slot.dir().join("etcd")
}

fn log_file(slot: &Slot, name: &str) -> PathBuf {
    slot.dir().join(format!("{name}.log"))
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Waits until `check` succeeds. The error says what `part` failed to do and why, with the end of its log.
async fn until(
    part: &mut Process,
    limit: Duration,
    what: &str,
    check: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    let failed = |part: &Process, why: String| {
        anyhow::anyhow!(
            "{} failed to {what}: {why}; its log ends with:\n{}",
            part.name(),
            part.log_tail(TAIL)
        )
    };
    loop {
        if let Some(status) = part.exited() {
            return Err(failed(part, process::describe(status)));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match tokio::time::timeout(left, check()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("the last answer was: {error:#}"),
            Err(_) => "the last request had no answer".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(failed(part, format!("after {} s {error}", limit.as_secs())));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn client_config(url: &str, pki: &Pki, identity: &Identity) -> anyhow::Result<Config> {
    let mut config = Config::new(
        url.parse()
            .with_context(|| format!("can't use {url} as a server's address"))?,
    );
    config.root_cert = Some(vec![pki.ca_der()]);
    config.auth_info.client_certificate = Some(identity.certificate.display().to_string());
    config.auth_info.client_key = Some(identity.key.display().to_string());
    Ok(config)
}

fn client(config: Config) -> anyhow::Result<Client> {
    let url = config.cluster_url.clone();
    Client::try_from(config).with_context(|| format!("can't make a client of {url}"))
}

/// A client that leaves it to its caller to try again.
fn impatient(mut config: Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    client(config)
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path)
        .body(Vec::new())
        .expect("the path is a constant")
}

fn post(path: &str, json: &str) -> Request<Vec<u8>> {
    Request::post(path)
        .body(json.as_bytes().to_vec())
        .expect("the path is a constant")
}
