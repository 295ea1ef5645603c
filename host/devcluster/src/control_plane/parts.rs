//! Starts the processes other than etcd, and waits until a process is ready.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::ControlPlane;
use crate::process::{self, Process};
use crate::slot::Slot;

/// How often the readiness of a part is checked.
const POLL: Duration = Duration::from_millis(25);
/// How many lines of a part's log an error quotes.
pub(super) const TAIL: usize = 30;
/// The address that the API server advertises in the `kubernetes` Endpoints, which may not be a loopback address. It is
/// reserved for documentation (RFC 5737); clients use loopback instead.
const ADVERTISED: &str = "192.0.2.1";

impl ControlPlane {
    pub(super) fn spawn_apiserver(&self) -> anyhow::Result<Process> {
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
                // In megabytes, and more than a test writes, so that the log is not rotated.
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
        let without_bodies = serde_json::json!({"level": "Metadata"});
        let rules = if self.options.audit_bodies {
            let with_bodies =
                serde_json::json!({"level": "Request", "verbs": ["create", "update", "patch"]});
            vec![with_bodies, without_bodies]
        } else {
            vec![without_bodies]
        };
        let policy = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": rules,
        });
        fs::write(&path, policy.to_string())
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    pub(super) fn spawn_scheduler(&self) -> anyhow::Result<Process> {
        let kubeconfig = self.kubeconfig_for("kube-scheduler", "system:kube-scheduler", None)?;
        let mut command = self.assets.scheduler()?;
        command
            .arg(flag("kubeconfig", &kubeconfig))
            .args(["--leader-elect=false", "--secure-port=0"]);
        command.args(&self.options.scheduler_args);
        Process::spawn("kube-scheduler", command, &self.log("kube-scheduler"))
    }

    /// Starts the stock kube-controller-manager as `system:kube-controller-manager`, with leader election, a service
    /// account for each controller, and no port. `args` override these flags. The caller owns the process. This does
    /// not wait until it is ready.
    pub fn start_kcm(&self, args: &[&str]) -> anyhow::Result<Process> {
        self.start_kcm_of(self.assets.kcm()?, args)
    }

    /// Like [`start_kcm`](Self::start_kcm), with the command of another kube-controller-manager, without its flags.
    pub fn start_kcm_of(&self, mut command: Command, args: &[&str]) -> anyhow::Result<Process> {
        let number = self.kcms.fetch_add(1, Ordering::Relaxed);
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
}

pub(super) fn log_file(slot: &Slot, name: &str) -> PathBuf {
    slot.dir().join(format!("{name}.log"))
}

pub(super) fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Waits until `check` succeeds. The error has `what` the part failed to do, the reason, and the end of its log.
pub(super) async fn until(
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
            Ok(Err(error)) => format!("the last response was: {error:#}"),
            Err(_) => "the last request had no response".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(failed(part, format!("after {} s {error}", limit.as_secs())));
        }
        tokio::time::sleep(POLL).await;
    }
}
