use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::*;
use crate::int_or_percent::IntOrPercent;
use crate::key::Key;
use crate::meta::{OwnerReference, Selector, StringMap};
use crate::prelude::{Controller, Description, Mapping, Outcome, Request, describe, watch};
use crate::quantity::Quantity;
use crate::testing::Cluster;

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team", "uid": "u", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {}, "unknown": 1},
    })
}

fn read(cluster: &Cluster) -> Deployment {
    let found = cluster.host().get::<Deployment>("team", "web").unwrap();
    found.expect("the Deployment exists")
}

#[test]
fn kinds_have_the_form_of_the_world() {
    assert_eq!(Deployment::KIND, "apps/v1/Deployment");
    assert_eq!(kind::<Pod>(), "v1/Pod");
    assert!(Namespace::KIND.parse::<flyball_types::Kind>().is_ok());
}

#[test]
fn whole_objects_are_read_listed_and_read_live() {
    let cluster = Cluster::with([deployment()]);
    let host = cluster.host();
    let web = read(&cluster);
    assert_eq!(web.metadata.labels.as_ref().unwrap()["app"], "web");
    let listed = host.list::<Deployment>().labels("app=web").all().unwrap();
    assert_eq!(listed, std::slice::from_ref(&web));
    let other = host.list::<Deployment>().labels("app=db").all().unwrap();
    assert!(other.is_empty());
    let live = host.live().get::<Deployment>("team", "web").unwrap();
    assert_eq!(live, Some(web));
    assert_eq!(host.get::<Deployment>("team", "db").unwrap(), None);
}

#[test]
fn an_object_that_is_not_of_the_type_is_named() {
    let mut wrong = deployment();
    wrong["spec"]["replicas"] = "three".into();
    let error = Cluster::with([wrong])
        .host()
        .get::<Deployment>("team", "web");
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("apps/v1/Deployment team/web is malformed"),
        "{error}"
    );
}

#[test]
fn a_watch_has_all_fields_or_some() {
    struct Whole;
    impl Controller for Whole {
        fn describe() -> Description {
            describe("whole", "1.0.0")
                .watch(watch::<Deployment>().enqueue(Mapping::itself()))
                .queue("whole")
        }
        fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
            let web = host.get_by_key::<Deployment>(&request.key)?.unwrap();
            Err(Error::terminal(format!("{:?}", web.spec.replicas)))
        }
    }
    struct Narrow;
    impl Controller for Narrow {
        fn describe() -> Description {
            let watch = watch_fields::<Deployment>(&["metadata.labels", "spec.selector"]);
            describe("narrow", "1.0.0")
                .watch(watch.enqueue(Mapping::itself()))
                .queue("narrow")
        }
        fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
            let web = host.get_by_key::<Deployment>(&request.key)?.unwrap();
            let listed = host.list::<Deployment>().all()?;
            assert_eq!(listed, std::slice::from_ref(&web));
            assert_eq!(web.metadata.name.as_deref(), Some("web"));
            let spec = web.spec;
            assert!(spec.selector.match_labels.is_some());
            Err(Error::terminal(format!("{:?}", spec.replicas)))
        }
    }
    assert_eq!(Whole::describe().watches[0].fields, ["."]);
    let cluster = Cluster::with([deployment()]);
    let replicas = |result: Result<Outcome, Error>| result.unwrap_err().to_string();
    assert_eq!(replicas(cluster.reconcile::<Whole>("team/web")), "Some(3)");
    assert_eq!(replicas(cluster.reconcile::<Narrow>("team/web")), "None");
}

#[test]
fn an_object_is_created_applied_and_deleted() {
    let cluster = Cluster::new();
    let host = cluster.host();
    let mut map = ConfigMap {
        metadata: meta_v1::ObjectMeta {
            name: Some("a".into()),
            namespace: Some("team".into()),
            ..meta_v1::ObjectMeta::default()
        },
        data: Some([("x".into(), "1".into())].into()),
        ..ConfigMap::default()
    };
    let created = host.create_object(&map).unwrap();
    assert!(created.metadata.uid.is_some());
    map.data = Some([("y".into(), "2".into())].into());
    let applied = host.apply(&map, "test").unwrap();
    assert_eq!(applied.data.unwrap()["y"], "2");
    let other = ConfigMap {
        metadata: meta_v1::ObjectMeta {
            uid: Some("another".into()),
            ..created.metadata.clone()
        },
        ..ConfigMap::default()
    };
    let refused = host.delete_object(&other, Propagation::Background);
    assert!(refused.unwrap_err().api().unwrap().is_conflict());
    host.delete_object(&created, Propagation::Background)
        .unwrap();
    host.delete_object(&created, Propagation::Background)
        .unwrap();
    let expected = [
        "create v1/ConfigMap team/a",
        "patch v1/ConfigMap team/a",
        "delete v1/ConfigMap team/a",
    ];
    let succeeded: Vec<String> = cluster
        .writes()
        .iter()
        .filter(|write| write.error.is_none())
        .map(ToString::to_string)
        .collect();
    assert_eq!(succeeded, expected);
}

#[test]
fn an_update_sends_what_has_changed_and_keeps_unknown_fields() {
    let cluster = Cluster::with([deployment()]);
    let before = read(&cluster);
    let mut after = before.clone();
    after.metadata.labels = None;
    after.spec.replicas = Some(5);
    let updated = cluster.host().update_object(&before, &after).unwrap();
    assert_eq!(updated.spec.replicas, Some(5));
    let stored = cluster.object("apps/v1/Deployment", "team", "web").unwrap();
    assert_eq!(stored["spec"]["unknown"], 1);
    assert!(stored["metadata"].get("labels").is_none(), "{stored}");
    let body = &cluster.writes()[0].body;
    assert_eq!(
        *body,
        json!({"metadata": {"labels": null}, "spec": {"replicas": 5}})
    );
    let stale = cluster.host().update_object(&before, &after).unwrap_err();
    assert!(stale.api().unwrap().is_conflict());
}

#[test]
fn a_status_is_replaced() {
    let cluster = Cluster::with([deployment()]);
    let mut web = read(&cluster);
    web.status = Some(DeploymentStatus {
        ready_replicas: Some(2),
        ..DeploymentStatus::default()
    });
    // Not a part of the status.
    web.spec = DeploymentSpec::default();
    let updated = cluster.host().update_status_of(&web).unwrap();
    assert_eq!(updated.status.unwrap().ready_replicas, Some(2));
    assert_eq!(updated.spec.replicas, Some(3));
    assert_eq!(
        cluster.written(),
        ["update apps/v1/Deployment/status team/web"]
    );
}

#[test]
fn an_object_is_referred_to_as_a_key_an_owner_and_for_an_event() {
    let web = read(&Cluster::with([deployment()]));
    assert_eq!(Key::from(&web.metadata), Key::new("team", "web"));
    let owner = controller_reference(&web);
    assert_eq!(
        serde_json::to_value(&owner).unwrap(),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u",
               "controller": true, "blockOwnerDeletion": true}),
    );
    let own = OwnerReference::from(&owner);
    assert!(own.is_of("apps/v1/Deployment") && own.controller);
    let about = reference(&web);
    assert_eq!((&*about.kind, &*about.uid), (Deployment::KIND, "u"));
    let core = k8s_openapi::api::core::v1::ObjectReference::from(&about);
    assert_eq!(core.api_version.as_deref(), Some("apps/v1"));
    assert_eq!(ObjectReference::from(&core), about);
}

#[test]
fn metadata_has_all_that_the_sdk_knows() {
    let metadata = json!({
        "name": "web", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 2,
        "generateName": "w", "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:01Z", "deletionGracePeriodSeconds": 30,
        "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.io/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true}],
    });
    let typed: meta_v1::ObjectMeta = serde_json::from_value(metadata.clone()).unwrap();
    let expected: Meta = serde_json::from_value(metadata).unwrap();
    assert_eq!(Meta::from(&typed), expected);
}

#[test]
fn a_condition_is_set_once() {
    let now: Time = "2026-01-01T00:00:00Z".parse().unwrap();
    let ready = || condition::Condition::new("Ready", "True", "Up", "");
    let mut conditions = None;
    assert!(set_condition(&mut conditions, ready(), now));
    let later: Time = "2026-01-01T00:01:00Z".parse().unwrap();
    assert!(!set_condition(&mut conditions, ready(), later));
    let [condition] = &conditions.unwrap()[..] else {
        panic!("there is one condition");
    };
    assert_eq!((&*condition.type_, &*condition.status), ("Ready", "True"));
    assert_eq!(Time::from(&condition.last_transition_time), now);
}

#[test]
fn times_numbers_and_selectors_are_converted() {
    let time: Time = "1969-12-31T23:59:59Z".parse().unwrap();
    let typed = meta_v1::Time::from(time);
    assert_eq!(
        serde_json::to_value(&typed).unwrap(),
        "1969-12-31T23:59:59Z"
    );
    assert_eq!(Time::from(&typed), time);
    let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity("1500m".into());
    let parsed = Quantity::try_from(&quantity).unwrap();
    assert_eq!(parsed.millis(), 1500);
    let wrong = k8s_openapi::apimachinery::pkg::api::resource::Quantity("much".into());
    assert!(Quantity::try_from(&wrong).is_err());
    let surge = IntOrString::String("25%".into());
    let own = IntOrPercent::from(&surge);
    assert_eq!(own.of(8, true).unwrap(), 2);
    assert_eq!(IntOrString::from(&own), surge);
    let mut selector = meta_v1::LabelSelector {
        match_labels: Some([("app".into(), "web".into())].into()),
        ..meta_v1::LabelSelector::default()
    };
    let labels = StringMap::from([("app".into(), "web".into())]);
    assert!(Selector::try_from(&selector).unwrap().matches(&labels));
    selector.match_expressions = Some(vec![meta_v1::LabelSelectorRequirement {
        key: "app".into(),
        operator: "Near".into(),
        values: None,
    }]);
    let error = Selector::try_from(&selector).unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("Near"),
        "{error}"
    );
}
