//! Workloads and PodGroups of gangs in Kubernetes 1.36, and what later releases have in common with it.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use super::world::*;
use crate::JobController;
use crate::gang::{group_name, workload_name};

const WORKLOAD: &str = "scheduling.k8s.io/v1alpha2/Workload";
const GROUP: &str = "scheduling.k8s.io/v1alpha2/PodGroup";
/// The names for the job `work` with the UID `uid-work`.
const WORKLOAD_NAME: &str = "work-84b8544c5";
const GROUP_NAME: &str = "work-84b8544c5-work-pgt-0-8594cd77bb";

/// A job whose two indexes run at once.
fn gang() -> Object {
    indexed(2, 2)
}

fn owner() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "uid-work", "controller": true,
           "blockOwnerDeletion": true})
}

/// A Workload of `work` with one template.
fn workload(name: &str) -> Object {
    Object(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "ownerReferences": [owner()]},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "work"},
            "podGroupTemplates": [{"name": "all", "schedulingPolicy": {"basic": {}}}],
        },
    }))
}

/// A PodGroup of `work` and of the Workload `w`.
fn group(name: &str) -> Object {
    Object(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "ownerReferences": [owner()]},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "all"}},
            "schedulingPolicy": {"basic": {}},
        },
    }))
}

fn another(object: Object) -> Object {
    object.with("/metadata/ownerReferences/0/uid", "uid-other")
}

fn gated(objects: impl IntoIterator<Item = Object>) -> World {
    let world = World::of(objects);
    let config = [
        ("feature-gates.WorkloadWithJob", "true"),
        ("emulated-version", "1.36"),
    ];
    for (key, value) in config {
        world.cluster.set_config(key, value);
    }
    world
}

/// Reconciles once. Returns the kinds that are created besides pods, and the group that the pods name.
fn created(world: &World) -> (Vec<String>, Option<String>) {
    world.try_sync().unwrap();
    let (mut kinds, mut groups) = (Vec::new(), Vec::new());
    for write in { world.cluster.writes() }
        .into_iter()
        .filter(|write| write.verb == "create")
    {
        match write.kind.as_str() {
            POD => groups.push(write.body["spec"]["schedulingGroup"]["podGroupName"].clone()),
            kind => kinds.push(kind.to_owned()),
        }
    }
    groups.dedup();
    assert!(groups.len() < 2, "{groups:?}");
    let group = groups.first().and_then(Value::as_str);
    (kinds, group.map(str::to_owned))
}

/// The result of [`created`] if the pods are scheduled one by one.
fn nothing() -> (Vec<String>, Option<String>) {
    (Vec::new(), None)
}

#[test]
fn a_gang_gets_a_workload_and_a_group_before_its_pods() {
    let world = gated([gang()]);
    world.try_sync().unwrap();
    let writes = world.cluster.writes();
    let lines: Vec<String> = writes.iter().take(2).map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            format!("create {WORKLOAD} default/{WORKLOAD_NAME}"),
            format!("create {GROUP} default/{GROUP_NAME}")
        ]
    );
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {"name": WORKLOAD_NAME, "ownerReferences": [owner()]},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "work"},
                "podGroupTemplates": [{"name": "work-pgt-0", "schedulingPolicy": {"gang": {"minCount": 2}}}],
            },
        })
    );
    let stored = world
        .cluster
        .object(WORKLOAD, "default", WORKLOAD_NAME)
        .unwrap();
    let second_owner = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": WORKLOAD_NAME,
                              "uid": stored["metadata"]["uid"]});
    assert_eq!(
        writes[1].body,
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": GROUP_NAME, "ownerReferences": [owner(), second_owner]},
            "spec": {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": WORKLOAD_NAME, "podGroupTemplateName": "work-pgt-0"},
                },
                "schedulingPolicy": {"gang": {"minCount": 2}},
            },
        })
    );
    let pods: Vec<&Value> = { writes.iter() }
        .filter(|write| write.kind == POD)
        .map(|write| &write.body)
        .collect();
    assert_eq!(pods.len(), 2);
    for pod in pods {
        assert_eq!(
            pod["spec"]["schedulingGroup"],
            json!({"podGroupName": GROUP_NAME})
        );
        assert_eq!(pod["metadata"]["ownerReferences"], json!([owner()]));
    }
    assert_eq!(
        world.cluster.events()[0],
        format!("Normal WorkloadCreated Created Workload {WORKLOAD_NAME} for Job work")
    );
    // A pod that replaces another one names the same group.
    world.cluster.remove(POD, "default", &world.names()[0]);
    assert_eq!(created(&world), (Vec::new(), Some(GROUP_NAME.into())));
}

#[test]
fn other_jobs_get_neither() {
    let own_group = "/spec/template/spec/schedulingGroup";
    for job in [
        job(2, 2),
        indexed(1, 1),
        indexed(2, 3),
        gang().with(own_group, json!({"podGroupName": "mine"})),
        gang().with("/metadata/deletionTimestamp", ago(1)),
    ] {
        let mine = job.0.pointer(own_group).map(|_| "mine".to_owned());
        assert_eq!(created(&gated([job])), (Vec::new(), mine));
    }
}

#[test]
fn nothing_is_created_without_the_feature_gate() {
    for objects in [vec![gang()], vec![gang(), workload("w"), group("g")]] {
        assert_eq!(created(&World::of(objects)), nothing());
    }
}

#[test]
fn a_job_that_has_started_gets_neither() {
    let suspended = json!([{"type": "Suspended", "status": "False"}]);
    for started in [
        gang().with("/status/startTime", ago(5)),
        gang().with("/status/succeeded", 1),
        gang().with("/status/failed", 1),
        gang().with("/status/conditions", suspended),
    ] {
        assert_eq!(created(&gated([started])), nothing());
    }
    assert_eq!(created(&gated([gang(), pod_of("a", 0)])), nothing());
}

#[test]
fn a_new_job_gets_both_while_it_is_suspended() {
    let world = gated([gang().with("/spec/suspend", true)]);
    let both = vec![WORKLOAD.to_owned(), GROUP.to_owned()];
    assert_eq!(created(&world), (both, None));
    world.edit_job(|job| job["spec"]["suspend"] = false.into());
    assert_eq!(created(&world), (Vec::new(), Some(GROUP_NAME.into())));
}

#[test]
fn a_missing_group_is_created_from_the_workloads_template_even_after_the_start() {
    let world = gated([gang().with("/status/startTime", ago(5)), workload("w")]);
    let name = group_name("w", "all");
    assert_eq!(created(&world), (vec![GROUP.into()], Some(name.clone())));
    let group = world.cluster.object(GROUP, "default", &name).unwrap();
    assert_eq!(
        group["spec"],
        json!({
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "all"}},
            "schedulingPolicy": {"basic": {}},
        })
    );
}

#[test]
fn existing_ones_of_any_name_are_used() {
    let world = gated([gang(), workload("w"), group("g")]);
    assert_eq!(created(&world), (Vec::new(), Some("g".into())));
}

#[test]
fn a_workload_that_is_not_the_jobs_own_or_has_another_shape_is_left_alone() {
    let templates = "/spec/podGroupTemplates";
    for workloads in [
        vec![another(workload("w"))],
        vec![workload("w").with(templates, json!([]))],
        vec![workload("w").with(templates, json!([{"name": "a"}, {"name": "b"}]))],
        vec![workload("w"), workload("v")],
    ] {
        let world = gated([gang(), group("g")].into_iter().chain(workloads));
        assert_eq!(created(&world), nothing());
    }
}

#[test]
fn a_workload_of_another_kind_or_group_does_not_count() {
    let of = |field: &str, value: &str| {
        let world = gated([
            gang(),
            workload("w").with(&format!("/spec/controllerRef/{field}"), value),
        ]);
        created(&world).1
    };
    assert_eq!(of("kind", "JobSet"), Some(GROUP_NAME.into()));
    assert_eq!(of("apiGroup", "example.com"), Some(GROUP_NAME.into()));
}

#[test]
fn a_group_that_is_not_the_jobs_own_or_not_the_only_one_is_left_alone() {
    for groups in [vec![another(group("g"))], vec![group("g"), group("h")]] {
        let world = gated([gang(), workload("w")].into_iter().chain(groups));
        assert_eq!(created(&world), nothing());
    }
}

#[test]
fn no_pod_is_created_while_the_workload_or_the_group_can_not_be() {
    for (kind, before) in [(WORKLOAD, 0), (GROUP, 1)] {
        let world = gated([gang()]);
        world
            .cluster
            .fail("create", kind, refusal(403, "Forbidden", "no"));
        let error = world.try_sync().unwrap_err();
        assert!(
            error.starts_with("ensuring Workload and PodGroup for Job default/work: no"),
            "{error}"
        );
        let written = world.cluster.written();
        assert_eq!(written.len(), before + 1, "{written:?}");
        assert_eq!(
            world.metrics()[0],
            "job_syncs_total Indexed,error,reconciling 1"
        );
        // Existing objects aren't created again.
        assert_eq!(created(&world).0.len(), 2 - before);
        assert_eq!(world.names().len(), 2);
    }
}

#[test]
fn a_workload_of_the_name_that_belongs_to_nobody_holds_the_job_up() {
    let stray = workload(WORKLOAD_NAME).with("/spec/controllerRef", Value::Null);
    let error = gated([gang(), stray]).try_sync().unwrap_err();
    assert!(error.contains(WORKLOAD_NAME), "{error}");
}

#[test]
fn names_have_hashes_and_fit() {
    // kube-controller-manager computes the same names.
    assert_eq!(workload_name("work", "uid-work"), WORKLOAD_NAME);
    assert_eq!(group_name(WORKLOAD_NAME, "work-pgt-0"), GROUP_NAME);
    let long = "x".repeat(253);
    assert_eq!(workload_name(&long, "uid-work").len(), 253);
    assert!(workload_name(&long, "uid-work").ends_with("x-84b8544c5"));
    for (workload, template) in [(&*long, "t"), ("w", &*long), (&*long, &*long)] {
        let name = group_name(workload, template);
        assert_eq!(name.len(), 253, "{name}");
        let parts: Vec<&str> = name.split('-').collect();
        assert!(parts[0].len() >= workload.len().min(121), "{name}");
        assert!(parts[1].len() >= template.len().min(120), "{name}");
    }
}

#[test]
fn permissions_and_watches_depend_on_the_feature_gate() {
    let described = |gate: &str| {
        let world = World::of([]);
        world
            .cluster
            .set_config("feature-gates.WorkloadWithJob", gate);
        world.cluster.set_config("emulated-version", "1.36");
        JobController::describe_configured(&world.cluster.host())
    };
    let off = described("false");
    assert_eq!(off, JobController::describe());
    let on = described("true");
    on.check().unwrap();
    assert_eq!(
        permissions(&on)[permissions(&off).len()..],
        [format!("{WORKLOAD}  create"), format!("{GROUP}  create")]
    );
    let added = &on.watches[off.watches.len()..];
    // Their changes enqueue no job.
    assert!(added.len() == 2 && added.iter().all(|watch| watch.map.is_empty()));
}
