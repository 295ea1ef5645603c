//! The examples that are of use: all on one control plane, in one host, each with a service account that has the rights
//! of the printed roles alone.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Example, Scenarios, Space, finish, merged, until, workload};
use flyball_controlplane::Options;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Pod, ResourceQuota, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// The examples: the names of the plugins, of their components and of their folders in `examples`.
const EXAMPLES: [&str; 6] = [
    "pod-disruption-guard",
    "namespace-defaults",
    "idle-scaler",
    "cert-expiry",
    "secret-mirror",
    "image-pin",
];
const NAME: &str = "namespace-defaults";

#[tokio::test]
async fn the_examples_do_their_work_and_nothing_is_written_twice() -> Result<()> {
    let options = Options {
        scheduler: false,
        audit: true,
        ..Options::default()
    };
    let cluster = Cluster::without_nodes(options).await?;
    let result = all_work(&cluster).await;
    finish(cluster, [], result).await
}

async fn all_work(cluster: &Cluster) -> Result<()> {
    let test = "the_examples_do_their_work_and_nothing_is_written_twice";
    let examples = Example::built(&EXAMPLES, test)?;
    cluster.grant(&examples).await?;
    let (port, serving) = cluster.serving();
    // Pods need a service account.
    let controllers = "--controllers=serviceaccount-controller".to_owned();
    let flags = [&serving[..], &[controllers]].concat();
    let mut host = cluster.spawn_examples("examples", &examples, &flags)?;
    let mut scenarios = Scenarios::new(cluster);
    for Example { name, .. } in &examples {
        cluster
            .until_plugin("examples", name, "runs", |status| {
                status["state"] == "running"
            })
            .await?;
        match name.as_str() {
            "pod-disruption-guard" => scenarios.add("guarded", budgets_are_kept),
            "namespace-defaults" => scenarios.add("defaulted", defaults_are_kept),
            "idle-scaler" => scenarios.add("scaled", a_deployment_sleeps_and_wakes),
            "cert-expiry" => scenarios.add("expiring", certificates_are_watched),
            "secret-mirror" => scenarios.add("mirrored", secrets_are_mirrored),
            _ => scenarios.add("unpinned", pods_are_flagged),
        }
    }
    scenarios.run().await?;
    if examples.len() == EXAMPLES.len() {
        let all = "the metrics have what the examples found";
        until(all, async || {
            let metrics = cluster.https(port, "/metrics").await?;
            let wrong = METRICS
                .iter()
                .find(|(series, expected)| value_of(&metrics, series) != Some(*expected));
            Ok(wrong.map_or(Ok(()), |(series, _)| {
                Err(format!("{series}{:?}", value_of(&metrics, series)))
            }))
        })
        .await?;
    }
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    nothing_is_written_again(cluster, &examples).await
}

/// Series with the namespaces of the scenarios below, and their values.
const METRICS: [(&str, f64); 5] = [
    (
        "plugin_image_pin__unpinned_containers{namespace=\"unpinned\"} ",
        1.0,
    ),
    ("plugin_cert_expiry__expiring{namespace=\"expiring\"} ", 1.0),
    (
        "plugin_cert_expiry__unreadable{namespace=\"expiring\"} ",
        0.0,
    ),
    (
        "plugin_cert_expiry__not_after_timestamp_seconds{namespace=\"expiring\",secret=\"expired\"} ",
        1_577_836_800.0,
    ),
    (
        "plugin_cert_expiry__not_after_timestamp_seconds{namespace=\"expiring\",secret=\"renewed\"} ",
        4_733_510_400.0,
    ),
];

fn value_of(metrics: &str, series: &str) -> Option<f64> {
    metrics
        .lines()
        .find_map(|line| line.strip_prefix(series)?.parse().ok())
}

/// Starts another host, which reconciles every key once.
async fn nothing_is_written_again(cluster: &Cluster, examples: &[Example]) -> Result<()> {
    let before = writes(cluster)?;
    ensure!(!before.is_empty(), "the audit log has no writes");
    let mut host = cluster.spawn_examples("again", examples, &[])?;
    for Example { name, .. } in examples {
        let is_idle = |status: &Value| {
            status["queued"] == 0 && status["reconciles"].as_u64().is_some_and(|count| count > 0)
        };
        cluster
            .until_plugin("again", name, "has reconciled all keys", is_idle)
            .await?;
    }
    let status = host.stop().await?;
    ensure!(status.success(), "the second host ended with {status}");
    let after = writes(cluster)?;
    let new = &after[before.len()..];
    ensure!(new.is_empty(), "a restart wrote again: {new:#?}");
    Ok(())
}

/// The writes of the plugins so far, but for events.
fn writes(cluster: &Cluster) -> Result<Vec<String>> {
    let is_write = |event: &&Value| {
        let verb = event["verb"].as_str().unwrap_or_default();
        let user = event["user"]["username"].as_str().unwrap_or_default();
        ["create", "update", "patch", "delete"].contains(&verb)
            && user.starts_with("system:serviceaccount:flyball-system:")
            && event["objectRef"]["resource"] != "events"
    };
    let events = cluster.plane.audit_events()?;
    let lines = events.iter().filter(is_write).map(|event| {
        format!(
            "{} {} by {}",
            event["verb"], event["requestURI"], event["user"]["username"]
        )
    });
    Ok(lines.collect())
}

/// Waits until an object, `null` if there is none, meets a condition.
async fn until_object<K>(
    space: &Space,
    name: &str,
    what: &str,
    mut is_met: impl FnMut(&Value) -> bool,
) -> Result<Value>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let kind = K::kind(&());
    until(&format!("the {kind} {name} {what}"), async || {
        let found = serde_json::to_value(space.api::<K>().get_opt(name).await?)?;
        Ok(if is_met(&found) {
            Ok(found)
        } else {
            Err(found.to_string())
        })
    })
    .await
}

/// The objects of a file of an example.
fn manifests(example: &str, file: &str) -> Result<Vec<Value>> {
    let path = Example::folders()
        .join(example)
        .join("manifests")
        .join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let parse = |document| serde_saphyr::from_str(document);
    text.split("\n---\n")
        .map(parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is malformed", path.display()))
}

async fn budgets_are_kept(space: Space) -> Result<()> {
    let budget = "web-guard";
    let exists = |budget: &Value| budget.is_object();
    space.deploy(3, "a", json!({})).await?;
    let made = until_object::<PodDisruptionBudget>(&space, budget, "exists", exists).await?;
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    ensure!(made["spec"] == spec, "the budget is {made}");
    space
        .until_event("Deployment", "Normal", "BudgetCreated", budget)
        .await?;

    let loose = json!({"spec": {"maxUnavailable": 3, "selector": {"matchLabels": {"a": "b"}}}});
    space.change::<PodDisruptionBudget>(budget, loose).await?;
    let is_corrected = |budget: &Value| budget["spec"] == spec;
    until_object::<PodDisruptionBudget>(&space, budget, "is corrected", is_corrected).await?;

    let theirs = json!({"metadata": {"name": "theirs"},
                        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    space
        .create_object::<PodDisruptionBudget>(theirs.clone())
        .await?;
    until_object::<PodDisruptionBudget>(&space, budget, "gives way", Value::is_null).await?;
    space
        .until_event("Deployment", "Normal", "BudgetDeleted", "the budget theirs")
        .await?;
    space.delete::<PodDisruptionBudget>("theirs").await?;
    until_object::<PodDisruptionBudget>(&space, budget, "is back", exists).await?;

    space.redeploy(json!({"replicas": 1})).await?;
    until_object::<PodDisruptionBudget>(&space, budget, "is deleted", Value::is_null).await?;
    space.redeploy(json!({"replicas": 2})).await?;
    until_object::<PodDisruptionBudget>(&space, budget, "is back", exists).await?;
    // No garbage collector runs.
    space.delete::<Deployment>("web").await?;
    until_object::<PodDisruptionBudget>(&space, budget, "goes along", Value::is_null).await?;

    let shop = manifests("pod-disruption-guard", "deployments.yaml")?;
    for object in shop {
        space.create_object::<Deployment>(object).await?;
    }
    until_object::<PodDisruptionBudget>(&space, "shop-guard", "exists", exists).await?;
    ensure!(
        space
            .api::<PodDisruptionBudget>()
            .get_opt("batch-guard")
            .await?
            .is_none(),
        "a Deployment that is to be ignored has a budget"
    );
    Ok(())
}

async fn label(space: &Space, profile: Option<&str>) -> Result<()> {
    let change =
        json!({"metadata": {"labels": {"namespace-defaults.flyball.dev/profile": profile}}});
    let namespaces = Api::<Namespace>::all(space.client.clone());
    let changed = namespaces
        .patch(&space.name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    changed.map(drop).context("can't label the namespace")
}

async fn defaults_are_kept(space: Space) -> Result<()> {
    let profiles = Space {
        name: "flyball-system".into(),
        ..space.clone()
    };
    for object in manifests("namespace-defaults", "profiles.yaml")? {
        profiles.create_object::<ConfigMap>(object).await?;
    }
    label(&space, Some("team")).await?;
    let exists = |found: &Value| found.is_object();
    let limits = until_object::<LimitRange>(&space, NAME, "exists", exists).await?;
    until_object::<NetworkPolicy>(&space, NAME, "exists", exists).await?;
    let has_quota = |quota: &Value| quota["spec"]["hard"]["pods"] == "50";
    until_object::<ResourceQuota>(&space, NAME, "exists", has_quota).await?;

    // Fields that others add to a quota are kept; fields of the profile that they change are corrected.
    let more = json!({"spec": {"hard": {"pods": "999", "services": "3"}}});
    space.change::<ResourceQuota>(NAME, more).await?;
    let quota = until_object::<ResourceQuota>(&space, NAME, "is corrected", has_quota).await?;
    ensure!(
        quota["spec"]["hard"]["services"] == "3",
        "the quota is {quota}"
    );
    space.delete::<LimitRange>(NAME).await?;
    let is_new =
        |found: &Value| found.is_object() && found["metadata"]["uid"] != limits["metadata"]["uid"];
    until_object::<LimitRange>(&space, NAME, "is back", is_new).await?;

    label(&space, Some("quarantine")).await?;
    until_object::<LimitRange>(&space, NAME, "is deleted", Value::is_null).await?;
    let is_closed = |policy: &Value| {
        policy["spec"]["policyTypes"] == json!(["Ingress", "Egress"])
            && policy["spec"]["egress"].is_null()
            && policy["spec"]["ingress"].is_null()
    };
    until_object::<NetworkPolicy>(&space, NAME, "is closed", is_closed).await?;
    space
        .change::<NetworkPolicy>(NAME, json!({"spec": {"egress": [{}]}}))
        .await?;
    until_object::<NetworkPolicy>(&space, NAME, "is closed again", is_closed).await?;

    label(&space, Some("unknown")).await?;
    let default = Space {
        name: "default".into(),
        ..space.clone()
    };
    default
        .until_event("Namespace", "Warning", "InvalidProfile", "no such key")
        .await?;
    ensure!(
        space.api::<NetworkPolicy>().get_opt(NAME).await?.is_some(),
        "a profile that does not exist has opened the namespace"
    );
    label(&space, None).await?;
    until_object::<NetworkPolicy>(&space, NAME, "is deleted", Value::is_null).await?;
    until_object::<ResourceQuota>(&space, NAME, "is deleted", Value::is_null).await?;
    label(&space, Some("team")).await?;
    until_object::<LimitRange>(&space, NAME, "is back", exists).await?;
    until_object::<ResourceQuota>(&space, NAME, "is back", exists).await?;
    until_object::<NetworkPolicy>(&space, NAME, "is back", exists)
        .await
        .map(drop)
}

/// Hours of every day, in UTC, that begin and end these numbers of hours from now.
fn hours(from: i64, to: i64) -> Result<String> {
    let hour = |offset: i64| {
        let time = Timestamp::now().checked_add(offset.hours())?;
        Ok::<_, anyhow::Error>(time.to_zoned(TimeZone::UTC).strftime("%H:00").to_string())
    };
    Ok(format!("{}-{}", hour(from)?, hour(to)?))
}

async fn a_deployment_sleeps_and_wakes(space: Space) -> Result<()> {
    let annotations = |hours: Value| json!({"metadata": {"annotations": {"idle-scaler.flyball.dev/hours": hours}}});
    let with = |hours: String| annotations(hours.into());
    let replicas = |replicas: i64, noted: Value| {
        move |found: &Value| {
            let note = &found["metadata"]["annotations"]["idle-scaler.flyball.dev/replicas"];
            found["spec"]["replicas"] == replicas && *note == noted
        }
    };
    let object = json!({"metadata": {"name": "web"}, "spec": workload(3, "a")});
    let object = merged(object, with(hours(6, 8)?));
    space.create_object::<Deployment>(object).await?;
    until_object::<Deployment>(&space, "web", "sleeps", replicas(0, json!("3"))).await?;
    space
        .until_event("Deployment", "Normal", "ScaledToZero", "from 3 to 0 until")
        .await?;
    space.redeploy(json!({"replicas": 5})).await?;
    until_object::<Deployment>(&space, "web", "sleeps on", replicas(0, json!("5"))).await?;
    // The hours of these Deployments last for at least four more hours.
    space
        .change::<Deployment>("web", with(hours(-1, 5)?))
        .await?;
    until_object::<Deployment>(&space, "web", "wakes", replicas(5, Value::Null)).await?;
    space
        .until_event("Deployment", "Normal", "ScaledUp", "from 0 to 5")
        .await?;
    space
        .change::<Deployment>("web", annotations(json!("Mo-Fr 8-18")))
        .await?;
    space
        .until_event("Deployment", "Warning", "InvalidHours", "Mo-Fr 8-18")
        .await?;
    // The sandbox knows time zones.
    let zone =
        json!({"metadata": {"annotations": {"idle-scaler.flyball.dev/time-zone": "Etc/GMT+12"}}});
    space
        .change::<Deployment>("web", merged(zone, with(hours(0 - 12 + 6, 0 - 12 + 8)?)))
        .await?;
    until_object::<Deployment>(&space, "web", "sleeps", replicas(0, json!("5"))).await?;
    space
        .change::<Deployment>("web", annotations(Value::Null))
        .await?;
    until_object::<Deployment>(&space, "web", "wakes", replicas(5, Value::Null)).await?;
    space
        .change::<Deployment>("web", with(hours(-6, -4)?))
        .await?;
    until_object::<Deployment>(&space, "web", "sleeps", replicas(0, json!("5")))
        .await
        .map(drop)
}

async fn certificates_are_watched(space: Space) -> Result<()> {
    let mut expired = manifests("cert-expiry", "secrets.yaml")?;
    let expired = expired.pop().context("the manifest has no Secret")?;
    let mut renewed = expired.clone();
    renewed["metadata"]["name"] = json!("renewed");
    space.create_object::<Secret>(expired).await?;
    let message = "the certificate expired at 2020-01-01T00:00:00.000Z";
    space
        .until_event("Secret", "Warning", "CertificateExpired", message)
        .await?;
    renewed["data"]["tls.crt"] = json!("R3LDvGV6aQ==");
    space.create_object::<Secret>(renewed).await?;
    let message = "it holds no certificate";
    space
        .until_event("Secret", "Warning", "CertificateUnreadable", message)
        .await?;
    // It is valid until 2120.
    let valid = include_str!(
        "../../../../guests/controllers/certificatesigningrequest-cleaner/testdata/valid.crt"
    );
    let change = json!({"stringData": {"tls.crt": valid}});
    space.change::<Secret>("renewed", change).await.map(drop)
}

async fn secrets_are_mirrored(space: Space) -> Result<()> {
    for object in manifests("secret-mirror", "mirror.yaml")? {
        match object["kind"].as_str() {
            Some("Namespace") => {
                let namespace = serde_json::from_value(object)?;
                Api::<Namespace>::all(space.client.clone())
                    .create(&Default::default(), &namespace)
                    .await?;
            }
            _ => drop(
                in_namespace(&space, "vault")
                    .create_object::<Secret>(object)
                    .await?,
            ),
        }
    }
    let (vault, team) = (in_namespace(&space, "vault"), in_namespace(&space, "team"));
    let has = |password: &'static str| {
        // Base64.
        move |secret: &Value| secret["data"] == json!({"password": password})
    };
    let name = "registry";
    until_object::<Secret>(&team, name, "exists", has("Y2hhbmdlLW1l")).await?;
    vault
        .until_event("Secret", "Normal", "Mirrored", "team")
        .await?;
    let changed = json!({"data": {"password": "R3LDvGV6aQ=="}});
    vault.change::<Secret>(name, changed).await?;
    until_object::<Secret>(&team, name, "follows", has("R3LDvGV6aQ==")).await?;
    let spoilt = json!({"data": {"password": "eA==", "more": "eA=="}});
    team.change::<Secret>(name, spoilt).await?;
    until_object::<Secret>(&team, name, "is corrected", has("R3LDvGV6aQ==")).await?;

    // The namespace of this scenario does not allow the copy at first, and already has a Secret of that name.
    let own = json!({"metadata": {"name": name}, "data": {"mine": "eA=="}});
    space.create_object::<Secret>(own).await?;
    let to = |to: &str| json!({"metadata": {"annotations": {"secret-mirror.flyball.dev/to": to}}});
    let both = format!("team, {}", space.name);
    vault.change::<Secret>(name, to(&both)).await?;
    vault
        .until_event("Secret", "Warning", "MirrorRefused", &space.name)
        .await?;
    let consent = json!({"metadata": {"annotations": {"secret-mirror.flyball.dev/from": "vault"}}});
    Api::<Namespace>::all(space.client.clone())
        .patch(&space.name, &PatchParams::default(), &Patch::Merge(consent))
        .await?;
    vault
        .until_event("Secret", "Warning", "NameTaken", &space.name)
        .await?;
    until_object::<Secret>(&space, name, "is untouched", |secret| {
        secret["data"] == json!({"mine": "eA=="})
    })
    .await?;

    vault.change::<Secret>(name, to(&space.name)).await?;
    until_object::<Secret>(&team, name, "is deleted", Value::is_null).await?;
    vault.change::<Secret>(name, to("team")).await?;
    until_object::<Secret>(&team, name, "is back", has("R3LDvGV6aQ==")).await?;
    vault.delete::<Secret>(name).await?;
    until_object::<Secret>(&team, name, "goes along", Value::is_null).await?;
    let again = json!({"metadata": {
        "name": "again", "labels": {"secret-mirror.flyball.dev/role": "source"},
        "annotations": {"secret-mirror.flyball.dev/to": "*"},
    }});
    vault.create_object::<Secret>(again).await?;
    for space in [&team, &space] {
        until_object::<Secret>(space, "again", "exists", Value::is_object).await?;
    }
    Ok(())
}

fn in_namespace(space: &Space, name: &str) -> Space {
    Space {
        name: name.into(),
        ..space.clone()
    }
}

async fn pods_are_flagged(space: Space) -> Result<()> {
    for object in manifests("image-pin", "pods.yaml")? {
        space.create_object::<Pod>(object).await?;
    }
    let message = "no digest pins the image of pause (registry.k8s.io/pause:3.10)";
    space
        .until_event("Pod", "Warning", "ImageNotPinned", message)
        .await
}
