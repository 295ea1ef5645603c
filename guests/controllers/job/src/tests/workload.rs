//! Workloads and PodGroups since Kubernetes 1.37.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use super::world::*;
use crate::JobController;
use crate::gang::group_name;

const WORKLOAD: &str = "scheduling.k8s.io/v1beta1/Workload";
const GROUP: &str = "scheduling.k8s.io/v1beta1/PodGroup";
/// The names for the job `work` with the UID `uid-work`.
const WORKLOAD_NAME: &str = "work-84b8544c5";
const GROUP_NAME: &str = "work-84b8544c5-work-pgt-0-8594cd77bb";

fn owner() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "uid-work", "controller": true,
           "blockOwnerDeletion": true})
}

/// A Workload of `work` with one template, `all`, of a gang of this size.
fn workload(name: &str, size: i32) -> Object {
    Object(json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "ownerReferences": [owner()]},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "work"},
            "podGroupTemplates": [{"name": "all", "schedulingPolicy": {"gang": {"minCount": size}}, "priority": 7}],
        },
    }))
}

/// A PodGroup of `work` and of the Workload `w`, a gang of this size.
fn group(name: &str, size: i32) -> Object {
    Object(json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "ownerReferences": [owner()]},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "all"},
            "schedulingPolicy": {"gang": {"minCount": size}},
        },
    }))
}

/// A job of two pods that are scheduled as a gang.
fn gang() -> Object {
    job(2, 2).with(
        "/spec/scheduling",
        json!({"schedulingPolicy": {"gang": {}}}),
    )
}

fn another(object: Object) -> Object {
    object.with("/metadata/ownerReferences/0/uid", "uid-other")
}

/// The job of a parent of the group `example.com`.
fn child(template: Option<&str>) -> Object {
    let parent = json!([{"apiVersion": "example.com/v1", "kind": "Train", "name": "t", "uid": "uid-t", "controller": true}]);
    let job = job(2, 2).with("/metadata/ownerReferences", parent);
    match template {
        Some(name) => job.with(
            "/metadata/annotations",
            json!({"scheduling.k8s.io/group-template-name": name}),
        ),
        None => job,
    }
}

/// The Workload of that parent.
fn of_parent() -> Object {
    let target = json!({"apiGroup": "example.com", "kind": "Train", "name": "t"});
    let templates = json!([
        {"name": "first", "schedulingPolicy": {"basic": {}}},
        {"name": "all", "schedulingPolicy": {"gang": {"minCount": 3}}, "priorityClassName": "high"},
    ]);
    another(workload("w", 0))
        .with("/spec/controllerRef", target)
        .with("/spec/podGroupTemplates", templates)
}

fn gated(objects: impl IntoIterator<Item = Object>) -> World {
    let world = World::of(objects);
    world
        .cluster
        .set_config("feature-gates.WorkloadWithJob", "true");
    world
}

/// Reconciles once. Returns the writes except for those of pods and of the job, and the group that the pods name.
fn synced(world: &World) -> (Vec<String>, Option<String>) {
    world.try_sync().unwrap();
    let (mut lines, mut groups) = (Vec::new(), Vec::new());
    for write in world.cluster.writes() {
        match write.kind.as_str() {
            POD => groups.push(write.body["spec"]["schedulingGroup"]["podGroupName"].clone()),
            WORKLOAD | GROUP => lines.push(write.to_string()),
            _ => {}
        }
    }
    groups.dedup();
    assert!(groups.len() < 2, "{groups:?}");
    let group = groups.first().and_then(Value::as_str);
    (lines, group.map(str::to_owned))
}

fn nothing() -> (Vec<String>, Option<String>) {
    (Vec::new(), None)
}

/// The specs of the objects that a new job gets.
fn specs(job: Object) -> [Value; 2] {
    let world = gated([job]);
    world.try_sync().unwrap();
    [(WORKLOAD, WORKLOAD_NAME), (GROUP, GROUP_NAME)].map(|(kind, name)| {
        let object = world.cluster.object(kind, "default", name).unwrap();
        object["spec"].clone()
    })
}

#[test]
fn a_new_job_gets_a_workload_and_a_group_before_its_pods() {
    let world = gated([job(2, 2)]);
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
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
            "metadata": {"name": WORKLOAD_NAME, "ownerReferences": [owner()]},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "work"},
                "podGroupTemplates": [{"name": "work-pgt-0", "schedulingPolicy": {"basic": {}}}],
            },
        })
    );
    let stored = world
        .cluster
        .object(WORKLOAD, "default", WORKLOAD_NAME)
        .unwrap();
    let second_owner = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": WORKLOAD_NAME,
                              "uid": stored["metadata"]["uid"]});
    assert_eq!(
        writes[1].body,
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": GROUP_NAME, "ownerReferences": [owner(), second_owner]},
            "spec": {
                "workloadRef": {"workloadName": WORKLOAD_NAME, "templateName": "work-pgt-0"},
                "schedulingPolicy": {"basic": {}},
            },
        })
    );
    assert_eq!(
        world.cluster.events()[..2],
        [
            format!("Normal WorkloadCreated Created Workload {WORKLOAD_NAME} for Job work"),
            format!("Normal PodGroupCreated Created PodGroup {GROUP_NAME} for Job work"),
        ]
    );
    world.cluster.remove(POD, "default", &world.names()[0]);
    assert_eq!(synced(&world), (Vec::new(), Some(GROUP_NAME.into())));
}

#[test]
fn the_spec_says_how_the_pods_are_scheduled() {
    let scheduled = |scheduling: Value| specs(job(3, 3).with("/spec/scheduling", scheduling));
    let policy = |specs: &[Value; 2]| specs[1]["schedulingPolicy"].clone();
    let [workload, group] = scheduled(json!({
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    }));
    let template = json!({
        "name": "work-pgt-0",
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    });
    assert_eq!(workload["podGroupTemplates"], json!([template.clone()]));
    for field in [
        "schedulingPolicy",
        "schedulingConstraints",
        "disruptionMode",
        "resourceClaims",
    ] {
        assert_eq!(group[field], template[field], "{field}");
    }
    let gang_of = |count: i32| json!({"gang": {"minCount": count}});
    assert_eq!(
        policy(&scheduled(json!({"schedulingPolicy": {"gang": {}}}))),
        gang_of(3)
    );
    for basic in [
        json!({}),
        json!({"schedulingPolicy": {}}),
        json!({"schedulingPolicy": {"basic": {}}}),
    ] {
        assert_eq!(policy(&scheduled(basic)), json!({"basic": {}}));
    }
    let none = gang().with("/spec/parallelism", 0);
    assert_eq!(policy(&specs(none)), gang_of(1));
    let class = gang().with("/spec/template/spec/priorityClassName", "high");
    let [workload, group] = specs(class);
    assert_eq!(
        workload["podGroupTemplates"][0]["priorityClassName"],
        "high"
    );
    assert_eq!(group["priorityClassName"], "high");
}

#[test]
fn a_job_with_a_group_or_a_parent_of_its_own_gets_neither() {
    let own_group = job(2, 2).with(
        "/spec/template/spec/schedulingGroup",
        json!({"podGroupName": "mine"}),
    );
    assert_eq!(
        synced(&gated([own_group])),
        (Vec::new(), Some("mine".into()))
    );
    assert_eq!(synced(&gated([child(None), of_parent()])), nothing());
    let deleted = gang().with("/metadata/deletionTimestamp", ago(1));
    assert_eq!(synced(&gated([deleted])), nothing());
    assert_eq!(synced(&World::of([gang()])), nothing());
}

#[test]
fn a_job_that_has_started_gets_nothing_new() {
    let started = || gang().with("/status/startTime", ago(5));
    assert_eq!(synced(&gated([started()])), nothing());
    assert_eq!(synced(&gated([started(), workload("w", 2)])), nothing());
    let both = [started(), workload("w", 2), group("g", 2)];
    assert_eq!(synced(&gated(both)), (Vec::new(), Some("g".into())));
    // A group that is missing for a new job is created from the Workload's template.
    let world = gated([gang(), workload("w", 2)]);
    let name = group_name("w", "all");
    assert_eq!(
        synced(&world),
        (
            vec![format!("create {GROUP} default/{name}")],
            Some(name.clone())
        )
    );
    let created = world.cluster.object(GROUP, "default", &name).unwrap();
    assert_eq!(created["spec"]["priority"], 7);
}

#[test]
fn objects_of_others_do_not_count() {
    let world = gated([gang(), another(workload("w", 2)), another(group("g", 2))]);
    let (lines, named) = synced(&world);
    assert_eq!((lines.len(), named.as_deref()), (2, Some(GROUP_NAME)));
    let ambiguous = [gang(), workload("w", 2), workload("v", 2), group("g", 2)];
    assert_eq!(synced(&gated(ambiguous)), nothing());
    let ambiguous = [gang(), workload("w", 2), group("g", 2), group("h", 2)];
    assert_eq!(synced(&gated(ambiguous)), nothing());
    let odd = workload("w", 2).with("/spec/podGroupTemplates", json!([]));
    let error = gated([gang(), odd]).try_sync().unwrap_err();
    assert_eq!(
        error,
        "ensuring Workload and PodGroup for Job default/work: workload default/w for job default/work has 0 \
         PodGroupTemplates, want exactly 1"
    );
}

#[test]
fn the_size_of_a_gang_follows_the_job_while_it_runs() {
    let grown = gang()
        .with("/spec/parallelism", 4)
        .with("/status/startTime", ago(5));
    let world = gated([grown, workload("w", 2), group("g", 2)]);
    let (lines, group) = synced(&world);
    assert_eq!(
        lines,
        [
            format!("patch {WORKLOAD} default/w"),
            format!("patch {GROUP} default/g")
        ]
    );
    assert_eq!(group.as_deref(), Some("g"));
    let spec = |kind: &str, name: &str| {
        world.cluster.object(kind, "default", name).unwrap()["spec"].clone()
    };
    assert_eq!(
        spec(WORKLOAD, "w")["podGroupTemplates"],
        json!([{"name": "all", "schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 7}])
    );
    assert_eq!(
        spec(GROUP, "g")["schedulingPolicy"],
        json!({"gang": {"minCount": 4}})
    );
    assert!(synced(&world).0.is_empty());
    // Pods that are scheduled one by one have no size.
    let basic = [
        job(4, 4).with("/status/startTime", ago(5)),
        workload("w", 2),
    ];
    assert!(synced(&gated(basic)).0.is_empty());
}

#[test]
fn a_parents_template_makes_a_group() {
    for (template, name, size) in [("all", "all", Some(3)), ("", "first", None)] {
        let world = gated([child(Some(template)), of_parent()]);
        let group = group_name("w", name);
        let line = format!("create {GROUP} default/{group}");
        assert_eq!(synced(&world), (vec![line], Some(group.clone())));
        let created = world.cluster.object(GROUP, "default", &group).unwrap();
        assert_eq!(created["metadata"]["ownerReferences"], json!([owner()]));
        assert_eq!(
            created["spec"]["schedulingPolicy"]["gang"]["minCount"],
            json!(size)
        );
    }
    // Without the Workload or the template, the pods are scheduled one by one.
    assert_eq!(synced(&gated([child(Some("all"))])), nothing());
    assert_eq!(
        synced(&gated([child(Some("other")), of_parent()])),
        nothing()
    );
    let started = child(Some("all")).with("/status/startTime", ago(5));
    assert_eq!(synced(&gated([started, of_parent()])), nothing());
    // The group follows the template.
    let started = child(Some("all")).with("/status/startTime", ago(5));
    let world = gated([started, of_parent(), group("g", 2)]);
    let line = format!("patch {GROUP} default/g");
    assert_eq!(synced(&world), (vec![line], Some("g".into())));
}

#[test]
fn a_workload_that_can_not_be_created_is_reported_and_holds_the_pods_up() {
    let world = gated([gang()]);
    world
        .cluster
        .fail("create", WORKLOAD, refusal(403, "Forbidden", "no"));
    let error = world.try_sync().unwrap_err();
    assert!(
        error.starts_with("ensuring Workload and PodGroup for Job default/work: no"),
        "{error}"
    );
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedWorkloadCreate Failed to create Workload for Job work: no"]
    );
    assert!(world.names().is_empty());
}

#[test]
fn permissions_and_watches_depend_on_the_feature_gate() {
    let world = gated([]);
    let on = JobController::describe_configured(&world.cluster.host());
    on.check().unwrap();
    let off = JobController::describe();
    assert_eq!(
        permissions(&on)[permissions(&off).len()..],
        [
            format!("{WORKLOAD}  create,patch"),
            format!("{GROUP}  create,patch")
        ]
    );
    let added = &on.watches[off.watches.len()..];
    assert!(added.len() == 2 && added.iter().all(|watch| watch.map.is_empty()));
    let reads_scheduling = |description: &Description| {
        let fields = &description.watches[0].fields;
        fields.iter().any(|field| field == "spec.scheduling")
    };
    assert!(reads_scheduling(&on) && !reads_scheduling(&off));
}
