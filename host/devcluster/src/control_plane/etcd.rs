//! Starts etcd, and lets tests compact it and write to it directly.

use std::path::PathBuf;

use anyhow::Context;
use base64::prelude::{BASE64_STANDARD, Engine};
use kube::Client;
use serde_json::Value;

use super::client::{client_config, post, without_retry};
use super::parts::{flag, log_file};
use super::{ControlPlane, Options};
use crate::assets::Assets;
use crate::pki::{CertificateFiles, Pki};
use crate::process::Process;
use crate::slot::Slot;

impl ControlPlane {
    /// Compacts etcd to the newest revision, and returns it as a resource version.
    ///
    /// A watch from an older version then fails with "410 Expired", but only if the API server reads from etcd: with
    /// [`Options::watch_cache`] off, or after [`ControlPlane::restart_apiserver`], which empties the watch cache.
    pub async fn compact_etcd(&self) -> anyhow::Result<i64> {
        let compact = async || -> anyhow::Result<i64> {
            let etcd = self.etcd_client()?;
            // The key is the byte 0 in base64. The JSON API encodes 64-bit numbers as strings.
            let range: Value = etcd
                .request(post(
                    "/v3/kv/range",
                    r#"{"key": "AA==", "count_only": true}"#,
                ))
                .await?;
            let revision = range["header"]["revision"]
                .as_str()
                .context("the response has no revision")?;
            let body = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
            etcd.request::<Value>(post("/v3/kv/compaction", &body))
                .await?;
            Ok(revision.parse()?)
        };
        compact().await.context("can't compact etcd")
    }

    /// Writes an object to etcd directly, for changes that the API server forbids, such as another creation time. `key`
    /// is the server's key of the object, such as `/registry/secrets/default/token`. The server also decodes JSON, not
    /// only protobuf.
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

    /// A client of etcd's JSON gateway. It uses HTTP and JSON like the API server, so kube's client works for it.
    pub(super) fn etcd_client(&self) -> anyhow::Result<Client> {
        let url = format!("https://127.0.0.1:{}", self.slot.etcd_port());
        without_retry(client_config(&url, &self.pki, &self.server)?)
    }
}

pub(super) fn start_etcd(
    assets: &Assets,
    options: &Options,
    slot: &Slot,
    pki: &Pki,
    server: &CertificateFiles,
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
        // The data need not survive a crash of the machine, and disks are slow.
        .arg("--unsafe-no-fsync")
        // 8 GiB, enough for the objects of a large benchmark.
        .arg("--quota-backend-bytes=8589934592")
        .args(&options.etcd_args);
    Process::spawn("etcd", command, &log_file(slot, "etcd"))
}

/// The folder of etcd's data.
pub(super) fn etcd_data(slot: &Slot) -> PathBuf {
    slot.dir().join("etcd")
}
