//! The demo on the user's cluster. It runs no fake nodes and no built-in controllers, only the plugin
//! `greeter`, which may write in a namespace that the demo creates. The namespace is always deleted.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use xtask::build::Built;
use xtask::guests::names::Guest;

use super::host::Host;
use super::table::{Table, since};

/// The namespace that the demo creates and deletes.
const NAMESPACE: &str = "flyball-demo";
const ANNOTATION: &str = "greeter.flyball.dev/greeting";
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// The greeter's policy.
const POLICY: &str = r#"
[[plugins.greeter.allow]]
kinds = ["v1/Namespace", "v1/ConfigMap"]
verbs = ["watch"]
[[plugins.greeter.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["get", "create", "update", "delete"]
namespaces = ["flyball-demo"]
"#;

/// Plays the greeter's story on the cluster of this kubeconfig's current context.
pub(super) async fn play(kubeconfig: &Path, built: &Built) -> Result<()> {
    let read = || format!("can't use the kubeconfig {}", kubeconfig.display());
    let config = Kubeconfig::read_from(kubeconfig).with_context(read)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .with_context(read)?;
    let url = config.cluster_url.clone();
    let client = Client::try_from(config).with_context(read)?;
    let version = client
        .apiserver_version()
        .await
        .with_context(|| format!("the cluster at {url} does not respond"))?;
    println!(
        "The cluster at {url} runs {}. The plugin greeter writes only in the namespace {NAMESPACE}.",
        version.git_version
    );

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let namespace =
        serde_json::from_value(namespace).context("the demo's namespace is not valid")?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .with_context(|| {
            format!(
                "can't create the namespace {NAMESPACE}: if an earlier run left it, delete it first"
            )
        })?;
    let result = tokio::select! {
        result = play_in_namespace(&client, kubeconfig, built) => result,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    namespaces
        .delete(NAMESPACE, &DeleteParams::default())
        .await
        .with_context(|| format!("can't delete the namespace {NAMESPACE}: delete it by hand"))?;
    println!("\nThe namespace {NAMESPACE} is being deleted.");
    result
}

async fn play_in_namespace(client: &Client, kubeconfig: &Path, built: &Built) -> Result<()> {
    let dir = tempfile::tempdir().context("can't create a folder for the demo's plugin")?;
    let plugins = dir.path().join("plugins");
    std::fs::create_dir(&plugins)?;
    std::fs::copy(built.guest(Guest::Greeter), plugins.join("greeter.wasm"))
        .context("can't copy the greeter")?;
    let policy = dir.path().join("policy.toml");
    std::fs::write(&policy, POLICY)?;
    let mut host = Host::start(
        &built.host,
        dir.path(),
        &[
            format!("--kubeconfig={}", kubeconfig.display()),
            "--controllers=".into(),
            format!("--plugin-dir={}", plugins.display()),
            format!("--policy={}", policy.display()),
        ],
    )?;
    let result = story(client, &mut host).await;
    if result.is_err() {
        eprintln!("The last lines of the host's log:\n{}", host.log_tail());
    }
    host.stop().await?;
    result
}

async fn story(client: &Client, host: &mut Host) -> Result<()> {
    let table = Table::new();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let greet = async |greeting: Option<&str>| {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: greeting}}});
        namespaces
            .patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .context("can't annotate the namespace")
    };

    let start = Timestamp::now();
    greet(Some("hello")).await?;
    until(
        &maps,
        host,
        &table,
        start,
        "The namespace is annotated with \"hello\"",
        Some("hello"),
    )
    .await?;

    let start = Timestamp::now();
    greet(Some("good day")).await?;
    until(
        &maps,
        host,
        &table,
        start,
        "The greeting is changed to \"good day\"",
        Some("good day"),
    )
    .await?;

    let start = Timestamp::now();
    maps.delete("greeting", &DeleteParams::default())
        .await
        .context("can't delete the ConfigMap")?;
    until(
        &maps,
        host,
        &table,
        start,
        "The ConfigMap is deleted by hand",
        Some("good day"),
    )
    .await?;

    let start = Timestamp::now();
    greet(None).await?;
    until(
        &maps,
        host,
        &table,
        start,
        "The annotation is removed",
        None,
    )
    .await?;
    println!("\nAll steps succeeded.");
    Ok(())
}

async fn until(
    maps: &Api<ConfigMap>,
    host: &mut Host,
    table: &Table,
    start: Timestamp,
    title: &str,
    expected: Option<&str>,
) -> Result<()> {
    table.title(title);
    loop {
        let map = maps
            .get_opt("greeting")
            .await
            .context("can't read the ConfigMap")?;
        let greeting = map.and_then(|map| map.data?.remove("greeting"));
        let done = greeting.as_deref() == expected;
        table.rows(start, &host.reconciled()?);
        let observed = greeting.map_or("no ConfigMap".into(), |greeting| {
            format!("the ConfigMap says {greeting:?}")
        });
        if done {
            table.end(start, &observed);
            return Ok(());
        }
        if since(start) > PATIENCE {
            bail!(
                "\"{title}\" did not succeed within {} s: {observed}",
                PATIENCE.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}
