//! Tests of the plugins, without a controller.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;
use flyball_volume_plugins::recycler::{Failure, outcome};
use flyball_volume_plugins::{
    Attaching, Plugins, ProvisionRequest, Provisioning, Recycling, Volume, VolumePlugin, csi,
    qualified_name,
};

fn stock() -> Plugins {
    Plugins::new(None, Duration::ZERO)
}

fn mock() -> Plugins {
    Plugins::new(Some("mock.example.com"), Duration::from_secs(3))
}

fn csi_spec() -> Value {
    json!({"csi": {"driver": "csi.example.com", "volumeHandle": "disk-1"}})
}

/// The plugins of a controller with this configuration.
fn configured(values: &[(&str, &str)]) -> Result<Plugins, Error> {
    let cluster = Cluster::new();
    for (key, value) in values {
        cluster.set_config(key, value);
    }
    Plugins::read(&cluster.host())
}

/// The pod that recycles a PersistentVolume `pv`.
fn recycler_pod(plugins: &Plugins, spec: &Value) -> Value {
    let volume = Volume::persistent("pv", spec);
    let plugin = plugins.find_recycler(volume).unwrap();
    match plugin.recycle(volume) {
        Recycling::Pod(pod) => pod,
        Recycling::Done => panic!("no pod"),
    }
}

fn text<T>(result: Result<T, impl ToString>) -> String {
    result.err().map_or("ok".into(), |error| error.to_string())
}

#[test]
fn each_volume_has_the_plugin_and_the_unique_name_of_stock() {
    let plugins = stock();
    for (spec, name) in [
        (csi_spec(), "kubernetes.io/csi/csi.example.com^disk-1"),
        (
            json!({"hostPath": {"path": "/tmp/a"}}),
            "kubernetes.io/host-path//tmp/a",
        ),
        (
            json!({"nfs": {"server": "::1", "path": "/a"}}),
            "kubernetes.io/nfs/::1//a",
        ),
        (
            json!({"fc": {"targetWWNs": ["a", "b"], "lun": 0}}),
            "kubernetes.io/fc/[a b]:0",
        ),
        (
            json!({"fc": {"targetWWNs": ["a"], "wwids": ["c"]}}),
            "kubernetes.io/fc/[c]",
        ),
        (
            json!({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001", "lun": 2}}),
            "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2001:2",
        ),
    ] {
        let volume = Volume::persistent("pv", &spec);
        let plugin = plugins.find_by_volume(volume).unwrap();
        let unique = plugins.unique_name(plugin, volume).unwrap();
        assert_eq!(unique, name);
        let (split, rest) = plugins.split_unique_name(&unique).unwrap();
        assert_eq!(split.name(), plugin.name());
        assert_eq!(Some(rest.into()), plugin.volume_name(volume));
    }
    let unnamed = json!({"fc": {"lun": 1}});
    let volume = Volume::persistent("pv", &unnamed);
    let plugin = plugins.find_by_volume(volume).unwrap();
    assert_eq!(plugins.unique_name(plugin, volume), None);
    for unknown in [
        "kubernetes.io/rbd/a",
        "kubernetes.io/nfsx/a",
        "kubernetes.io/nfs",
        "",
    ] {
        assert!(plugins.split_unique_name(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn metrics_name_the_driver_of_a_csi_volume() {
    let spec = csi_spec();
    let volume = Volume::persistent("pv", &spec);
    for (plugins, name) in [
        (stock(), "kubernetes.io/csi:csi.example.com"),
        (mock(), "mock.example.com:csi.example.com"),
    ] {
        let plugin = plugins.find_by_volume(volume).unwrap();
        assert_eq!(qualified_name(plugin, volume), name);
    }
    let spec = json!({"nfs": {}});
    let volume = Volume::persistent("pv", &spec);
    let plugins = stock();
    let plugin = plugins.find_by_volume(volume).unwrap();
    assert_eq!(qualified_name(plugin, volume), "kubernetes.io/nfs");
}

#[test]
fn attachable_are_csi_volumes_of_drivers_that_attach_and_disks_on_the_network() {
    let plugins = stock();
    let can_attach = |volume: Volume, driver_attaches: bool| {
        let found = plugins.find_attachable(volume, |driver| {
            assert_eq!(driver, "csi.example.com");
            driver_attaches
        });
        found.map(|plugin| plugin.is_some())
    };
    let of_csi = csi_spec();
    assert_eq!(
        can_attach(Volume::persistent("pv", &of_csi), true),
        Ok(true)
    );
    assert_eq!(
        can_attach(Volume::persistent("pv", &of_csi), false),
        Ok(false)
    );
    let ephemeral = json!({"name": "data", "csi": {"driver": "csi.example.com"}});
    assert_eq!(can_attach(Volume::of_pod(&ephemeral), true), Ok(false));
    for (field, expected) in [
        ("fc", true),
        ("iscsi", true),
        ("nfs", false),
        ("hostPath", false),
    ] {
        let entry = json!({"name": "data", field: {}});
        assert_eq!(
            can_attach(Volume::of_pod(&entry), true),
            Ok(expected),
            "{field}"
        );
    }
    let none = json!({"name": "data", "emptyDir": {}});
    assert_eq!(
        text(can_attach(Volume::of_pod(&none), true)),
        "no volume plugin matched"
    );
}

#[test]
fn a_csi_volume_is_attached_by_a_volume_attachment_with_stocks_name() {
    let plugins = stock();
    let spec = csi_spec();
    let volume = Volume::persistent("pv", &spec);
    let plugin = plugins.find_by_volume(volume).unwrap();
    let Attaching::Attachment(attachment) = plugin.attach(volume, "node-1") else {
        panic!("no VolumeAttachment");
    };
    // printf '%s' disk-1csi.example.comnode-1 | sha256sum
    let name = "csi-61b1af19136454b369a7b415c5b90e9cabbebc6ee002ae5ad3a55cdc9a28b86c";
    assert_eq!(attachment["metadata"], json!({"name": name}));
    let source = json!({"persistentVolumeName": "pv"});
    assert_eq!(
        attachment["spec"],
        json!({"attacher": "csi.example.com", "nodeName": "node-1", "source": source})
    );
    let inline = csi::inline_attachment(&spec, "node-1").unwrap();
    assert_eq!(inline["metadata"], attachment["metadata"]);
    assert_eq!(inline["spec"]["source"], json!({"inlineVolumeSpec": spec}));

    let source = csi::persistent_source(volume).unwrap();
    assert_eq!(source.attachment_name("node-1"), name);
    assert_eq!(
        source.timeout_error("attach"),
        "timed out waiting for external-attacher of csi.example.com CSI driver to attach volume disk-1"
    );
    assert!(
        source
            .timeout_error("detach")
            .contains("of unknown CSI driver to detach volume disk-1")
    );
}

#[test]
fn an_attachment_is_done_fails_or_goes_on() {
    let deleting = Err("volume attachment is being deleted".to_owned());
    for (is_deleting, is_attached, error, state) in [
        (false, false, None, None),
        (false, true, None, Some(Ok(()))),
        (false, true, Some("late"), Some(Ok(()))),
        (
            false,
            false,
            Some("no disk"),
            Some(Err("no disk".to_owned())),
        ),
        (true, true, None, Some(deleting)),
    ] {
        assert_eq!(
            csi::attachment_state(is_deleting, is_attached, error),
            state
        );
    }
}

#[test]
fn some_volumes_are_attached_to_one_node_only() {
    let of = |modes: &[&str]| json!({"accessModes": modes});
    for (spec, expected) in [
        (of(&["ReadWriteOnce"]), false),
        (of(&["ReadWriteOncePod"]), false),
        (of(&["ReadWriteOnce", "ReadOnlyMany"]), true),
        (of(&["ReadWriteMany"]), true),
        (of(&[]), true),
        (json!({}), true),
    ] {
        assert_eq!(
            Volume::persistent("pv", &spec).allows_multi_attach(),
            expected,
            "{spec}"
        );
    }
    for (field, expected) in [
        ("azureDisk", false),
        ("cinder", false),
        ("gcePersistentDisk", true),
    ] {
        let entry = json!({"name": "data", field: {}});
        assert_eq!(
            Volume::of_pod(&entry).allows_multi_attach(),
            expected,
            "{field}"
        );
    }
}

#[test]
fn a_recycler_pod_scrubs_the_volume_within_a_time_that_grows_with_its_size() {
    let share = json!({"nfs": {"server": "s", "path": "/p", "readOnly": true}, "capacity": {"storage": "20Gi"}});
    let pod = recycler_pod(&stock(), &share);
    assert_eq!(
        pod["metadata"],
        json!({"name": "recycler-for-pv", "namespace": "default"})
    );
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "vol", "nfs": {"server": "s", "path": "/p"}}])
    );
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(
        pod["spec"]["containers"][0]["args"],
        json!([
            "-c",
            r#"test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1"#
        ])
    );
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 600);
    for (capacity, seconds) in [
        ("1Gi", 60),
        ("2047Mi", 60),
        ("2Gi", 60),
        ("3Gi", 90),
        ("", 60),
        ("odd", 60),
    ] {
        let folder = json!({"hostPath": {"path": "/tmp/a", "type": "Directory"}, "capacity": {"storage": capacity}});
        let pod = recycler_pod(&stock(), &folder);
        assert_eq!(pod["spec"]["activeDeadlineSeconds"], seconds, "{capacity}");
        assert_eq!(
            pod["spec"]["volumes"][0],
            json!({"name": "vol", "hostPath": {"path": "/tmp/a"}})
        );
    }
}

#[test]
fn the_operator_gives_a_recycler_pod_and_its_timeouts() {
    let template = json!({
        "metadata": {"namespace": "kube-system", "generateName": "x-", "labels": {"a": "b"}},
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}], "containers": [{"name": "c"}]},
    });
    let plugins = configured(&[
        ("hostpath-recycler-pod", &template.to_string()),
        ("hostpath-recycler-minimum-timeout", "10"),
        ("hostpath-recycler-timeout-increment", "7"),
    ]);
    let folder = json!({"hostPath": {"path": "/tmp/a"}, "capacity": {"storage": "5Gi"}});
    let pod = recycler_pod(&plugins.unwrap(), &folder);
    let metadata =
        json!({"name": "recycler-for-pv", "namespace": "kube-system", "labels": {"a": "b"}});
    assert_eq!(pod["metadata"], metadata);
    let volumes = json!([{"name": "v", "hostPath": {"path": "/tmp/a"}}, {"name": "w"}]);
    assert_eq!(
        pod["spec"],
        json!({"volumes": volumes, "containers": [{"name": "c"}], "activeDeadlineSeconds": 35})
    );

    for (key, value) in [
        ("nfs-recycler-minimum-timeout", "soon"),
        ("nfs-recycler-pod", "a pod"),
        (
            "nfs-recycler-pod",
            r#"{"metadata": {}, "spec": {"volumes": []}}"#,
        ),
        ("enable-hostpath-provisioner", "perhaps"),
        ("volume-plugin-provision-delay", "soon"),
    ] {
        let values = [(key, value), ("volume-plugin", "")];
        let mock = [(key, value), ("volume-plugin", "mock")];
        let is_of_mock = key.starts_with("volume-plugin");
        let error = configured(if is_of_mock { &mock } else { &values }).err();
        assert!(error.expect(value).is_terminal(), "{key}");
    }
}

#[test]
fn a_recycler_pod_ends_with_success_or_with_stocks_error() {
    assert_eq!(outcome("Running", ""), None);
    assert_eq!(outcome("Succeeded", "late"), Some(Ok(())));
    for (failure, expected) in [
        (
            outcome("Failed", ""),
            "failed to recycle volume: pod failed, pod.Status.Message unknown",
        ),
        (
            outcome("Failed", "evicted"),
            "failed to recycle volume: evicted",
        ),
        (
            Some(Err(Failure::PodDeleted)),
            "failed to recycle volume: recycler pod was deleted",
        ),
        (
            Some(Err(Failure::OldPod)),
            "old recycler pod found, will retry later",
        ),
        (
            Some(Err(Failure::OldPodStays("default/a".into(), "no".into()))),
            "failed to delete old recycler pod default/a: no",
        ),
        (
            Some(Err(Failure::NotCreated("no".into()))),
            "unexpected error creating recycler pod:  no",
        ),
        (
            Some(Err(Failure::NotDeleted("no".into()))),
            "failed to delete recycler pod: no",
        ),
    ] {
        assert_eq!(text(failure.unwrap()), expected);
    }
}

#[test]
fn a_volume_is_deleted_by_the_plugin_that_provisioned_it_or_that_supports_it() {
    let plugins = stock();
    let find = |spec: &Value, by: Option<&str>, is_migrated| {
        let found = plugins.find_deleter(Volume::persistent("pv", spec), by, is_migrated);
        match found {
            Ok(plugin) => plugin.map_or("external", VolumePlugin::name).to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let folder = json!({"hostPath": {"path": "/tmp/a"}});
    assert_eq!(find(&folder, None, false), "kubernetes.io/host-path");
    assert_eq!(find(&folder, Some(""), false), "kubernetes.io/host-path");
    assert_eq!(
        find(&folder, Some("kubernetes.io/host-path"), true),
        "kubernetes.io/host-path"
    );
    assert_eq!(find(&folder, Some("example.com/p"), false), "external");
    assert_eq!(find(&folder, None, true), "external");
    assert_eq!(find(&csi_spec(), None, false), "external");
    for (spec, by, expected) in [
        (
            &folder,
            Some("kubernetes.io/none"),
            "no volume plugin matched name: kubernetes.io/none",
        ),
        (
            &folder,
            Some("kubernetes.io/nfs"),
            "no deletable volume plugin matched",
        ),
        (
            &json!({"nfs": {}}),
            None,
            "error getting deleter volume plugin for volume \"pv\": no deletable volume plugin matched",
        ),
        (
            &json!({"local": {}}),
            None,
            "error getting deleter volume plugin for volume \"pv\": no volume plugin matched",
        ),
    ] {
        assert_eq!(find(spec, by, false), expected);
    }
}

#[test]
fn host_paths_are_deleted_below_tmp_only() {
    let plugins = stock();
    for (path, is_deleted) in [
        ("/tmp/a", true),
        ("/var/tmp/a", true),
        ("/tmp/", false),
        ("/tmp", false),
        ("/var/a", false),
    ] {
        let spec = json!({"hostPath": {"path": path}});
        let volume = Volume::persistent("pv", &spec);
        let plugin = plugins.find_by_volume(volume).unwrap();
        let error = format!("host_path deleter only supports /tmp/.+ but received provided {path}");
        let expected = if is_deleted { Ok(()) } else { Err(error) };
        assert_eq!(plugin.delete(volume), expected);
    }
}

#[test]
fn provisioners_are_in_tree_plugins_or_external() {
    let find = |plugins: &Plugins, name| match plugins.find_by_provisioner(name) {
        Ok(plugin) => plugin.map_or("external", VolumePlugin::name).to_owned(),
        Err(error) => error.to_string(),
    };
    for (name, expected) in [
        ("kubernetes.io/host-path", "kubernetes.io/host-path"),
        ("kubernetes.io/aws-ebs", "external"),
        ("csi.example.com", "external"),
        (
            "kubernetes.io/nfs",
            "no provisionable volume plugin matched",
        ),
        (
            "kubernetes.io/no-provisioner",
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
    ] {
        assert_eq!(find(&stock(), name), expected);
    }
    assert_eq!(find(&mock(), "mock.example.com"), "mock.example.com");
    assert_eq!(find(&mock(), "csi.example.com"), "external");
}

#[test]
fn a_host_path_is_provisioned_if_the_operator_enabled_it() {
    let provision = |plugins: &Plugins, claim: &Value| {
        let plugin = plugins
            .find_by_provisioner("kubernetes.io/host-path")
            .unwrap()
            .unwrap();
        assert!(!plugin.supports_mount_options());
        plugin.provision(&request(claim, &json!(null)))
    };
    let claim =
        json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "3Gi"}}});
    let refused = "provisioning in volume plugin \"kubernetes.io/host-path\" is disabled";
    assert_eq!(
        provision(&stock(), &claim),
        Provisioning::Refused(refused.into())
    );

    let enabled = configured(&[("enable-hostpath-provisioner", "true")]).unwrap();
    let expected = |modes: Value| {
        json!({
            "metadata": {"name": "pvc-1", "annotations": {"kubernetes.io/createdby": "hostpath-dynamic-provisioner"}},
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete", "accessModes": modes, "capacity": {"storage": "3Gi"},
                "hostPath": {"path": "/tmp/hostpath_pv/uuid"},
            },
        })
    };
    let created = |modes| Provisioning::Created {
        volume: expected(modes),
        after: Duration::ZERO,
    };
    assert_eq!(
        provision(&enabled, &claim),
        created(json!(["ReadWriteMany"]))
    );
    let no_modes = json!({"resources": {"requests": {"storage": "3Gi"}}});
    assert_eq!(
        provision(&enabled, &no_modes),
        created(json!(["ReadWriteOnce"]))
    );
    let block = json!({"volumeMode": "Block"});
    let failed = "kubernetes.io/host-path does not support block volume provisioning";
    assert_eq!(
        provision(&enabled, &block),
        Provisioning::Failed(failed.into())
    );
}

fn request<'a>(claim: &'a Value, parameters: &'a Value) -> ProvisionRequest<'a> {
    ProvisionRequest {
        volume_name: "pvc-1",
        claim,
        reclaim_policy: "Delete",
        parameters,
        uuid: "uuid",
    }
}

#[test]
fn the_mock_does_everything_with_every_volume_at_once_but_provisioning() {
    let plugins = configured(&[
        ("volume-plugin", "mock.example.com"),
        ("volume-plugin-provision-delay", "3s"),
    ])
    .unwrap();
    let specs = [
        csi_spec(),
        json!({"hostPath": {"path": "/a"}}),
        json!({"emptyDir": {}}),
        json!({}),
    ];
    for spec in &specs {
        let volume = Volume::persistent("pv", spec);
        let plugin = plugins.find_attachable(volume, |_| false).unwrap().unwrap();
        assert_eq!(
            plugin.attach(volume, "node"),
            Attaching::Attached("/dev/vdb-test".into())
        );
        assert_eq!(
            plugins.unique_name(plugin, volume).unwrap(),
            "mock.example.com/pv"
        );
        assert_eq!(
            plugins.find_recycler(volume).unwrap().recycle(volume),
            Recycling::Done
        );
        assert_eq!(plugin.delete(volume), Ok(()));
    }
    let entry = json!({"name": "data", "projected": {}});
    let plugin = plugins.find_by_volume(Volume::of_pod(&entry)).unwrap();
    let unique = plugins.unique_name(plugin, Volume::of_pod(&entry)).unwrap();
    assert_eq!(unique, "mock.example.com/data");
    let (_, name) = plugins.split_unique_name(&unique).unwrap();
    assert_eq!(name, "data");
}

#[test]
fn the_mock_provisions_a_host_path_after_its_delay_or_fails_on_request() {
    let plugins = mock();
    let plugin = plugins
        .find_by_provisioner("mock.example.com")
        .unwrap()
        .unwrap();
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let Provisioning::Created { volume, after } =
        plugin.provision(&request(&claim, &json!({"a": "b"})))
    else {
        panic!("nothing was provisioned");
    };
    assert_eq!(after, Duration::from_secs(3));
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["spec"]["hostPath"]["path"], "/tmp/hostpath_pv/uuid");
    let fails = json!({"expect-provision-failure": ""});
    let failed = Provisioning::Failed("expected error".into());
    assert_eq!(plugin.provision(&request(&claim, &fails)), failed);
}
