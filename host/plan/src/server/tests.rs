//! Requests as a host sends them, to a plan over files, and to one over another API server in memory.

mod million;

use flyball_testserver::api::ApiServer;
use flyball_testserver::api::discovery::Served;
use serde_json::json;
use tokio::task::LocalSet;

use super::*;
use crate::base::{ClusterBase, FileBase};
use crate::change::LAST_APPLIED;
use crate::outcome::Action;
use crate::reads::bytes;

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const AGENT: &str = "flyball/0.2.0 (host) operator";

fn served() -> Vec<Served> {
    let served = |kind: &str, plural: &str, namespaced| Served {
        kind: kind.parse().expect("a kind"),
        plural: plural.into(),
        namespaced,
    };
    vec![
        served("v1/ConfigMap", "configmaps", true),
        served("v1/Event", "events", true),
        served("v1/Namespace", "namespaces", false),
        served("v1/Pod", "pods", true),
        served("apps/v1/Deployment", "deployments", true),
        served(
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        ),
    ]
}

fn map(namespace: &str, name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": name}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "2"}})
}

fn deployment() -> Value {
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

fn options() -> Options {
    Options {
        namespace: None,
        max_writes: 100,
        pods: Pods::Run,
    }
}

/// A plan over two ConfigMaps, one in another namespace, and a Deployment.
async fn plan_with(options: Options) -> Shared {
    let objects = vec![map("shop", "one"), map("other", "two"), deployment()];
    let base = Base::Files(FileBase::new(served(), objects).expect("they are valid"));
    let kinds = base.kinds().await.expect("files have their kinds");
    Shared::new(base, kinds, options)
}

async fn plan() -> Shared {
    plan_with(options()).await
}

impl Shared {
    async fn send(&self, method: Method, path: &str, body: Value) -> Result<Reply, ApiError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let call = Call {
            method: &method,
            path,
            query,
            agent: AGENT,
            accept: "application/json",
            content_type: "application/merge-patch+json",
            body: &body,
        };
        self.reply(&call).await
    }

    /// Sends a request that succeeds.
    async fn json(&self, method: Method, path: &str, body: Value) -> Value {
        let reply = self.send(method, path, body).await;
        let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
        let body = bytes(reply).expect("no watch");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Sends a request that fails.
    async fn refusal(&self, method: Method, path: &str, body: Value) -> u16 {
        match self.send(method, path, body).await {
            Err(error) => error.status,
            Ok(_) => panic!("{path} succeeds"),
        }
    }

    async fn names(&self, path: &str) -> Vec<String> {
        let list = self.json(Method::GET, path, Value::Null).await;
        let items = list["items"].as_array().expect("a list").iter();
        let mut names: Vec<String> = items
            .map(|object| {
                object["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned()
            })
            .collect();
        names.sort();
        names
    }

    fn outcome(&self) -> Vec<(Action, String)> {
        let outcome = Outcome::of(&self.state.borrow());
        let changes = outcome.changes.into_iter();
        changes.map(|change| (change.action, change.name)).collect()
    }
}

/// The types of the events so far.
fn types(mut events: UnboundedReceiver<Bytes>) -> Vec<String> {
    let mut types = Vec::new();
    while let Ok(line) = events.try_recv() {
        let event: Value = serde_json::from_slice(&line).expect("a line of JSON");
        types.push(event["type"].as_str().expect("a type").to_owned());
    }
    types
}

#[tokio::test]
async fn reads_see_the_writes_of_the_plan_over_the_objects_of_the_base() {
    let plan = plan().await;
    let one = format!("{MAPS}/one");
    assert_eq!(
        plan.json(Method::GET, &one, Value::Null).await["data"]["a"],
        "1"
    );
    plan.json(Method::PATCH, &one, json!({"data": {"a": "9"}}))
        .await;
    assert_eq!(
        plan.json(Method::GET, &one, Value::Null).await["data"]["a"],
        "9"
    );
    plan.json(Method::POST, MAPS, map("shop", "new")).await;
    plan.json(
        Method::DELETE,
        "/api/v1/namespaces/other/configmaps/two",
        Value::Null,
    )
    .await;
    assert_eq!(plan.names("/api/v1/configmaps").await, ["new", "one"]);
    assert_eq!(
        plan.names("/api/v1/configmaps?labelSelector=app%3Dnew")
            .await,
        ["new"]
    );
    let expected = [
        (Action::Deleted, "two"),
        (Action::Created, "new"),
        (Action::Changed, "one"),
    ];
    assert_eq!(
        plan.outcome(),
        expected.map(|(action, name)| (action, name.to_owned()))
    );
    let outcome = Outcome::of(&plan.state.borrow());
    assert!(
        outcome
            .changes
            .iter()
            .all(|change| change.writers.contains("operator"))
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_none() {
    let plan = plan().await;
    plan.json(
        Method::PATCH,
        &format!("{MAPS}/one"),
        json!({"data": {"a": "1"}}),
    )
    .await;
    assert_eq!(plan.outcome(), []);
    plan.json(Method::POST, MAPS, map("shop", "new")).await;
    plan.json(Method::DELETE, &format!("{MAPS}/new"), Value::Null)
        .await;
    assert_eq!(plan.outcome(), []);
}

#[tokio::test]
async fn an_update_of_an_older_version_conflicts_and_one_that_exists_is_not_created() {
    let plan = plan().await;
    let one = format!("{MAPS}/one");
    let old = plan.json(Method::GET, &one, Value::Null).await;
    let mut new = old.clone();
    new["data"]["a"] = "2".into();
    plan.json(Method::PUT, &one, new).await;
    assert_eq!(plan.refusal(Method::PUT, &one, old).await, 409);
    assert_eq!(
        plan.refusal(Method::POST, MAPS, map("shop", "one")).await,
        409
    );
}

#[tokio::test]
async fn a_watch_from_the_version_of_a_list_misses_no_change() {
    let plan = plan().await;
    let list = plan.json(Method::GET, MAPS, Value::Null).await;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned();
    plan.json(
        Method::PATCH,
        &format!("{MAPS}/one"),
        json!({"data": {"a": "9"}}),
    )
    .await;
    let path = format!("{MAPS}?watch=true&resourceVersion={version}");
    let watch = plan.send(Method::GET, &path, Value::Null).await;
    let Ok(Reply::Events(events)) = watch else {
        panic!("it is no watch")
    };
    plan.json(Method::DELETE, &format!("{MAPS}/one"), Value::Null)
        .await;
    plan.json(
        Method::POST,
        "/api/v1/namespaces/other/configmaps",
        map("other", "new"),
    )
    .await;
    assert_eq!(types(events), ["MODIFIED", "DELETED"]);
}

/// Objects that change while a list is read page by page are in the list as they were, and in the watch that follows it.
#[tokio::test]
async fn a_list_in_pages_and_its_watch_have_each_object_and_each_change() {
    let objects = ["a", "b", "c"].map(|name| map("shop", name)).to_vec();
    let base = Base::Files(FileBase::new(served(), objects).expect("they are valid"));
    let kinds = base.kinds().await.expect("files have their kinds");
    let plan = Shared::new(base, kinds, options());
    let (mut names, mut token) = (Vec::new(), String::new());
    let version = loop {
        let path = format!("{MAPS}?limit=1&continue={token}");
        let page = plan.json(Method::GET, &path, Value::Null).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = page["items"].as_array().expect("a list").iter();
        names.extend(items.map(|object| text(&object["metadata"]["name"])));
        let version = text(&page["metadata"]["resourceVersion"]);
        token = text(&page["metadata"]["continue"]);
        if names.len() == 1 {
            plan.json(Method::POST, MAPS, map("shop", "new")).await;
            let change = json!({"data": {"a": "9"}});
            plan.json(Method::PATCH, &format!("{MAPS}/b"), change).await;
            plan.json(Method::DELETE, &format!("{MAPS}/c"), Value::Null)
                .await;
        }
        if token.is_empty() {
            break version;
        }
    };
    assert_eq!(names, ["a", "b", "c"]);
    let path = format!("{MAPS}?watch=true&resourceVersion={version}");
    let Ok(Reply::Events(events)) = plan.send(Method::GET, &path, Value::Null).await else {
        panic!("it is no watch")
    };
    assert_eq!(types(events), ["ADDED", "MODIFIED", "DELETED"]);
}

#[tokio::test]
async fn a_created_pod_runs_and_a_collection_is_deleted() {
    const PODS: &str = "/api/v1/namespaces/shop/pods";
    let plan = plan().await;
    let metadata = json!({"generateName": "web-", "labels": {"app": "web"}});
    for _ in 0..2 {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}});
        plan.json(Method::POST, PODS, pod).await;
    }
    let list = plan.json(Method::GET, PODS, Value::Null).await;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2);
    assert!(
        items.iter().all(|pod| pod["status"]["phase"] == "Running"),
        "{list}"
    );
    plan.json(
        Method::DELETE,
        &format!("{PODS}?labelSelector=app%3Dweb"),
        Value::Null,
    )
    .await;
    assert!(plan.names(PODS).await.is_empty());
}

#[tokio::test]
async fn writes_beyond_the_limit_are_refused() {
    let plan = plan_with(Options {
        max_writes: 1,
        ..options()
    })
    .await;
    plan.json(Method::POST, MAPS, map("shop", "new")).await;
    assert_eq!(
        plan.refusal(Method::POST, MAPS, map("shop", "other")).await,
        429
    );
    assert!(plan.state.borrow().is_full);
}

/// A plan over this many ConfigMaps of files.
async fn plan_over(count: usize, options: Options) -> Shared {
    let objects = (0..count).map(|number| map("shop", &format!("map-{number:06}")));
    let base = FileBase::new(served(), objects.collect()).expect("they are valid");
    let base = Base::Files(base);
    let kinds = base.kinds().await.expect("files have their kinds");
    Shared::new(base, kinds, options)
}

#[tokio::test]
async fn a_plan_over_many_objects_holds_only_those_that_were_written() {
    let plan = plan_over(10_000, options()).await;
    let (mut seen, mut token) = (0, String::new());
    loop {
        let path = format!("{MAPS}?limit=100&continue={token}");
        let page = plan.json(Method::GET, &path, Value::Null).await;
        let items = page["items"].as_array().expect("a list").len();
        assert!(items <= 100, "a page has {items} objects");
        seen += items;
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(seen, 10_000);
    let change = json!({"data": {"a": "9"}});
    let one = format!("{MAPS}/map-005000");
    plan.json(Method::PATCH, &one, change).await;
    let state = plan.state.borrow();
    let taken = state.overlay.taken().keys();
    let maps = taken.filter(|id| id.kind == "v1/ConfigMap");
    assert_eq!(maps.count(), 1);
}

#[tokio::test]
async fn a_plugin_that_deletes_all_of_many_objects_is_stopped_at_the_limit_of_writes() {
    let plan = plan_over(10_000, options()).await;
    assert_eq!(plan.refusal(Method::DELETE, MAPS, Value::Null).await, 429);
    let most = options().max_writes;
    {
        let state = plan.state.borrow();
        assert!(state.is_full && state.overlay.taken().len() <= most);
    }
    let deleted = plan.outcome().len();
    assert!(0 < deleted && deleted <= most, "{deleted} were deleted");
}

#[tokio::test]
async fn notes_are_bounded() {
    let plan = plan().await;
    let state = &mut *plan.state.borrow_mut();
    (0..2 * MAX_NOTES).for_each(|number| state.note(number.to_string()));
    state.note("0".to_owned());
    assert_eq!((state.notes.len(), state.notes["0"]), (MAX_NOTES, 2));
}

#[tokio::test]
async fn a_plan_of_one_namespace_neither_reads_nor_writes_others() {
    let plan = plan_with(Options {
        namespace: Some("shop".into()),
        ..options()
    })
    .await;
    assert_eq!(plan.names("/api/v1/configmaps").await, ["one"]);
    let other = "/api/v1/namespaces/other/configmaps";
    assert!(plan.names(other).await.is_empty());
    assert_eq!(
        plan.refusal(Method::GET, &format!("{other}/two"), Value::Null)
            .await,
        404
    );
    assert_eq!(
        plan.refusal(Method::DELETE, &format!("{other}/two"), Value::Null)
            .await,
        403
    );
}

#[tokio::test]
async fn events_are_kept_as_lines_and_reviews_are_positive() {
    let plan = plan().await;
    let about = json!({"kind": "ConfigMap", "namespace": "shop", "name": "one"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": about, "type": "Normal", "reason": "Seen", "message": "it is there"});
    plan.json(Method::POST, "/api/v1/namespaces/shop/events", event)
        .await;
    let outcome = Outcome::of(&plan.state.borrow());
    assert!(outcome.is_empty());
    assert_eq!(
        outcome.events["Normal Seen ConfigMap/shop/one: it is there"],
        1
    );
    let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = plan.json(Method::POST, review, json!({"spec": {}})).await;
    assert_eq!(review["status"]["allowed"], true);
    let token = "/api/v1/namespaces/a/serviceaccounts/b/token";
    let token = plan.json(Method::POST, token, json!({"spec": {}})).await;
    assert_eq!(token["status"]["token"], *plan.token);
}

#[tokio::test]
async fn a_change_removes_what_an_earlier_apply_has_set() {
    let mut applied = map("shop", "kept");
    applied["metadata"]["annotations"] = json!({LAST_APPLIED: map("shop", "kept").to_string()});
    let base = Base::Files(FileBase::new(served(), vec![applied]).expect("it is valid"));
    let kinds = base.kinds().await.expect("files have their kinds");
    let plan = Shared::new(base, kinds, options());
    let mut change = map("shop", "kept");
    change["data"] = json!({"a": "3"});
    plan.apply(&change).await.expect("it is applied");
    let kept = plan
        .json(Method::GET, &format!("{MAPS}/kept"), Value::Null)
        .await;
    assert_eq!(kept["data"], json!({"a": "3"}));
    let outcome = Outcome::of(&plan.state.borrow());
    assert!(outcome.changes[0].is_given && outcome.changes[0].writers.is_empty());
}

#[tokio::test]
async fn a_given_definition_serves_its_kind_with_its_defaults() {
    let spec =
        json!({"type": "object", "properties": {"tail": {"type": "string", "default": "long"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "mice.a.b"},
        "spec": {
            "group": "a.b", "scope": "Namespaced", "names": {"kind": "Mouse", "plural": "mice"},
            "versions": [{"name": "v1", "served": true, "schema": schema}],
        },
    });
    let mouse = json!({"apiVersion": "a.b/v1", "kind": "Mouse", "metadata": {"name": "jerry", "namespace": "shop"}, "spec": {}});
    let plan = plan().await;
    let unknown = plan
        .apply(&mouse)
        .await
        .expect_err("its kind is not served");
    assert!(
        unknown.message.contains("CustomResourceDefinition"),
        "{unknown}"
    );
    plan.apply(&definition).await.expect("it is valid");
    plan.apply(&mouse).await.expect("its kind is served");
    let mice = plan
        .json(Method::GET, "/apis/a.b/v1/mice", Value::Null)
        .await;
    assert_eq!(mice["items"][0]["spec"]["tail"], "long");
    let groups = plan.json(Method::GET, "/apis", Value::Null).await;
    assert!(groups.to_string().contains("\"mice\""));
    let defined = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mice.a.b";
    let defined = plan.json(Method::GET, defined, Value::Null).await;
    assert_eq!(defined["status"]["conditions"][1]["type"], "Established");
}

#[tokio::test]
async fn replicas_are_written_through_the_scale() {
    let plan = plan().await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
    let mut scale = plan.json(Method::GET, path, Value::Null).await;
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(
        plan.json(Method::PUT, path, scale).await["spec"]["replicas"],
        5
    );
    let web = plan
        .json(Method::GET, path.trim_end_matches("/scale"), Value::Null)
        .await;
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["generation"]),
        (&json!(5), &json!(1))
    );
}

#[test]
fn only_the_holder_of_the_token_is_served() {
    let with = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
        is_authorized(&headers, "secret")
    };
    assert!(with("Bearer secret"));
    assert!(!with("Bearer secre") && !with("Bearer ") && !with("secret"));
    assert!(!is_authorized(&HeaderMap::new(), ""));
}

/// A list without a limit of a large cluster is not held whole.
#[tokio::test]
async fn an_answer_of_the_cluster_that_is_too_large_is_refused_with_what_to_do() {
    let run = async {
        let below = ApiServer::start(served()).await.expect("a port is free");
        for number in 0..100 {
            let object = map("shop", &format!("map-{number}"));
            below.put(object).expect("its kind is served");
        }
        let config = kube::Config::new(below.url().parse().expect("a URL"));
        let cluster = ClusterBase::new(&config, false).expect("it needs no credentials");
        let base = Base::Cluster(cluster.at_most(16 << 10));
        let kinds = base.kinds().await.expect("the server answers");
        let plan = Shared::new(base, kinds, options());
        let Err(error) = plan.send(Method::GET, MAPS, Value::Null).await else {
            panic!("the list is passed on")
        };
        assert_eq!(error.status, 413);
        assert!(error.message.contains("page by page"), "{error}");
        let note = plan.state.borrow().notes.keys().next().cloned();
        let note = note.expect("the plan says that a list is missing");
        assert!(note.starts_with("can't list v1/ConfigMap"), "{note}");
        let one = format!("{MAPS}/map-7");
        let one = plan.json(Method::GET, &one, Value::Null).await;
        assert_eq!(one["metadata"]["name"], "map-7");
    };
    LocalSet::new().run_until(run).await;
}

/// The plan's own writes never reach the cluster below it.
#[tokio::test]
async fn a_cluster_below_a_plan_gets_no_write() {
    let run = async {
        let below = ApiServer::start(served()).await.expect("a port is free");
        for object in [map("shop", "one"), deployment()] {
            below.put(object).expect("its kind is served");
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        below.put(namespace).expect("its kind is served");
        let version = below.version();
        let config = kube::Config::new(below.url().parse().expect("a URL"));
        let cluster = ClusterBase::new(&config, false).expect("it needs no credentials");
        let base = Base::Cluster(cluster);
        let kinds = base.kinds().await.expect("the server answers");
        let plan = Shared::new(base, kinds, options());

        assert_eq!(plan.names(MAPS).await, ["one"]);
        plan.json(
            Method::PATCH,
            &format!("{MAPS}/one"),
            json!({"data": {"a": "9"}}),
        )
        .await;
        plan.json(Method::POST, MAPS, map("shop", "new")).await;
        plan.json(
            Method::DELETE,
            "/apis/apps/v1/namespaces/shop/deployments/web",
            Value::Null,
        )
        .await;
        assert_eq!(plan.names(MAPS).await, ["new", "one"]);
        assert_eq!(plan.outcome().len(), 3);
        let missing = "/api/v1/namespaces/nowhere/configmaps";
        assert_eq!(
            plan.refusal(Method::POST, missing, map("nowhere", "new"))
                .await,
            404
        );

        assert_eq!(below.version(), version);
        assert!(below.writes().is_empty());
    };
    LocalSet::new().run_until(run).await;
}
