//! The guarantees of a control plane: it serves, shares nothing with others, can be disturbed, and leaves no files or
//! processes behind.

mod disturbances;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flyball_controlplane::{ControlPlane, Options, process, skip};
use http::HeaderValue;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

/// How long any condition may take. The machine may be busy with other tests.
const LIMIT: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_serves_a_written_object_and_removes_its_folder() -> Result<()> {
    let plane = start(quiet()).await?;
    let dir = plane.dir().to_owned();
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    maps.create(&PostParams::default(), &config_map("greeting", "hello"))
        .await?;
    assert_eq!(value(&maps.get("greeting").await?), "hello");
    let pids: Vec<u32> = plane.pids().into_iter().map(|(_, pid)| pid).collect();
    assert_eq!(pids.len(), 2);
    plane.shutdown().await?;
    assert!(!dir.exists());
    assert!(pids.into_iter().all(|pid| !runs(pid)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_control_planes_share_nothing() -> Result<()> {
    let (a, b) = tokio::try_join!(start(quiet()), start(quiet()))?;
    assert_ne!(a.url(), b.url());
    assert_ne!(a.ca_pem(), b.ca_pem());
    let maps = Api::<ConfigMap>::default_namespaced(a.admin_client()?);
    maps.create(&PostParams::default(), &config_map("only-in-a", ""))
        .await?;
    let maps = Api::<ConfigMap>::default_namespaced(b.admin_client()?);
    assert!(maps.get_opt("only-in-a").await?.is_none());
    a.shutdown().await?;
    // The shutdown of one does not affect the other.
    maps.create(&PostParams::default(), &config_map("only-in-b", ""))
        .await?;
    b.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_binds_a_pod_to_a_node() -> Result<()> {
    if !tokio::task::spawn_blocking(flyball_controlplane::find_or_build)
        .await??
        .has_scheduler()
    {
        return skip(
            "the_scheduler_binds_a_pod_to_a_node",
            "the binaries in use don't include kube-scheduler",
        );
    }
    let plane = start(Options {
        disable_admission: vec!["ServiceAccount".to_owned()],
        ..Options::default()
    })
    .await?;
    let client = plane.admin_client()?;
    let node = json!({"metadata": {"name": "node"}, "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let nodes = Api::all(client.clone());
    nodes
        .create(&PostParams::default(), &from_json(node.clone())?)
        .await?;
    nodes
        .patch_status("node", &PatchParams::default(), &Patch::Merge(&node))
        .await?;
    // Admission adds the not-ready taint to a new node. No controller runs that would remove it.
    let untaint = json!({"spec": {"taints": null}});
    let _: k8s_openapi::api::core::v1::Node = nodes
        .patch("node", &PatchParams::default(), &Patch::Merge(&untaint))
        .await?;
    let pods = Api::<Pod>::default_namespaced(client);
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main", "image": "none"}]}});
    pods.create(&PostParams::default(), &from_json(pod)?)
        .await?;
    until("the pod has a node", async || {
        let pod = pods.get("pod").await?;
        Ok(pod.spec.and_then(|spec| spec.node_name).as_deref() == Some("node"))
    })
    .await?;
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_written_to_etcd_is_served() -> Result<()> {
    let plane = start(quiet()).await?;
    let maps = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    let mut map = serde_json::to_value(
        maps.create(&PostParams::default(), &config_map("old", "yes"))
            .await?,
    )?;
    map["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    plane
        .put_into_etcd("/registry/configmaps/default/old", &map)
        .await?;
    until("the ConfigMap has the old creation time", async || {
        let served = serde_json::to_value(maps.get("old").await?)?;
        Ok(
            served["metadata"]["creationTimestamp"] == "2020-01-01T00:00:00Z"
                && served["data"] == map["data"],
        )
    })
    .await?;
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_has_only_the_rights_of_its_user() -> Result<()> {
    let plane = start(quiet()).await?;
    for (path, user, may_list_secrets) in [
        (plane.kubeconfig_path().to_owned(), "admin", true),
        (
            plane.kcm_kubeconfig_path().to_owned(),
            "system:kube-controller-manager",
            true,
        ),
        (
            plane.kubeconfig_for("robot", "robot", Some("robots"))?,
            "robot",
            false,
        ),
    ] {
        let client = client_of(&path).await?;
        let review = Api::<SelfSubjectReview>::all(client.clone())
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let info = review
            .status
            .and_then(|status| status.user_info)
            .unwrap_or_default();
        assert_eq!(info.username.as_deref(), Some(user));
        assert_eq!(
            info.groups
                .unwrap_or_default()
                .contains(&"system:masters".to_owned()),
            user == "admin"
        );
        let secrets = Api::<k8s_openapi::api::core::v1::Secret>::all(client)
            .list(&ListParams::default())
            .await;
        assert_eq!(secrets.is_ok(), may_list_secrets, "{user}");
    }
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_each_write_with_its_user_agent() -> Result<()> {
    let plane = start(Options {
        audit: true,
        ..quiet()
    })
    .await?;
    let mut config = plane.admin_config()?;
    config.headers.push((
        http::header::USER_AGENT,
        HeaderValue::from_static("counted/1.0"),
    ));
    let maps = Api::<ConfigMap>::default_namespaced(Client::try_from(config)?);
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name, ""))
            .await?;
    }
    maps.delete("a", &DeleteParams::default()).await?;
    maps.list(&ListParams::default()).await?;
    let other = Api::<ConfigMap>::default_namespaced(plane.admin_client()?);
    other
        .create(&PostParams::default(), &config_map("c", ""))
        .await?;

    let mut verbs = BTreeMap::<String, u32>::new();
    for event in plane.audit_events()? {
        assert_eq!(event["level"], "Metadata");
        assert_ne!(event["stage"], "RequestReceived");
        if event["userAgent"] == "counted/1.0" {
            *verbs
                .entry(event["verb"].as_str().unwrap_or_default().to_owned())
                .or_default() += 1;
        }
    }
    assert_eq!(
        verbs,
        BTreeMap::from([
            ("create".into(), 2),
            ("delete".into(), 1),
            ("list".into(), 1)
        ])
    );
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stock_controller_manager_leads_and_reconciles() -> Result<()> {
    let plane = start(Options {
        audit: true,
        ..quiet()
    })
    .await?;
    if !plane.assets().has_kcm() {
        plane.shutdown().await?;
        return skip(
            "the_stock_controller_manager_leads_and_reconciles",
            "the binaries in use don't include kube-controller-manager",
        );
    }
    let mut kcm = plane.start_kcm(&["--controllers=serviceaccount-controller"])?;
    let accounts = Api::<ServiceAccount>::default_namespaced(plane.admin_client()?);
    until("the default service account exists", async || {
        Ok(accounts.get_opt("default").await?.is_some())
    })
    .await?;
    let leases = Api::<Lease>::namespaced(plane.admin_client()?, "kube-system");
    let lease = leases.get("kube-controller-manager").await?;
    assert!(
        lease
            .spec
            .is_some_and(|spec| spec.holder_identity.is_some())
    );
    let agent = plane
        .audit_events()?
        .into_iter()
        .find(|event| {
            event["verb"] == "create" && event["objectRef"]["resource"] == "serviceaccounts"
        })
        .and_then(|event| event["userAgent"].as_str().map(str::to_owned))
        .context("the audit log has no creation of a service account")?;
    assert!(agent.starts_with("kube-controller-manager/v1."), "{agent}");
    let pid = kcm.pid();
    kcm.stop().await?;
    assert!(!runs(pid));
    plane.shutdown().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_a_part_that_fails_to_start_has_its_name_and_log() -> Result<()> {
    let options = Options {
        apiserver_args: vec!["--no-such-flag".to_owned()],
        ..quiet()
    };
    let Err(error) = flyball_controlplane::start(options).await else {
        bail!("the control plane started with a flag that doesn't exist")
    };
    let text = format!("{error:#}");
    assert!(
        text.contains("kube-apiserver failed to become ready: it exited with code 1"),
        "{text}"
    );
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
    // The logs are kept, and the error has their path.
    let dir = text
        .split("the logs are in ")
        .nth(1)
        .and_then(|rest| rest.split(')').next())
        .context("the error has no path")?;
    let logs = Path::new(dir);
    ensure!(
        logs.join("kube-apiserver.log").is_file() && logs.join("etcd.log").is_file(),
        "the logs aren't in {dir}"
    );
    fs::remove_dir_all(logs)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_outlives_a_killed_parent() -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_controlplane-up"));
    // A killed process can't remove its folder. The next holder of the slot would, but none follows in this test.
    let folder = tempfile::tempdir()?;
    command.env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let mut parent = process::spawn(command)?;
    let mut pids = Vec::<u32>::new();
    for line in BufReader::new(parent.stdout.take().context("the output is not piped")?).lines() {
        let line = line?;
        if let Some(part) = line.strip_prefix("# pid ") {
            pids.push(part.split(' ').next().unwrap_or_default().parse()?);
        }
        if line.starts_with("export KUBECONFIG=") {
            break;
        }
    }
    assert!(pids.len() >= 2 && pids.iter().all(|pid| runs(*pid)));
    parent.kill()?;
    parent.wait()?;
    until("the children have ended", async || {
        Ok(pids.iter().all(|pid| !runs(*pid)))
    })
    .await?;
    Ok(())
}

/// Starts a control plane, and prints how long it took.
async fn start(options: Options) -> Result<ControlPlane> {
    let begun = Instant::now();
    let plane = flyball_controlplane::start(options).await?;
    eprintln!(
        "{} was ready after {:.1} s",
        plane.url(),
        begun.elapsed().as_secs_f32()
    );
    Ok(plane)
}

/// The options of most tests, which don't need a scheduler.
fn quiet() -> Options {
    Options {
        scheduler: false,
        ..Options::default()
    }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn value(map: &ConfigMap) -> &str {
    map.data
        .as_ref()
        .and_then(|data| data.get("value"))
        .map_or("", String::as_str)
}

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}

async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(
        Kubeconfig::read_from(kubeconfig)?,
        &KubeConfigOptions::default(),
    )
    .await?;
    Ok(Client::try_from(config)?)
}

/// Waits until `holds` returns true. An error doesn't end the wait.
async fn until(what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = holds().await;
        if matches!(found, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("waited {} s until {what}: {found:?}", LIMIT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Whether a process with this ID runs. A zombie doesn't count.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
