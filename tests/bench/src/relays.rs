//! Relays: plugins that copy values from one namespace to the next, and the host that runs them. Each relay is the
//! component of `tests/guests/relay` with another number.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{Cluster, guest, replace, stamped, until};
use flyball_controlplane::{Options, Process};
use flyball_differential::api;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::bed::{self, QUIET, create_namespaces, time};
use super::wait::wait;

/// The host's name.
const HOST: &str = "host";
/// The name in the component as built. It is replaced by each relay's name.
const BUILT_NAME: &str = "relay-0000-of-0002";

/// A host for relays, and a ring of namespaces.
pub(super) struct Relays {
    pub(super) cluster: Cluster,
    pub(super) host: Process,
    count: usize,
    folder: PathBuf,
    wasm: Vec<u8>,
}

/// Changes what the first relay copies.
#[derive(Clone)]
pub(super) struct Setter {
    client: Client,
    namespace: String,
}

/// A write that the API server accepted.
pub(super) struct Written {
    /// The time at which the request was received.
    pub(super) at: Timestamp,
    /// The time of the response.
    pub(super) completed: Timestamp,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Setter {
    pub(super) async fn set(self, object: String, value: usize) -> Result<()> {
        let change = json!({"data": {"value": value.to_string()}});
        api::patch(&self.client, "ConfigMap", &self.namespace, &object, &change).await
    }
}

impl Relays {
    /// Starts a control plane and a host without plugins.
    pub(super) async fn start(count: usize) -> Result<Self> {
        let cluster = ring(count).await?;
        let folder = cluster.folder_with("relays", &[])?;
        let host = bed::plugins(&cluster, HOST, &folder, QUIET)?;
        let relays = Self {
            cluster,
            host,
            count,
            folder,
            wasm: fs::read(guest("relay")?)?,
        };
        until("the host is up", async || {
            Ok(relays.running().map_err(|error| format!("{error:#}")))
        })
        .await?;
        Ok(relays)
    }

    /// The name of a relay and of its namespace.
    pub(super) fn name(&self, number: usize) -> String {
        name(number, self.count)
    }

    pub(super) fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// Writes this version of a relay into the host's plugin folder.
    pub(super) fn put(&self, number: usize, version: usize) -> Result<()> {
        let name = name(number, self.count);
        let wasm = stamped(&numbered(&self.wasm, &name)?, &version.to_string());
        replace(&self.folder.join(format!("{name}.wasm")), &wasm)
    }

    /// The digests of the running relays, by name.
    pub(super) fn running(&self) -> Result<BTreeMap<String, String>> {
        let all: Vec<Value> = serde_json::from_str(
            &self
                .cluster
                .operator_command(HOST, &["status", "-o", "json"])?,
        )?;
        let running = all.iter().filter(|status| status["state"] == "running");
        let text =
            |status: &Value, field: &str| status[field].as_str().unwrap_or_default().to_owned();
        Ok(running
            .map(|status| (text(status, "name"), text(status, "digest")))
            .collect())
    }

    /// Waits until `count` relays run.
    pub(super) async fn until_running(&self, count: usize) -> Result<()> {
        wait("the relays run", async || {
            Ok((self.running()?.len(), count))
        })
        .await
    }

    /// A handle that changes what the first relay copies.
    pub(super) fn setter(&self) -> Setter {
        Setter {
            client: self.client().clone(),
            namespace: self.name(0),
        }
    }

    /// Creates an object for the first relay to copy.
    pub(super) async fn create(&self, object: &str, value: usize) -> Result<()> {
        let data = json!({"value": value.to_string()});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object}, "data": data});
        api::create(self.client(), &self.name(0), &map)
            .await
            .map(drop)
    }

    /// The value in the namespace of a relay.
    pub(super) async fn value(&self, number: usize, object: &str) -> Result<String> {
        let map = api::get(self.client(), "ConfigMap", &self.name(number), object).await?;
        Ok(map
            .and_then(|map| map["data"]["value"].as_str().map(str::to_owned))
            .unwrap_or_default())
    }

    /// Stops everything, and returns the writes of ConfigMaps in order.
    pub(super) async fn end(mut self) -> Result<Vec<Written>> {
        self.host.stop().await?;
        let mut written = Vec::new();
        for event in self.cluster.plane.audit_events()? {
            let (object, code) = (
                &event["objectRef"],
                event["responseStatus"]["code"].as_u64().unwrap_or(0),
            );
            let is_write = ["create", "update", "patch"]
                .iter()
                .any(|verb| event["verb"] == *verb);
            let is_copied =
                object["resource"] == "configmaps" && object["namespace"] != "kube-system";
            if event["stage"] == "ResponseComplete" && is_copied && is_write && code < 300 {
                let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
                let (at, completed) = (
                    time(&event, "requestReceivedTimestamp")?,
                    time(&event, "stageTimestamp")?,
                );
                written.push(Written {
                    at,
                    completed,
                    namespace: text("namespace"),
                    name: text("name"),
                });
            }
        }
        written.sort_by_key(|write| write.at);
        Ok(written)
    }
}

/// Starts a control plane with a ring of namespaces.
pub(super) async fn ring(count: usize) -> Result<Cluster> {
    let cluster = bed::plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let names = (0..count).map(|number| name(number, count));
    create_namespaces(&cluster.client, names).await?;
    Ok(cluster)
}

/// The name of a relay in a ring of `count`.
pub(super) fn name(number: usize, count: usize) -> String {
    format!("relay-{number:04}-of-{count:04}")
}

/// The relay's component with another name.
fn numbered(wasm: &[u8], name: &str) -> Result<Vec<u8>> {
    renamed(wasm, BUILT_NAME, name)
}

/// A component whose name `before` is replaced by one of the same length.
pub(super) fn renamed(wasm: &[u8], before: &str, name: &str) -> Result<Vec<u8>> {
    let (from, to) = (before.as_bytes(), name.as_bytes());
    ensure!(from.len() == to.len(), "{name} is not as long as {before}");
    let mut wasm = wasm.to_vec();
    let places: Vec<usize> = wasm
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from)
        .map(|(at, _)| at)
        .collect();
    ensure!(
        !places.is_empty(),
        "the component doesn't contain its name {before}"
    );
    for at in places {
        wasm[at..at + from.len()].copy_from_slice(to);
    }
    Ok(wasm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_gets_another_number() {
        let numbered = |wasm: &[u8], number| numbered(wasm, &name(number, 100));
        assert_eq!(
            numbered(b"relay-0000-of-0002!", 42).unwrap(),
            b"relay-0042-of-0100!"
        );
        assert!(numbered(b"relay-0000-of-0002!", 10_000).is_err());
        assert!(numbered(b"\0asm", 42).is_err());
    }
}
