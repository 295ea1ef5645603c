//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::ResourceClaims;

fn with_groups() -> Description {
    let cluster = Cluster::new();
    cluster.set_config("feature-gates.DRAWorkloadResourceClaims", "true");
    ResourceClaims::describe_configured(&cluster.host())
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = ResourceClaims::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("resourceclaim-controller", 50)
    );
    assert_eq!(description.event_source, "resource_claim");
    assert_eq!(description.queues[0].name, "resource_claim");
    let metrics = description.metrics.iter();
    let metrics: Vec<_> = metrics
        .map(|metric| (metric.name.as_str(), metric.labels.join(" ")))
        .collect();
    assert_eq!(
        metrics,
        [
            (
                "dynamic_resource_allocation_resourceclaim_creates_total",
                "status admin_access owner_api_group owner_api_kind".to_owned()
            ),
            (
                "dynamic_resource_allocation_resource_claims",
                "allocated admin_access source".to_owned()
            ),
        ]
    );
    let gates: Vec<_> = description
        .config
        .iter()
        .map(|(key, config)| (key.as_str(), config.default.as_deref()))
        .collect();
    assert_eq!(
        gates,
        [
            ("emulated-version", None),
            ("feature-gates.DRAAdminAccess", Some("true")),
            ("feature-gates.DRAPrioritizedList", Some("true")),
            ("feature-gates.DRAWorkloadResourceClaims", Some("false")),
            ("feature-gates.GenericWorkload", Some("false")),
        ]
    );
}

#[test]
fn in_kubernetes_1_36_the_metrics_have_the_prefix_of_the_controller() {
    let cluster = Cluster::new();
    cluster.set_config("emulated-version", "1.36");
    let description = ResourceClaims::describe_configured(&cluster.host());
    let mut metrics = description.metrics.iter();
    assert!(metrics.all(|metric| metric.name.starts_with("resourceclaim_controller_")));
}

#[test]
fn pod_groups_are_read_only_behind_their_gate() {
    let own = [
        "resource.k8s.io/v1/ResourceClaim  create,delete,get,update",
        "resource.k8s.io/v1/ResourceClaim status update",
        "resource.k8s.io/v1/ResourceClaim binding update",
        "v1/Pod  get",
        "v1/Pod status patch",
        "v1/Pod finalizers update",
    ];
    assert_eq!(permissions(&ResourceClaims::describe()), own);
    let kinds = |description: &Description| -> Vec<String> {
        let watches = description.watches.iter();
        let kinds = watches.filter_map(|watch| watch.kind.as_ref());
        kinds.map(ToString::to_string).collect()
    };
    assert_eq!(kinds(&ResourceClaims::describe()), [CLAIM, POD, TEMPLATE]);
    let cluster = Cluster::new();
    cluster.set_config("feature-gates.GenericWorkload", "true");
    let read = ResourceClaims::describe_configured(&cluster.host());
    assert_eq!(kinds(&read), [CLAIM, POD, TEMPLATE, GROUP]);
    assert!(read.watches[3].map.is_empty());
    assert_eq!(permissions(&read), own);
    let gated = with_groups();
    gated.check().unwrap();
    assert_eq!(kinds(&gated), [CLAIM, POD, TEMPLATE, GROUP]);
    assert_eq!(
        permissions(&gated)[own.len()..],
        [
            "scheduling.k8s.io/v1beta1/PodGroup  get",
            "scheduling.k8s.io/v1beta1/PodGroup status patch"
        ]
    );
}

#[test]
fn only_pods_with_claims_are_routed_and_only_if_what_matters_changes() {
    let description = ResourceClaims::describe();
    let pods = &description.watches[1];
    assert_eq!(
        pods.map[0].having_any,
        [
            "spec.resourceClaims[*].name",
            "status.extendedResourceClaimStatus.resourceClaimName"
        ]
    );
    assert!(pods.changes.contains(&Change::Path("spec.nodeName".into())));
    assert!(!pods.changes.contains(&Change::Path("status".into())));
}

#[test]
fn the_whole_status_of_claims_is_cached_because_it_is_written_as_a_whole() {
    let description = ResourceClaims::describe();
    let fields = &description.watches[0].fields;
    assert!(fields.contains(&"metadata".into()) && fields.contains(&"status".into()));
    // The configuration of drivers in a spec may be long.
    assert!(!fields.contains(&"spec".into()));
}

#[test]
fn an_unknown_key_is_not_tried_again() {
    for key in ["team/web", "other", "node:n"] {
        let error = reconcile(&Cluster::new(), key).unwrap_err();
        assert!(error.is_terminal(), "{key}");
    }
}

#[test]
fn objects_that_no_longer_exist_need_nothing() {
    let cluster = Cluster::new();
    for key in ["claim:team/a", "pod:team/a"] {
        assert_eq!(reconcile(&cluster, key).unwrap(), Outcome::Done);
    }
    assert_eq!(cluster.written(), Vec::<String>::new());
}
