//! Volumes are handed over in the middle of their attachments, detachments and bindings. The test plays the attacher, the
//! kubelets and the provisioner, so that everything stalls until it goes on.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};
use kube::Client;
use serde_json::{Value, json};

use crate::create_namespace;
use crate::lead::Lead;

const CONTROLLERS: &str = "persistentvolume-attach-detach-controller,persistentvolume-binder-controller,\
    persistentvolume-expander-controller,persistentvolume-protection-controller,\
    persistentvolumeclaim-protection-controller,root-ca-certificate-publisher-controller,\
    serviceaccount-controller";
const NAMESPACE: &str = "takeover-volumes";
/// The driver that the test plays.
const DRIVER: &str = "takeover.example.com";
/// The finalizer of its attacher.
const ATTACHER: &str = "external-attacher/takeover-example-com";
/// Two nodes whose kubelets the test plays.
const NODES: [&str; 2] = ["takeover-a", "takeover-b"];
const CLAIM: &str = "PersistentVolumeClaim";
/// The prefix of what shows that a leader works.
const CANARY: &str = "canary-";
/// The VolumeAttachments that the controllers of all leaders together create and delete: no more than one leader would.
/// Four of them are those of canaries.
const WRITES: [(&str, usize); 2] = [("create", 5 + 4), ("delete", 2)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_in_the_middle_of_an_attachment_repeats_and_forgets_nothing() -> Result<()> {
    hand_over([Subject::Stock, Subject::Flyball, Subject::Stock]).await
}

/// Shows that the expectations are those of stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "tests stock alone: `cargo xtask test --full` runs it"]
async fn a_takeover_of_volumes_from_stock_to_stock_repeats_and_forgets_nothing_either() -> Result<()>
{
    hand_over([Subject::Stock; 3]).await
}

/// Lets three subjects lead one after the other.
async fn hand_over([first, second, third]: [Subject; 3]) -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        audit: true,
        scheduler: false,
        ..Options::default()
    })
    .await?;
    if !cluster.plane.assets().has_kcm() {
        flyball_controlplane::skip(
            "takeover of volumes",
            "the binaries in use don't include kube-controller-manager",
        )?;
        return cluster.shutdown().await;
    }
    let mut lead = Lead::start(&cluster, first, CONTROLLERS)?;
    let result = async {
        let client = &cluster.client;
        create(client).await?;
        canary(client, 1).await?;
        let created = state(client).await?;

        lead.pass_to(second).await?;
        canary(client, 2).await?;
        unchanged(&created, &state(client).await?, "the second leader")?;
        proceed(client).await?;
        canary(client, 3).await?;
        let proceeded = state(client).await?;

        lead.pass_to(third).await?;
        canary(client, 4).await?;
        unchanged(&proceeded, &state(client).await?, "the third leader")?;
        complete(client).await
    };
    let result = result.await;
    let stopped = lead.end().await;
    let written = result
        .and(stopped)
        .and_then(|()| written_as_often_as_by_one_leader(&cluster));
    finish(cluster, [], written).await
}

/// Creates all objects. In the end, a volume is attached, another one is being attached, one waits for its node to unmount it,
/// one is wanted on two nodes, and one is being provisioned.
async fn create(client: &Client) -> Result<()> {
    create_namespace(client, NAMESPACE).await?;
    for name in NODES {
        let managed = "volumes.kubernetes.io/controller-managed-attach-detach";
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {managed: "true"}}});
        api::create(client, "", &node).await?;
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "takeover"}, "provisioner": DRIVER,
    });
    api::create(client, "", &class).await?;
    for name in ["attached", "attaching", "leaving", "late"] {
        create_pair(client, name).await?;
    }
    api::create(client, NAMESPACE, &claim("provisioned", "takeover")).await?;
    for name in ["attached", "attaching", "leaving"] {
        api::create(client, NAMESPACE, &pod(name, name, NODES[0])).await?;
    }
    for name in ["attached", "leaving"] {
        attach(client, name, NODES[0]).await?;
    }
    until_attached(client, NODES[0], &["attached", "leaving"]).await?;
    report_use(client, NODES[0], &["attached", "leaving"]).await?;
    api::create(client, NAMESPACE, &pod("waiting", "attached", NODES[1])).await?;
    delete_pod(client, "leaving").await?;
    attachment(client, "attaching", NODES[0]).await?;
    until(
        "the second pod of a volume is told why it waits",
        async || {
            let events = api::list(client, "Event", NAMESPACE).await?;
            let is_told = |event: &&Value| {
                event["involvedObject"]["name"] == "waiting"
                    && event["reason"] == "FailedAttachVolume"
            };
            Ok(events
                .iter()
                .find(is_told)
                .map(drop)
                .ok_or_else(|| "no event".into()))
        },
    )
    .await?;
    until("a provisioner is asked", async || {
        let claim = api::get(client, CLAIM, NAMESPACE, "provisioned")
            .await?
            .unwrap_or_default();
        let asked = &claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"];
        Ok(if *asked == DRIVER {
            Ok(())
        } else {
            Err(claim.to_string())
        })
    })
    .await
}

/// Ends the attachment, lets the node unmount the volume that nobody uses, begins another attachment, and provisions the
/// volume. The detachment does not end.
async fn proceed(client: &Client) -> Result<()> {
    attach(client, "attaching", NODES[0]).await?;
    report_use(client, NODES[0], &["attached"]).await?;
    until_attached(client, NODES[0], &["attached", "attaching"]).await?;
    until("the unused volume is being detached", async || {
        let attachment = find_attachment(client, "leaving", NODES[0]).await?;
        let deleted = attachment.map(|one| !one["metadata"]["deletionTimestamp"].is_null());
        Ok(if deleted == Some(true) {
            Ok(())
        } else {
            Err(format!("{deleted:?}"))
        })
    })
    .await?;
    api::create(client, NAMESPACE, &pod("late", "late", NODES[1])).await?;
    attachment(client, "late", NODES[1]).await?;
    let asking = api::get(client, CLAIM, NAMESPACE, "provisioned")
        .await?
        .context("the claim exists")?;
    let mut disk = volume("provisioned", "provisioned");
    disk["spec"]["claimRef"]["uid"] = asking["metadata"]["uid"].clone();
    disk["spec"]["storageClassName"] = "takeover".into();
    disk["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = DRIVER.into();
    api::create(client, "", &disk).await?;
    until_bound(client, "provisioned").await
}

/// Lets everything end: the volume that two pods want moves to the other node.
async fn complete(client: &Client) -> Result<()> {
    detach(client, "leaving", NODES[0]).await?;
    attach(client, "late", NODES[1]).await?;
    until_attached(client, NODES[1], &["late"]).await?;
    delete_pod(client, "attached").await?;
    report_use(client, NODES[0], &[]).await?;
    detach(client, "attached", NODES[0]).await?;
    attach(client, "attached", NODES[1]).await?;
    until_attached(client, NODES[1], &["attached", "late"]).await?;
    until_attached(client, NODES[0], &["attaching"]).await
}

/// Waits until the leader binds a new claim, and begins to attach its volume. It has handled those that existed when it
/// began to lead before.
async fn canary(client: &Client, number: usize) -> Result<()> {
    let name = format!("{CANARY}{number}");
    create_pair(client, &name).await?;
    api::create(client, NAMESPACE, &pod(&name, &name, NODES[1])).await?;
    attachment(client, &name, NODES[1]).await.map(drop)
}

/// Creates a volume and its claim, and waits until they are bound.
async fn create_pair(client: &Client, name: &str) -> Result<()> {
    api::create(client, "", &volume(name, name)).await?;
    api::create(client, NAMESPACE, &claim(name, "")).await?;
    until_bound(client, name).await
}

async fn until_bound(client: &Client, name: &str) -> Result<()> {
    until(&format!("the claim {name} is bound"), async || {
        let claim = api::get(client, CLAIM, NAMESPACE, name)
            .await?
            .unwrap_or_default();
        Ok(if claim["status"]["phase"] == "Bound" {
            Ok(())
        } else {
            Err(claim.to_string())
        })
    })
    .await
}

fn volume(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("takeover-{name}")},
        "spec": {"claimRef": {"apiVersion": "v1", "kind": CLAIM, "namespace": NAMESPACE, "name": claim},
                 "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                 "persistentVolumeReclaimPolicy": "Retain",
                 "csi": {"driver": DRIVER, "volumeHandle": name}},
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": CLAIM, "metadata": {"name": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A pod that uses a claim on a node.
fn pod(name: &str, claim: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app:1"}],
                 "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
    })
}

async fn delete_pod(client: &Client, name: &str) -> Result<()> {
    let at_once = json!({"gracePeriodSeconds": 0});
    api::delete_with(client, "Pod", NAMESPACE, name, &at_once).await
}

/// Plays the kubelet: reports the volumes that a node uses.
async fn report_use(client: &Client, node: &str, handles: &[&str]) -> Result<()> {
    let used: Vec<String> = handles.iter().map(|handle| unique_name(handle)).collect();
    let status = json!({"status": {"volumesInUse": used}});
    api::patch_on(client, "Node", "", node, "status", &status).await
}

fn unique_name(handle: &str) -> String {
    format!("kubernetes.io/csi/{DRIVER}^{handle}")
}

/// Waits until a node reports exactly these volumes, besides those of canaries.
async fn until_attached(client: &Client, node: &str, handles: &[&str]) -> Result<()> {
    let mut wanted: Vec<String> = handles.iter().map(|handle| unique_name(handle)).collect();
    wanted.sort();
    until(&format!("the volumes of {node} are attached"), async || {
        let reported = reported(client, node).await?;
        Ok(if reported == wanted {
            Ok(())
        } else {
            Err(format!("{reported:?}"))
        })
    })
    .await
}

/// The volumes that a node reports as attached, sorted.
async fn reported(client: &Client, node: &str) -> Result<Vec<String>> {
    let node = api::get(client, "Node", "", node)
        .await?
        .context("the node exists")?;
    let attached = node["status"]["volumesAttached"].as_array();
    let mut names: Vec<String> = { attached.into_iter().flatten() }
        .filter_map(|one| one["name"].as_str())
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

/// Waits for the VolumeAttachment of a volume at a node, and returns its name.
async fn attachment(client: &Client, volume: &str, node: &str) -> Result<String> {
    let mut name = String::new();
    until(
        &format!("{volume} is to be attached to {node}"),
        async || {
            let found = find_attachment(client, volume, node).await?;
            name = found.map_or_else(String::new, |one| text(&one["metadata"]["name"]));
            Ok(if name.is_empty() {
                Err("no VolumeAttachment".into())
            } else {
                Ok(())
            })
        },
    )
    .await?;
    Ok(name)
}

async fn find_attachment(client: &Client, volume: &str, node: &str) -> Result<Option<Value>> {
    let all = api::list(client, "VolumeAttachment", "").await?;
    let volume = format!("takeover-{volume}");
    let is_it = |one: &Value| {
        one["spec"]["nodeName"] == node && one["spec"]["source"]["persistentVolumeName"] == *volume
    };
    Ok(all.into_iter().find(is_it))
}

/// Plays the attacher: attaches a volume once it is asked to.
async fn attach(client: &Client, volume: &str, node: &str) -> Result<()> {
    let (kind, name) = ("VolumeAttachment", attachment(client, volume, node).await?);
    let hold = json!({"metadata": {"finalizers": [ATTACHER]}});
    api::patch(client, kind, "", &name, &hold).await?;
    let attached = json!({"status": {"attached": true}});
    api::patch_on(client, kind, "", &name, "status", &attached).await
}

/// Plays the attacher: detaches a volume once it is asked to, and waits until its VolumeAttachment is gone.
async fn detach(client: &Client, volume: &str, node: &str) -> Result<()> {
    until(&format!("{volume} is detached from {node}"), async || {
        let Some(found) = find_attachment(client, volume, node).await? else {
            return Ok(Ok(()));
        };
        let metadata = &found["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            let free = json!({"metadata": {"finalizers": null}});
            let name = text(&metadata["name"]);
            api::patch(client, "VolumeAttachment", "", &name, &free).await?;
        }
        Ok(Err(metadata.to_string()))
    })
    .await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The UIDs and resource versions of all objects that the controllers write, and what the nodes report, without canaries.
async fn state(client: &Client) -> Result<BTreeMap<String, String>> {
    let mut state = BTreeMap::new();
    for (kind, namespace) in [
        (CLAIM, NAMESPACE),
        ("PersistentVolume", ""),
        ("VolumeAttachment", ""),
    ] {
        for object in api::list(client, kind, namespace).await? {
            let metadata = &object["metadata"];
            let name = text(&metadata["name"]);
            let volume = &object["spec"]["source"]["persistentVolumeName"];
            if !name.contains(CANARY) && !text(volume).contains(CANARY) {
                let version = format!("{} {}", metadata["uid"], metadata["resourceVersion"]);
                state.insert(format!("{kind} {name} {volume}"), version);
            }
        }
    }
    for node in NODES {
        state.insert(
            format!("Node {node}"),
            reported(client, node).await?.join(" "),
        );
    }
    Ok(state)
}

fn unchanged(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    who: &str,
) -> Result<()> {
    let changed: Vec<String> = before
        .keys()
        .chain(after.keys())
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| {
            format!(
                "{name}: {:?} became {:?}",
                before.get(name),
                after.get(name)
            )
        })
        .collect();
    ensure!(
        changed.is_empty(),
        "{who} changed objects when it took over:\n{}",
        changed.join("\n")
    );
    Ok(())
}

/// Compares the numbers of VolumeAttachments that the controllers created and deleted. Another request to delete one that is
/// being deleted does not count, since stock sends some after it has begun to lead.
fn written_as_often_as_by_one_leader(cluster: &Cluster) -> Result<()> {
    let mut audit = cluster.plane.audit_events()?;
    audit.sort_by_cached_key(|event| text(&event["requestReceivedTimestamp"]));
    let mut written: BTreeMap<String, usize> = BTreeMap::new();
    let mut being_deleted = BTreeSet::new();
    for event in audit {
        let (object, user) = (&event["objectRef"], text(&event["user"]["username"]));
        let code = event["responseStatus"]["code"].as_u64().unwrap_or(500);
        let is_done = event["stage"] == "ResponseComplete" && code < 300;
        let is_own = user.ends_with(":attachdetach-controller");
        if object["resource"] != "volumeattachments" || !is_done || !is_own {
            continue;
        }
        let (verb, name) = (text(&event["verb"]), text(&object["name"]));
        if verb != "delete" || being_deleted.insert(name) {
            *written.entry(verb).or_default() += 1;
        }
    }
    for (verb, expected) in WRITES {
        let seen = written.get(verb).copied().unwrap_or(0);
        ensure!(
            seen == expected,
            "the leaders did {verb} {seen} VolumeAttachments instead of {expected}"
        );
    }
    Ok(())
}
