//! Whole reconciles against an in-memory API server.

use std::time::Duration;

use flyball_sdk::testing::Cluster;

use super::*;

const DRIVER: &str = "fake-csi.flyball.dev";
const SECONDS: fn(u64) -> Duration = Duration::from_secs;

fn annotations(scripts: &[(&str, &str)]) -> Value {
    let scripts = scripts.iter();
    scripts
        .map(|(name, value)| (format!("{}{name}", script::PREFIX), json!(value)))
        .collect()
}

fn attachment() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
        "spec": {"attacher": DRIVER, "nodeName": "node-1", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": false},
    })
}

fn volume(scripts: &[(&str, &str)]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "pv", "annotations": annotations(scripts)},
        "spec": {"csi": {"driver": DRIVER, "volumeHandle": "pv"}, "capacity": {"storage": "1Gi"},
                 "persistentVolumeReclaimPolicy": "Delete"},
        "status": {"phase": "Bound"},
    })
}

fn released(scripts: &[(&str, &str)], finalizers: &[&str]) -> Value {
    let mut volume = volume(scripts);
    volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = DRIVER.into();
    volume["metadata"]["finalizers"] = json!(finalizers);
    volume["status"]["phase"] = "Released".into();
    volume
}

fn class(parameters: Value, binding_mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": DRIVER, "parameters": parameters, "reclaimPolicy": "Delete", "volumeBindingMode": binding_mode,
    })
}

fn claim(scripts: &[(&str, &str)]) -> Value {
    let mut annotations = annotations(scripts);
    annotations["volume.kubernetes.io/storage-provisioner"] = DRIVER.into();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "u1", "annotations": annotations},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                 "volumeAttributesClassName": "gold",
                 "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Pending"},
    })
}

/// A claim that is bound to the volume `pv` and asks for more.
fn grown() -> Value {
    let mut claim = claim(&[]);
    claim["spec"]["volumeName"] = "pv".into();
    claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"},
                             "conditions": [{"type": "Other", "status": "True"}]});
    claim
}

fn reconcile(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<FakeCsi>(&Request::new(queue, key))
}

fn done(cluster: &Cluster, queue: &str, key: &str) {
    assert_eq!(reconcile(cluster, queue, key).unwrap(), Outcome::Done);
}

fn error(cluster: &Cluster, queue: &str, key: &str) -> String {
    reconcile(cluster, queue, key).unwrap_err().to_string()
}

fn stored(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> Value {
    cluster.object(kind, namespace, name).unwrap_or_default()
}

fn stored_attachment(cluster: &Cluster) -> Value {
    stored(cluster, Attachment::KIND, "", "va")
}

fn delete_attachment(cluster: &Cluster) {
    cluster.edit(Attachment::KIND, "", "va", |attachment| {
        attachment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
}

#[test]
fn the_description_is_valid() {
    let description = FakeCsi::describe();
    description.check().unwrap();
    assert_eq!(
        description.config["drivers"].default.as_deref(),
        Some(DRIVER)
    );
}

#[test]
fn a_volume_is_attached_and_detached_at_once() {
    let cluster = Cluster::with([attachment(), volume(&[])]);
    done(&cluster, ATTACHMENTS, "va");
    let attached = stored_attachment(&cluster);
    assert_eq!(attached["status"]["attached"], true);
    let finalizers = json!(["external-attacher/fake-csi-flyball-dev"]);
    assert_eq!(attached["metadata"]["finalizers"], finalizers);
    cluster.writes();
    done(&cluster, ATTACHMENTS, "va");
    assert!(cluster.written().is_empty());

    delete_attachment(&cluster);
    done(&cluster, ATTACHMENTS, "va");
    assert_eq!(stored_attachment(&cluster), Value::Null);
}

#[test]
fn an_attachment_takes_its_time_and_fails_as_scripted() {
    let scripts = [
        ("attach-after", "2s"),
        ("attach-failures", "1"),
        ("attach-error", "no slot"),
    ];
    let cluster = Cluster::with([attachment(), volume(&scripts)]);
    let waits = |left| {
        let outcome = reconcile(&cluster, ATTACHMENTS, "va").unwrap();
        assert_eq!(outcome, Outcome::RequeueAfter(SECONDS(left)));
    };
    waits(2);
    cluster.advance(SECONDS(1));
    waits(1);
    cluster.advance(SECONDS(1));
    assert_eq!(error(&cluster, ATTACHMENTS, "va"), "no slot");
    let status = stored_attachment(&cluster)["status"].clone();
    assert_eq!(
        status,
        json!({"attached": false, "attachError": {"message": "no slot", "time": "2026-01-01T00:00:02Z"}})
    );
    waits(2);
    cluster.advance(SECONDS(2));
    done(&cluster, ATTACHMENTS, "va");
    assert_eq!(
        stored_attachment(&cluster)["status"],
        json!({"attached": true})
    );
}

#[test]
fn a_detachment_fails_as_scripted_and_keeps_the_attachment() {
    let cluster = Cluster::with([attachment(), volume(&[("detach-failures", "1")])]);
    done(&cluster, ATTACHMENTS, "va");
    delete_attachment(&cluster);
    let message = error(&cluster, ATTACHMENTS, "va");
    let status = stored_attachment(&cluster)["status"].clone();
    assert_eq!(status["detachError"]["message"], message);
    assert_eq!(status["attached"], true);
    done(&cluster, ATTACHMENTS, "va");
    assert_eq!(stored_attachment(&cluster), Value::Null);
}

#[test]
fn the_volume_of_an_attachment_must_exist_unless_it_is_inline() {
    let cluster = Cluster::with([attachment()]);
    let expected = "persistentvolume \"pv\" not found";
    assert_eq!(error(&cluster, ATTACHMENTS, "va"), expected);
    let status = &stored_attachment(&cluster)["status"];
    assert_eq!(status["attachError"]["message"], expected);
    delete_attachment(&cluster);
    done(&cluster, ATTACHMENTS, "va");

    let mut inline = attachment();
    inline["spec"]["source"] = json!({"inlineVolumeSpec": {"csi": {"driver": DRIVER}}});
    let cluster = Cluster::with([inline]);
    done(&cluster, ATTACHMENTS, "va");
    assert_eq!(stored_attachment(&cluster)["status"]["attached"], true);
}

#[test]
fn objects_of_other_drivers_are_left_alone() {
    let cluster = Cluster::with([
        attachment(),
        released(&[], &[]),
        claim(&[]),
        class(json!({}), "Immediate"),
    ]);
    cluster.set_config("drivers", "a.example.com, b.example.com");
    done(&cluster, ATTACHMENTS, "va");
    done(&cluster, VOLUMES, "pv");
    done(&cluster, CLAIMS, "default/data");
    for (queue, key) in [(ATTACHMENTS, "no"), (VOLUMES, "no"), (CLAIMS, "default/no")] {
        done(&cluster, queue, key);
    }
    assert!(cluster.written().is_empty());
    cluster.set_config("drivers", &format!("a.example.com, {DRIVER}"));
    reconcile(&cluster, VOLUMES, "pv").unwrap();
    assert_eq!(cluster.written().len(), 1);
}

#[test]
fn a_claim_gets_a_volume_with_the_scripts_of_both() {
    let parameters = json!({"attach-after": "1s", "csi.storage.k8s.io/fstype": "xfs"});
    let cluster = Cluster::with([
        claim(&[("detach-after", "2s")]),
        class(parameters, "Immediate"),
    ]);
    done(&cluster, CLAIMS, "default/data");
    let volume = stored(&cluster, Volume::KIND, "", "pvc-u1");
    assert_eq!(
        volume["metadata"]["annotations"],
        json!({"pv.kubernetes.io/provisioned-by": DRIVER, "fake-csi.flyball.dev/detach-after": "2s"})
    );
    assert_eq!(
        volume["metadata"]["finalizers"],
        json!([provisioner::FINALIZER])
    );
    let spec = &volume["spec"];
    assert_eq!(
        spec["csi"]["volumeAttributes"],
        json!({"attach-after": "1s"})
    );
    assert_eq!(spec["csi"]["fsType"], "xfs");
    assert_eq!(spec["claimRef"]["uid"], "u1");
    assert_eq!(spec["volumeAttributesClassName"], "gold");
    assert_eq!(spec["capacity"], json!({"storage": "2Gi"}));
    assert_eq!(
        (&spec["storageClassName"], &spec["volumeMode"]),
        (&json!("fast"), &json!("Block"))
    );
    cluster.writes();
    done(&cluster, CLAIMS, "default/data");
    assert!(cluster.written().is_empty());
}

#[test]
fn a_delayed_claim_waits_for_a_node_and_gives_it_back_after_a_failure() {
    let parameters = json!({"provision-failures": "1"});
    let cluster = Cluster::with([claim(&[]), class(parameters, "WaitForFirstConsumer")]);
    let select = || {
        cluster.edit(Claim::KIND, "default", "data", |claim| {
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] =
                "node-1".into();
        });
    };
    done(&cluster, CLAIMS, "default/data");
    assert!(cluster.written().is_empty());
    select();
    assert_eq!(
        error(&cluster, CLAIMS, "default/data"),
        "the script makes provision fail"
    );
    let claim = stored(&cluster, Claim::KIND, "default", "data");
    assert_eq!(
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"],
        Value::Null
    );
    select();
    done(&cluster, CLAIMS, "default/data");
    assert!(cluster.object(Volume::KIND, "", "pvc-u1").is_some());
}

#[test]
fn a_claim_without_its_class_waits_for_it() {
    let cluster = Cluster::with([claim(&[])]);
    done(&cluster, CLAIMS, "default/data");
    cluster.edit(Claim::KIND, "default", "data", |claim| {
        claim["spec"]["storageClassName"] = Value::Null;
    });
    cluster.put(class(json!({}), "Immediate"));
    done(&cluster, CLAIMS, "default/data");
    assert!(cluster.written().is_empty());
    cluster.edit(Claim::KIND, "default", "data", |claim| {
        claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = "fast".into();
    });
    done(&cluster, CLAIMS, "default/data");
    let volume = stored(&cluster, Volume::KIND, "", "pvc-u1");
    assert_eq!(volume["spec"]["storageClassName"], "fast");
}

#[test]
fn a_released_volume_is_deleted_and_loses_its_finalizer() {
    let cluster = Cluster::with([released(
        &[("delete-failures", "1")],
        &[provisioner::FINALIZER],
    )]);
    assert_eq!(
        error(&cluster, VOLUMES, "pv"),
        "the script makes delete fail"
    );
    done(&cluster, VOLUMES, "pv");
    assert!(cluster.object(Volume::KIND, "", "pv").is_none());
    let kept = [
        ("spec", "persistentVolumeReclaimPolicy", "Retain"),
        ("status", "phase", "Bound"),
        ("metadata", "deletionTimestamp", "2026-01-01T00:00:00Z"),
    ];
    for (part, field, value) in kept {
        let mut volume = released(&[], &["example.com/keep"]);
        volume[part][field] = value.into();
        let cluster = Cluster::with([volume]);
        done(&cluster, VOLUMES, "pv");
        assert!(cluster.written().is_empty(), "{field}");
    }
}

#[test]
fn a_claim_that_asks_for_more_gets_it() {
    let cluster = Cluster::with([grown(), volume(&[])]);
    done(&cluster, CLAIMS, "default/data");
    let capacity = json!({"storage": "2Gi"});
    let volume = stored(&cluster, Volume::KIND, "", "pv");
    assert_eq!(volume["spec"]["capacity"], capacity);
    let status = &stored(&cluster, Claim::KIND, "default", "data")["status"];
    assert_eq!(status["capacity"], capacity);
    assert_eq!(
        status["conditions"],
        json!([{"type": "Other", "status": "True"}])
    );
    cluster.writes();
    done(&cluster, CLAIMS, "default/data");
    assert!(cluster.written().is_empty());
}

#[test]
fn a_growing_claim_shows_a_condition_with_the_last_error() {
    let scripts = [
        ("resize-after", "1s"),
        ("resize-failures", "1"),
        ("resize-error", "full"),
    ];
    let cluster = Cluster::with([grown(), volume(&scripts)]);
    let resizing = || {
        let claim = stored(&cluster, Claim::KIND, "default", "data");
        let conditions = claim["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.find(|condition| condition["type"] == "Resizing")
    };
    let waits = || {
        let outcome = reconcile(&cluster, CLAIMS, "default/data").unwrap();
        assert_eq!(outcome, Outcome::RequeueAfter(SECONDS(1)));
    };
    waits();
    let began = json!("2026-01-01T00:00:00Z");
    assert_eq!(resizing().unwrap()["lastTransitionTime"], began);
    cluster.advance(SECONDS(1));
    assert_eq!(error(&cluster, CLAIMS, "default/data"), "full");
    let failed = resizing().unwrap();
    assert_eq!(
        (&failed["message"], &failed["lastTransitionTime"]),
        (&json!("full"), &began)
    );
    waits();
    cluster.advance(SECONDS(1));
    done(&cluster, CLAIMS, "default/data");
    assert_eq!(resizing(), None);
}

#[test]
fn the_volume_of_a_migrated_kind_is_resized_by_the_named_driver() {
    let mut claim = grown();
    claim["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"] = DRIVER.into();
    let mut in_tree = volume(&[]);
    in_tree["spec"]["csi"] = Value::Null;
    let cluster = Cluster::with([claim, in_tree]);
    done(&cluster, CLAIMS, "default/data");
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn an_invalid_script_is_reported_and_not_retried() {
    let cluster = Cluster::with([attachment(), volume(&[("attach-afer", "1s")])]);
    let error = reconcile(&cluster, ATTACHMENTS, "va").unwrap_err();
    assert!(error.is_terminal() && error.to_string().contains("attach-afer"));
}
