//! Requests as a host sends them.

use flyball_types::Kind;
use http::Method;

use super::*;

fn served(kind: &str, plural: &str, namespaced: bool) -> Served {
    Served {
        kind: kind.parse::<Kind>().expect("a kind"),
        plural: plural.to_owned(),
        namespaced,
    }
}

fn server() -> State {
    let cluster = Cluster::new();
    State {
        watches: Watches::new(cluster.next_version()),
        cluster,
        kinds: vec![
            served("v1/Namespace", "namespaces", false),
            served("v1/ConfigMap", "configmaps", true),
            served("a.b/v1/Mouse", "mice", true),
            served(
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
        ],
        warnings: Vec::new(),
    }
}

const MAPS: &str = "/api/v1/namespaces/team/configmaps";

impl State {
    fn send(&mut self, method: Method, path: &str, body: &Value) -> Result<Reply, ApiError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        self.reply(&Call {
            method: &method,
            path,
            query,
            agent: "host",
            accept: "",
            content_type: "application/merge-patch+json",
            body: &body,
        })
    }

    /// Sends a request that succeeds. Returns the response.
    fn json(&mut self, method: Method, path: &str, body: &Value) -> Value {
        match self.send(method, path, body) {
            Ok(Reply::Json(200..300, value)) => value,
            Ok(Reply::Json(status, value)) => panic!("{path}: {status} {value}"),
            Ok(Reply::Events(_)) => panic!("{path} is a watch"),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Sends a request that fails. Returns the reason.
    fn refusal(&mut self, method: Method, path: &str, body: &Value) -> String {
        match self.send(method, path, body) {
            Err(error) => error.reason,
            Ok(_) => panic!("{path} succeeds"),
        }
    }

    fn watch_map(&mut self, query: &str) -> Watched {
        match self.send(
            Method::GET,
            &format!("{MAPS}?watch=true&{query}"),
            &Value::Null,
        ) {
            Ok(Reply::Events(events)) => Watched(events),
            _ => panic!("{query} is no watch"),
        }
    }

    fn map(&mut self, name: &str, labels: &Value) -> Value {
        let metadata = json!({"name": name, "labels": labels});
        self.json(
            Method::POST,
            MAPS,
            &json!({"metadata": metadata, "data": {"a": "1"}}),
        )
    }
}

struct Watched(UnboundedReceiver<Bytes>);

impl Watched {
    /// The events so far: `TYPE name`, and the version of each.
    fn events(&mut self) -> Vec<(String, u64)> {
        let mut events = Vec::new();
        while let Ok(line) = self.0.try_recv() {
            let event: Value = serde_json::from_slice(&line).expect("a line of JSON");
            let metadata = &event["object"]["metadata"];
            let version = metadata["resourceVersion"].as_str().expect("a version");
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let shown = format!("{} {}", text(&event["type"]), text(&metadata["name"]));
            events.push((shown, version.parse().expect("a number")));
        }
        assert!(
            events.is_sorted_by_key(|(_, version)| *version),
            "{events:?}"
        );
        events
    }

    fn shown(&mut self) -> Vec<String> {
        self.events().into_iter().map(|(shown, _)| shown).collect()
    }
}

#[test]
fn a_watch_sees_each_change_once_with_growing_versions() {
    let mut server = server();
    server.map("first", &json!({}));
    let mut watch = server.watch_map("sendInitialEvents=true");
    assert_eq!(watch.shown(), ["ADDED first", "BOOKMARK -"]);
    server.map("second", &json!({}));
    let first = format!("{MAPS}/first");
    server.json(Method::PATCH, &first, &json!({"data": {"a": "2"}}));
    // A write without a change is no event.
    server.json(Method::PATCH, &first, &json!({"data": {"a": "2"}}));
    server.json(Method::DELETE, &first, &Value::Null);
    let events = watch.events();
    let shown: Vec<&str> = events.iter().map(|(shown, _)| &**shown).collect();
    assert_eq!(shown, ["ADDED second", "MODIFIED first", "DELETED first"]);

    // One that resumes sees the rest, and the version of a list is where a watch of it begins.
    let mut resumed = server.watch_map(&format!("resourceVersion={}", events[0].1));
    assert_eq!(resumed.shown(), ["MODIFIED first", "DELETED first"]);
    let list = server.json(Method::GET, MAPS, &Value::Null);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    assert_eq!(version.parse(), Ok(events[2].1));
    let mut since = server.watch_map(&format!("resourceVersion={version}"));
    assert_eq!(since.shown(), [] as [&str; 0]);
    // One that takes bookmarks learns at once which version it has reached.
    for (version, expected) in [
        (events[1].1, &["DELETED first", "BOOKMARK -"][..]),
        (events[2].1, &[]),
    ] {
        let query = format!("resourceVersion={version}&allowWatchBookmarks=true");
        assert_eq!(server.watch_map(&query).shown(), expected);
    }
}

#[test]
fn an_object_that_leaves_a_selection_is_deleted_for_its_watch() {
    let mut server = server();
    let mut watch = server.watch_map("labelSelector=app%3Dweb&allowWatchBookmarks=true");
    server.map("other", &json!({}));
    server.map("web", &json!({"app": "web"}));
    let body = json!({"metadata": {"labels": {"app": "db"}}});
    server.json(Method::PATCH, &format!("{MAPS}/web"), &body);
    let expected = [
        "BOOKMARK -",
        "ADDED web",
        "BOOKMARK -",
        "DELETED web",
        "BOOKMARK -",
    ];
    assert_eq!(watch.shown(), expected);
}

#[test]
fn an_update_replaces_the_object_of_its_version_without_the_status() {
    let mut server = server();
    let mice = "/apis/a.b/v1/namespaces/team/mice";
    let body = json!({"metadata": {"name": "jerry"}, "spec": {"a": 1, "b": 2}});
    let created = server.json(Method::POST, mice, &body);
    assert_eq!(created["metadata"]["namespace"], "team");
    let jerry = format!("{mice}/jerry");
    let mut changed = created.clone();
    changed["spec"] = json!({"a": 1, "c": 3});
    changed["status"] = json!({"ignored": true});
    let updated = server.json(Method::PUT, &jerry, &changed);
    assert_eq!(
        (&updated["spec"], &updated["status"]),
        (&changed["spec"], &Value::Null)
    );
    assert_eq!(server.refusal(Method::PUT, &jerry, &changed), "Conflict");
    let mut status = updated.clone();
    status["status"] = json!({"ready": true});
    status["spec"] = json!({"ignored": true});
    let written = server.json(Method::PUT, &format!("{jerry}/status"), &status);
    assert_eq!(
        (&written["spec"], &written["status"]),
        (&changed["spec"], &status["status"])
    );
    assert_eq!(server.json(Method::GET, &jerry, &Value::Null), written);
}

/// A host that doesn't know of which kind an answer is can't show the plugin its own write.
#[test]
fn the_answer_to_a_write_names_the_kind_of_its_object() {
    let mut server = server();
    let mice = "/apis/a.b/v1/namespaces/team/mice";
    let jerry = format!("{mice}/jerry");
    let body = json!({"metadata": {"name": "jerry"}, "spec": {"a": 1}});
    let created = server.json(Method::POST, mice, &body);
    let mut status = created.clone();
    status["status"] = json!({"ready": true});
    let status = server.json(Method::PUT, &format!("{jerry}/status"), &status);
    let patch = json!({"spec": {"a": 2}, "metadata": {"finalizers": ["a/b"]}});
    let patched = server.json(Method::PATCH, &jerry, &patch);
    let deleting = server.json(Method::DELETE, &jerry, &Value::Null);
    let last = json!({"metadata": {"finalizers": null}});
    let last = server.json(Method::PATCH, &jerry, &last);
    for answer in [created, status, patched, deleting, last] {
        let named = (&answer["apiVersion"], &answer["kind"]);
        assert_eq!(named, (&json!("a.b/v1"), &json!("Mouse")), "{answer}");
    }
}

#[test]
fn the_object_that_loses_its_last_finalizer_is_returned_and_gone() {
    let mut server = server();
    let body = json!({"metadata": {"name": "held", "finalizers": ["a/b"]}});
    server.json(Method::POST, MAPS, &body);
    let held = format!("{MAPS}/held");
    let deleting = server.json(Method::DELETE, &held, &Value::Null);
    assert!(
        deleting["metadata"]["deletionTimestamp"].is_string(),
        "{deleting}"
    );
    let body = json!({"metadata": {"finalizers": null}});
    let last = server.json(Method::PATCH, &held, &body);
    assert_eq!(last["metadata"]["name"], "held");
    assert_eq!(server.refusal(Method::GET, &held, &Value::Null), "NotFound");
}

#[test]
fn discovery_has_the_kinds_and_unknown_paths_are_not_found() {
    let mut server = server();
    let core = server.json(Method::GET, "/api", &Value::Null);
    let resources = &core["items"][0]["versions"][0]["resources"];
    assert_eq!(resources[0]["resource"], "namespaces");
    assert_eq!(resources[1]["scope"], "Namespaced");
    let groups = server.json(Method::GET, "/apis", &Value::Null);
    assert_eq!(groups["items"][0]["metadata"]["name"], "a.b");
    for path in [
        "/apis/a.b/v2/mice",
        "/apis/a.b/v1/cats",
        "/metrics",
        "/api/v1/namespaces/x/configmaps/y/scale",
    ] {
        assert_eq!(
            server.refusal(Method::GET, path, &Value::Null),
            "NotFound",
            "{path}"
        );
    }
}

#[test]
fn a_path_names_an_object_a_list_or_a_subresource() {
    let kinds = server().kinds;
    let parsed = |path| {
        let target = request::target(path, &kinds)?;
        Some(
            [
                target.kind,
                target.namespace,
                target.name,
                target.subresource,
            ]
            .join(" "),
        )
    };
    for (path, expected) in [
        ("/api/v1/namespaces", "v1/Namespace   "),
        ("/api/v1/namespaces/a", "v1/Namespace  a "),
        ("/api/v1/namespaces/a/status", "v1/Namespace  a status"),
        ("/api/v1/configmaps", "v1/ConfigMap   "),
        ("/api/v1/namespaces/a/configmaps", "v1/ConfigMap a  "),
        (
            "/apis/a.b/v1/namespaces/a/mice/x%3Ay/status",
            "a.b/v1/Mouse a x:y status",
        ),
    ] {
        assert_eq!(parsed(path).as_deref(), Some(expected), "{path}");
    }
}

/// A definition of mice, with a tail alone.
fn mouse() -> Value {
    let spec = json!({"type": "object", "properties": {"tail": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version = json!({"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "mice.a.b"},
        "spec": {"group": "a.b", "names": {"kind": "Mouse", "plural": "mice"}, "versions": [version]},
    })
}

#[test]
fn a_definition_prunes_writes_with_a_warning_and_refuses_objects_that_do_not_fit() {
    const MICE: &str = "/apis/a.b/v1/namespaces/team/mice";
    let mut server = server();
    server.put(mouse()).expect("it is served");
    let object = json!({"metadata": {"name": "jerry"}, "spec": {"tail": "long", "tale": "short"}});
    let created = server.json(Method::POST, MICE, &object);
    assert_eq!(created["spec"], json!({"tail": "long"}));
    assert_eq!(server.warnings, ["unknown field \"spec.tale\""]);
    let wrong = json!({"spec": {"tail": 1}});
    let refused = server.refusal(Method::PATCH, &format!("{MICE}/jerry"), &wrong);
    assert_eq!((&*refused, server.warnings.len()), ("Invalid", 0));
    let strict = format!("{MICE}?fieldValidation=Strict");
    let other = json!({"metadata": {"name": "tom"}, "spec": {"tale": "short"}});
    assert_eq!(server.refusal(Method::POST, &strict, &other), "BadRequest");
    let given = json!({
        "apiVersion": "a.b/v1", "kind": "Mouse", "metadata": {"name": "itchy"}, "spec": {"tale": "no"},
    });
    let mistake = server.put(given).expect_err("it has an unknown field");
    assert!(mistake.contains("unknown field \"spec.tale\""), "{mistake}");
}
