//! A control plane can be restarted, paused, compacted, and started from a snapshot.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_controlplane::Options;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::{LIMIT, config_map, quiet, start, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_api_server_keeps_its_data_and_its_address() -> Result<()> {
    let mut plane = start(quiet()).await?;
    let (client, url) = (plane.admin_client()?, plane.url().to_owned());
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let written = maps
        .create(&PostParams::default(), &config_map("kept", "yes"))
        .await?;
    let before = plane
        .pids()
        .iter()
        .find(|(name, _)| *name == "kube-apiserver")
        .map(|(_, pid)| *pid);
    plane.restart_apiserver().await?;
    let after = plane
        .pids()
        .iter()
        .find(|(name, _)| *name == "kube-apiserver")
        .map(|(_, pid)| *pid);
    assert_ne!(before, after);
    assert_eq!(plane.url(), url);
    assert_eq!(maps.get("kept").await?.metadata.uid, written.metadata.uid);

    plane.stop_apiserver().await?;
    assert!(maps.get("kept").await.is_err());
    assert!(plane.pause_apiserver().is_err());
    plane.start_apiserver().await?;
    assert_eq!(value(&maps.get("kept").await?), "yes");
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_control_planes_start_from_one_snapshot() -> Result<()> {
    let plane = start(quiet()).await?;
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    let written = maps
        .create(&PostParams::default(), &config_map("kept", "yes"))
        .await?;
    let snapshot = plane.into_snapshot().await?;
    for value_of_own in ["one", "another"] {
        let plane = start(Options {
            snapshot: Some(snapshot.clone()),
            ..quiet()
        })
        .await?;
        let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
        assert_eq!(maps.get("kept").await?.metadata.uid, written.metadata.uid);
        // This fails if another control plane's object is visible.
        maps.create(&PostParams::default(), &config_map("own", value_of_own))
            .await?;
        plane.shutdown().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_api_server_responds_after_it_is_resumed() -> Result<()> {
    let mut plane = start(quiet()).await?;
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    maps.list(&ListParams::default()).await?;
    plane.pause_apiserver()?;
    let (params, late) = (PostParams::default(), config_map("late", ""));
    let mut response = pin!(maps.create(&params, &late));
    let silence = tokio::time::timeout(Duration::from_secs(1), &mut response).await;
    assert!(silence.is_err(), "a paused server responded: {silence:?}");
    plane.resume_apiserver()?;
    tokio::time::timeout(LIMIT, response)
        .await
        .context("a resumed server didn't respond")??;
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_expires_an_old_watch_without_a_watch_cache() -> Result<()> {
    let plane = start(Options {
        watch_cache: false,
        ..quiet()
    })
    .await?;
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    let old = change_some(&maps).await?;
    assert!(watch_code(&maps, &old).await?.is_none());
    let compacted = plane.compact_etcd().await?;
    ensure!(
        compacted > old.parse()?,
        "etcd was compacted to {compacted}, but the watch begins at {old}"
    );
    assert_eq!(watch_code(&maps, &old).await?, Some(410));
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_and_a_restart_expire_an_old_watch() -> Result<()> {
    let mut plane = start(quiet()).await?;
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    let old = change_some(&maps).await?;
    plane.compact_etcd().await?;
    plane.restart_apiserver().await?;
    assert_eq!(watch_code(&maps, &old).await?, Some(410));
    plane.shutdown().await
}

/// Writes several versions of an object, and returns the resource version of the first one.
async fn change_some(maps: &Api<ConfigMap>) -> Result<String> {
    let first = maps
        .create(&PostParams::default(), &config_map("changing", "0"))
        .await?;
    for i in 1..5 {
        let patch = json!({"data": {"value": i.to_string()}});
        maps.patch("changing", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    first
        .metadata
        .resource_version
        .context("the object has no resource version")
}

/// Watches from `version`. Returns `None` if the first event is a change, or the status code if it is an error.
async fn watch_code(maps: &Api<ConfigMap>, version: &str) -> Result<Option<u16>> {
    let events = match maps.watch(&WatchParams::default(), version).await {
        Err(kube::Error::Api(status)) => return Ok(Some(status.code)),
        events => events?,
    };
    let first = tokio::time::timeout(LIMIT, pin!(events).next())
        .await
        .context("the watch is silent")?;
    match first.context("the watch ended without an event")? {
        Ok(WatchEvent::Error(status)) => Ok(Some(status.code)),
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.code)),
        Err(error) => Err(error.into()),
    }
}
