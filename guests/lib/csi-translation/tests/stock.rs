//! Compares the translation with that of Kubernetes' csi-translation-lib v0.36.3.
//!
//! Each case in `cases/` has an object, and in `stock` what the library returns for it: the spec of a volume, the name and
//! spec of a pod's volume, or a class. It is null where the library returns an error. `cases/stock.go` fills it in. The
//! objects cover those of the library's own tests for this direction, and the branches of its code.

use std::collections::BTreeSet;

use flyball_csi_translation as translation;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(alias = "volume", alias = "class")]
    object: Value,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    plugin: String,
    stock: Value,
}

/// Translates each case and compares the result, null for an error, with stock's.
fn compare(cases: &str, translate: impl Fn(&Case) -> Result<Value, translation::Untranslatable>) {
    let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have the same name");
    for case in &cases {
        let translated = translate(case).unwrap_or_default();
        assert_eq!(translated, case.stock, "{}", case.name);
    }
}

#[test]
fn persistent_volumes_are_translated_as_by_stock() {
    compare(include_str!("cases/volumes.json"), |case| {
        let mut translated = translation::translate_in_tree_pv(&case.object)?;
        assert_eq!(translated["metadata"], case.object["metadata"]);
        Ok(translated["spec"].take())
    });
}

#[test]
fn volumes_of_pods_are_translated_as_by_stock() {
    compare(include_str!("cases/inline.json"), |case| {
        let translated =
            translation::translate_in_tree_inline_volume(&case.object, &case.namespace)?;
        Ok(json!({"name": translated["metadata"]["name"], "spec": translated["spec"]}))
    });
}

#[test]
fn storage_classes_are_translated_as_by_stock() {
    compare(include_str!("cases/classes.json"), |case| {
        translation::translate_in_tree_storage_class(&case.plugin, &case.object)
    });
}

/// Stock's process crashes on this one.
#[test]
fn the_policy_of_a_vsphere_volume_in_a_pod_is_kept() {
    let volume = json!({"name": "data", "vsphereVolume": {"volumePath": "[a] b", "storagePolicyName": "gold"}});
    let translated = translation::translate_in_tree_inline_volume(&volume, "").unwrap();
    assert_eq!(
        translated["spec"]["csi"]["volumeAttributes"],
        json!({"storagepolicyname": "gold"})
    );
}

#[test]
fn two_disks_of_pods_have_two_names() {
    for (source, field) in [
        ("awsElasticBlockStore", "volumeID"),
        ("gcePersistentDisk", "pdName"),
        ("azureDisk", "diskURI"),
        ("azureFile", "shareName"),
        ("cinder", "volumeID"),
        ("vsphereVolume", "volumePath"),
        ("portworxVolume", "volumeID"),
    ] {
        let name = |disk: &str| {
            let volume = json!({"name": "data", source: {field: disk}});
            let translated = translation::translate_in_tree_inline_volume(&volume, "").unwrap();
            translated["metadata"]["name"].clone()
        };
        assert_ne!(name("one"), name("two"), "{source}");
    }
}

#[test]
fn each_migrated_plugin_has_a_driver_and_each_driver_a_plugin() {
    let drivers = [
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
        ("kubernetes.io/azure-file", "file.csi.azure.com"),
        ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
        ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ];
    assert_eq!(translation::PLUGINS.len(), drivers.len());
    for (name, driver) in drivers {
        assert!(translation::is_migrated(name) && translation::is_migrated_driver(driver));
        assert_eq!(translation::csi_name_from_in_tree_name(name), Some(driver));
        assert_eq!(translation::in_tree_name_from_csi_name(driver), Some(name));
    }
    for name in [
        "kubernetes.io/host-path",
        "kubernetes.io/rbd",
        "ebs.csi.aws.com",
        "",
    ] {
        assert!(!translation::is_migrated(name), "{name}");
    }
    assert!(!translation::is_migrated_driver("kubernetes.io/aws-ebs"));
}

#[test]
fn malformed_objects_are_refused_or_translated_without_a_panic() {
    let odd = [
        json!(null),
        json!(1),
        json!("a"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a": null}),
    ];
    for value in &odd {
        let _ = translation::translate_in_tree_pv(value);
        let _ = translation::translate_in_tree_inline_volume(value, "");
        for plugin in translation::PLUGINS {
            let _ = translation::translate_in_tree_storage_class(plugin.name, value);
            let class = json!({"parameters": value, "allowedTopologies": [value, {"matchLabelExpressions": value}]});
            let _ = translation::translate_in_tree_storage_class(plugin.name, &class);
            let volume = json!({
                "metadata": {"name": value, "labels": value, "annotations": value},
                "spec": {plugin.source: {"readOnly": value, "volumeID": value, "secretNamespace": value},
                         "nodeAffinity": value, "accessModes": value, "claimRef": value},
            });
            let _ = translation::translate_in_tree_pv(&volume);
            let mut labelled = volume;
            labelled["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "z"});
            labelled["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": value}});
            let _ = translation::translate_in_tree_pv(&labelled);
        }
    }
}
