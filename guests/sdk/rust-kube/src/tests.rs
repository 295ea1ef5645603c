//! Controllers that are written as for kube, against an API server in memory.
#![allow(unreachable_pub, reason = "`export!` is for the roots of crates")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_sdk::log::Level;
use flyball_sdk::testing::{Cluster, delta, refusal};
use flyball_sdk::{Controller as _, Delta, Key, Outcome, RoutedKey};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use crate::runtime::controller::{Action, Config, Controller};
use crate::runtime::events::{Event, EventType, Recorder};
use crate::runtime::finalizer::{self, finalizer};
use crate::runtime::reflector::{ObjectRef, Store};
use crate::runtime::watcher;
use crate::{Api, Client, CustomResource, Plugin, Resource, ResourceExt};

const SITE: &str = "example.com/v1/Site";
const FINALIZER: &str = "example.com/cleanup";

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(status = "SiteStatus")]
struct SiteSpec {
    page: String,
    /// A Secret that the page needs.
    secret: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct SiteStatus {
    pages: i32,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("can't call the API: {0}")]
    Kube(#[from] crate::Error),
    #[error("can't finish: {0}")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

struct Data {
    client: Client,
    recorder: Recorder,
    sites: Store<Site>,
}

async fn reconcile(site: Arc<Site>, data: Arc<Data>) -> Result<Action, Error> {
    let namespace = site.namespace().unwrap_or_default();
    let sites = Api::<Site>::namespaced(data.client.clone(), &namespace);
    let done = finalizer(&sites, FINALIZER, site, |event| async {
        match event {
            finalizer::Event::Apply(site) => apply(&site, &data).await,
            finalizer::Event::Cleanup(site) => clean_up(&site, &data).await,
        }
    });
    done.await
        .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(site: &Site, data: &Data) -> Result<Action, Error> {
    let name = site.name_any();
    let namespace = site.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced(data.client.clone(), &namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("page".into(), site.spec.page.clone())])),
        ..ConfigMap::default()
    };
    maps.patch(
        &name,
        &PatchParams::apply("sites").force(),
        &Patch::Apply(&map),
    )
    .await?;
    tracing::info!(pages = 1, "wrote {name}");
    let event = Event {
        type_: EventType::Normal,
        reason: "Published".into(),
        note: Some(format!("published {name}")),
        action: "Publish".into(),
        secondary: None,
    };
    data.recorder.publish(&event, &site.object_ref(&())).await?;
    let status = SiteStatus { pages: 1 };
    if site.status.as_ref() != Some(&status) {
        let sites = Api::<Site>::namespaced(data.client.clone(), &namespace);
        let patch = Patch::Merge(json!({"status": status}));
        sites
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    assert!(data.sites.get(&ObjectRef::from_obj(site)).is_some());
    Ok(Action::requeue(Duration::from_secs(60)))
}

async fn clean_up(site: &Site, data: &Data) -> Result<Action, Error> {
    let maps =
        Api::<ConfigMap>::namespaced(data.client.clone(), &site.namespace().unwrap_or_default());
    maps.delete(&site.name_any(), &crate::api::DeleteParams::background())
        .await?;
    Ok(Action::await_change())
}

fn error_policy(_: Arc<Site>, _: &Error, _: Arc<Data>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

fn plugin() -> Plugin {
    let client = Client::default();
    let controller = Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default());
    let sites = controller.store();
    let mapped = sites.clone();
    let mapper = move |secret: Secret| {
        let name = secret.metadata.name;
        let all = mapped.state();
        let needs = all.into_iter().filter(move |site| site.spec.secret == name);
        needs
            .map(|site| ObjectRef::from_obj(&*site))
            .collect::<Vec<_>>()
    };
    let controller = controller
        .owns(
            Api::<ConfigMap>::all(client.clone()),
            watcher::Config::default().labels("a=b"),
        )
        .watches(
            Api::<Secret>::all(client.clone()),
            watcher::Config::default(),
            mapper,
        )
        .with_config(
            Config::default()
                .concurrency(3)
                .debounce(Duration::from_secs(1)),
        )
        .run(
            reconcile,
            error_policy,
            Arc::new(Data {
                recorder: Recorder::new(client.clone(), "sites".into()),
                client,
                sites,
            }),
        );
    Plugin::new("sites", "1.0.0")
        .controller(controller)
        .fields::<Secret>(&["metadata.name"])
        .permission::<Site>(["patch"])
        .permission_on::<Site>("status", ["patch"])
        .permission::<ConfigMap>(["create", "patch", "delete"])
}

crate::export!(plugin);

fn site() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "home", "namespace": "team", "uid": "u"},
        "spec": {"page": "hello", "secret": "password"},
    })
}

fn settled() -> Cluster {
    let cluster = Cluster::with([site()]);
    cluster.reconcile::<Exported>("team/home").unwrap();
    cluster.reconcile::<Exported>("team/home").unwrap();
    cluster
}

#[test]
fn the_description_has_what_the_controller_watches() {
    let described = serde_json::to_value(Exported::describe()).unwrap();
    let delayed = |mapping: Value| {
        let mut mapping = mapping;
        mapping["queue"] = "site".into();
        mapping["delayMs"] = 1000.into();
        json!([mapping])
    };
    let expected = json!([
        {"kind": SITE, "fields": ["."], "map": delayed(json!({"to": "itself"}))},
        {"kind": "v1/ConfigMap", "fields": [], "metadataOnly": true, "labelSelector": "a=b",
         "map": delayed(json!({"to": "owner", "kind": SITE}))},
        {"kind": "v1/Secret", "fields": ["metadata.name"], "map": delayed(json!({"to": "route"}))},
    ]);
    assert_eq!(described["watches"], expected);
    assert_eq!(described["concurrency"], 3);
    assert_eq!(described["queues"][0]["name"], "site");
}

#[test]
fn an_object_is_applied_under_a_finalizer() {
    let cluster = Cluster::with([site()]);
    let outcome = cluster.reconcile::<Exported>("team/home").unwrap();
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(cluster.written(), ["patch example.com/v1/Site team/home"]);
    let outcome = cluster.reconcile::<Exported>("team/home").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(60)));
    let expected = [
        "patch v1/ConfigMap team/home",
        "patch example.com/v1/Site/status team/home",
    ];
    assert_eq!(cluster.written(), expected);
    let stored = cluster.object(SITE, "team", "home").unwrap();
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(stored["status"], json!({"pages": 1}));
    let map = cluster.object("v1/ConfigMap", "team", "home").unwrap();
    assert_eq!(map["metadata"]["ownerReferences"][0]["kind"], "Site");
    let [event] = &cluster.recorded_events()[..] else {
        panic!("there is one event");
    };
    assert_eq!(event.to_string(), "Normal Published published home");
    assert_eq!((&*event.about.kind, &*event.about.uid), (SITE, "u"));
    assert_eq!(event.options.action, "Publish");
    let (level, line) = &cluster.logged()[0];
    assert_eq!((*level, &**line), (Level::Info, "wrote home"));
}

#[test]
fn an_object_is_cleaned_up_before_it_is_deleted() {
    let cluster = settled();
    let deletion = flyball_sdk::Write::delete(SITE, "team", "home");
    cluster.host().write(deletion).unwrap();
    cluster.written();
    cluster.fail("delete", "v1/ConfigMap", refusal(500, "InternalError"));
    let error = cluster.reconcile::<Exported>("team/home").unwrap_err();
    assert!(error.to_string().contains("failed to clean up"), "{error}");
    assert!(cluster.object(SITE, "team", "home").is_some());
    cluster.written();
    cluster.reconcile::<Exported>("team/home").unwrap();
    let expected = [
        "delete v1/ConfigMap team/home",
        "patch example.com/v1/Site team/home",
    ];
    assert_eq!(cluster.written(), expected);
    assert!(cluster.object(SITE, "team", "home").is_none());
}

#[test]
fn the_error_policy_decides_on_the_retry() {
    let cluster = settled();
    cluster.enqueued();
    cluster.fail("patch", "v1/ConfigMap", refusal(409, "Conflict"));
    let error = cluster.reconcile::<Exported>("team/home").unwrap_err();
    assert!(error.is_terminal());
    assert!(
        error.to_string().contains("the test refuses this"),
        "{error}"
    );
    let enqueued = cluster.enqueued();
    assert_eq!(enqueued.len(), 1);
    assert_eq!(
        (&*enqueued[0].queue, &*enqueued[0].key),
        ("site", "team/home")
    );
    assert_eq!(enqueued[0].delay, Duration::from_secs(5));
}

#[test]
fn an_object_that_is_not_of_the_type_is_named() {
    let mut wrong = site();
    wrong["spec"]["page"] = 1.into();
    let error = Cluster::with([wrong])
        .reconcile::<Exported>("team/home")
        .unwrap_err();
    let expected = "example.com/v1/Site team/home is malformed: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_mapping_function_enqueues_the_objects_that_it_returns() {
    let cluster = Cluster::with([site()]);
    let secret = |name: &str| json!({"metadata": {"name": name, "namespace": "team"}});
    let deltas: [Delta; 2] = [
        delta(
            "v1/Secret",
            Some(&secret("password")),
            Some(&secret("password")),
        ),
        delta("v1/Secret", None, Some(&secret("other"))),
    ];
    let routed = cluster.route::<Exported>(&deltas).unwrap();
    let expected = RoutedKey {
        queue: "site".into(),
        key: Key::new("team", "home"),
        delay: Duration::from_secs(1),
    };
    assert_eq!(routed, [expected]);
    let wrong = delta("v1/Secret", None, Some(&json!({"metadata": 1})));
    let error = cluster.route::<Exported>(&[wrong]).unwrap_err();
    assert!(
        error.to_string().starts_with("a v1/Secret is malformed"),
        "{error}"
    );
}

/// Runs calls in a reconcile of the Site `team/home`. The plugin has all permissions on ConfigMaps, and caches the
/// fields in `fields`.
fn in_reconcile<F: Future<Output = ()> + 'static>(
    cluster: &Cluster,
    fields: &[&str],
    calls: impl Fn(Api<ConfigMap>) -> F + 'static,
) {
    let reconciler = move |_: Arc<Site>, _: Arc<()>| {
        let done = calls(Api::namespaced(Client::default(), "team"));
        async move {
            done.await;
            Ok::<_, crate::Error>(Action::await_change())
        }
    };
    let policy = |_: Arc<Site>, _: &crate::Error, _: Arc<()>| Action::await_change();
    let sites = Api::<Site>::all(Client::default());
    let runner =
        Controller::new(sites, watcher::Config::default()).run(reconciler, policy, Arc::new(()));
    let verbs = [
        "get",
        "list",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let mut plugin = Plugin::new("calls", "1.0.0")
        .controller(runner)
        .permission::<ConfigMap>(verbs);
    if !fields.is_empty() {
        plugin = plugin.fields::<ConfigMap>(fields);
    }
    plugin.description().check().unwrap();
    cluster.put(site());
    let request = flyball_sdk::Request::new("site", "team/home");
    let host = cluster.host();
    assert_eq!(plugin.reconcile(&host, &request).unwrap(), Outcome::Done);
}

fn map(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team", "labels": {"app": name}}, "data": {"a": data},
    })
}

#[test]
fn reads_come_from_the_cache_where_the_plugin_asks_for_the_fields() {
    let live = [
        "get v1/ConfigMap team/one",
        "list v1/ConfigMap team",
        "get v1/ConfigMap team/none",
    ];
    for (fields, expected) in [(&["."][..], &live[1..2]), (&[][..], &live[..])] {
        let cluster = Cluster::with([map("one", "1"), map("two", "2")]);
        in_reconcile(&cluster, fields, |maps| async move {
            assert_eq!(maps.get("one").await.unwrap().data.unwrap()["a"], "1");
            let labelled = maps
                .list(&ListParams::default().labels("app=two"))
                .await
                .unwrap();
            assert_eq!(labelled.items.len(), 1);
            assert_eq!(labelled.items[0].name_any(), "two");
            let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
            assert_eq!(
                (page.items.len(), page.metadata.continue_),
                (1, Some("1".into()))
            );
            assert!(maps.get_opt("none").await.unwrap().is_none());
            let error = maps.get("none").await.unwrap_err();
            assert!(matches!(error, crate::Error::Api(status) if status.is_not_found()));
        });
        let mut read = cluster.live_reads();
        read.dedup();
        assert_eq!(read, expected);
    }
}

#[test]
fn an_object_is_created_replaced_and_deleted() {
    let cluster = Cluster::new();
    in_reconcile(&cluster, &["."], |maps| async move {
        let new: ConfigMap = serde_json::from_value(map("one", "1")).unwrap();
        let mut stored = maps.create(&PostParams::default(), &new).await.unwrap();
        let stale = stored.clone();
        stored.data.as_mut().unwrap().insert("b".into(), "2".into());
        stored.metadata.labels = None;
        let replaced = maps
            .replace("one", &PostParams::default(), &stored)
            .await
            .unwrap();
        assert_eq!(replaced.data, stored.data);
        assert_eq!(replaced.metadata.labels, None);
        let error = maps
            .replace("one", &PostParams::default(), &stale)
            .await
            .unwrap_err();
        assert!(matches!(error, crate::Error::Api(status) if status.is_conflict()));
        // Without a version, the write replaces any version.
        let replaced = maps
            .replace("one", &PostParams::default(), &new)
            .await
            .unwrap();
        assert_eq!(replaced.data, new.data);
        let wrong = maps
            .delete("two", &crate::api::DeleteParams::default())
            .await;
        assert!(matches!(wrong.unwrap_err(), crate::Error::Api(status) if status.code == 404));
        let deleted = maps
            .delete("one", &crate::api::DeleteParams::default())
            .await
            .unwrap();
        assert!(deleted.right().unwrap().is_success());
    });
    assert!(cluster.object("v1/ConfigMap", "team", "one").is_none());
}

#[test]
fn a_status_is_replaced() {
    let cluster = settled();
    let client = Client::default();
    let reconciler = |site: Arc<Site>, _: Arc<()>| async move {
        let sites = Api::<Site>::namespaced(Client::default(), "team");
        let mut site = (*site).clone();
        site.status = Some(SiteStatus { pages: 2 });
        let replaced = sites
            .replace_status("home", &PostParams::default(), &site)
            .await?;
        assert_eq!(replaced.status, site.status);
        Ok::<_, crate::Error>(Action::await_change())
    };
    let policy = |_: Arc<Site>, _: &crate::Error, _: Arc<()>| Action::await_change();
    let runner = Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default()).run(
        reconciler,
        policy,
        Arc::new(()),
    );
    let plugin = Plugin::new("status", "1.0.0").controller(runner);
    let request = flyball_sdk::Request::new("site", "team/home");
    plugin.reconcile(&cluster.host(), &request).unwrap();
    let stored = cluster.object(SITE, "team", "home").unwrap();
    assert_eq!(stored["status"], json!({"pages": 2}));
}

#[test]
fn a_reconciler_that_waits_for_something_else_fails() {
    let client = Client::default();
    let reconciler =
        |_: Arc<Site>, _: Arc<()>| std::future::pending::<Result<Action, crate::Error>>();
    let policy = |_: Arc<Site>, _: &crate::Error, _: Arc<()>| Action::await_change();
    let runner = Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default()).run(
        reconciler,
        policy,
        Arc::new(()),
    );
    let plugin = Plugin::new("waits", "1.0.0").controller(runner);
    let request = flyball_sdk::Request::new("site", "team/home");
    let cluster = Cluster::with([site()]);
    let error = plugin.reconcile(&cluster.host(), &request).unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("no timers"),
        "{error}"
    );
}

#[test]
fn a_client_works_only_within_a_call() {
    let maps = Api::<ConfigMap>::namespaced(Client::default(), "team");
    let error = crate::executor::run(maps.get("one")).unwrap().unwrap_err();
    assert!(error.to_string().contains("only within a call"), "{error}");
}
