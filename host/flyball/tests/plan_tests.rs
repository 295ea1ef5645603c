//! `flyball plan` over files: built-in controllers and a built component, without a cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

const WORKLOADS: &str = "deployment-controller,replicaset-controller";

/// The component of a guest that `cargo xtask build` always builds.
fn guest(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root
        .join(target)
        .join(format!("guests/components/{name}.wasm"));
    assert!(
        path.is_file(),
        "{name} is missing: build it with `cargo xtask build`"
    );
    path
}

/// A plan over files in a folder of its own.
struct Plan {
    folder: TempDir,
    args: Vec<String>,
}

impl Plan {
    fn over(objects: &[Value]) -> Self {
        let plan = Self {
            folder: tempfile::tempdir().expect("a folder"),
            args: Vec::new(),
        };
        plan.with("--from", "objects.json", objects)
    }

    /// Adds a flag with a file of these objects.
    fn with(self, flag: &str, file: &str, objects: &[Value]) -> Self {
        let path = self.folder.path().join(file);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&path, list.to_string()).expect("it is written");
        self.arg(flag).arg(&path.display().to_string())
    }

    fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    fn output(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        let output = command.arg("plan").args(&self.args).output();
        output.expect("the binary runs")
    }

    /// Returns what a plan prints that ends with this code.
    fn ends_with(&self, code: i32) -> String {
        let output = self.output();
        let error = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(code), "{printed}{error}");
        printed + &error
    }

    /// Returns the changes of a plan that is complete and has some.
    fn json(self) -> Value {
        let printed = self.arg("--output=json").ends_with(1);
        serde_json::from_str(&printed).expect("JSON")
    }
}

/// A Deployment as an API server has stored it.
fn deployment(image: &str) -> Value {
    let container = json!({
        "name": "web", "image": image, "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    let pod = json!({
        "containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30,
    });
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "web-uid", "resourceVersion": "7", "generation": 1},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy,
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    })
}

/// The Deployment as a user writes it, without what the server sets.
fn manifest(image: &str) -> Value {
    let mut object = deployment(image);
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for name in ["uid", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    object
}

fn counts(plan: &Value, action: &str, kind: &str) -> usize {
    let changes = plan["changes"].as_array().expect("changes").iter();
    changes
        .filter(|change| change["action"] == action && change["kind"] == kind)
        .count()
}

/// The objects at the end of a plan.
fn after(plan: &Value) -> Vec<Value> {
    let changes = plan["changes"].as_array().expect("changes").iter();
    let after = changes.map(|change| change["after"].clone());
    after.filter(|object| !object.is_null()).collect()
}

#[test]
fn a_deployment_leads_to_pods_and_then_to_nothing_and_its_change_replaces_them() {
    let plan = |objects: &[Value]| Plan::over(objects).arg("--controllers").arg(WORKLOADS);
    let created = plan(&[deployment("web:1")]).json();
    assert_eq!(
        counts(&created, "created", "apps/v1/ReplicaSet"),
        1,
        "{created}"
    );
    assert_eq!(counts(&created, "created", "v1/Pod"), 3, "{created}");
    let writers = &created["changes"]
        .as_array()
        .expect("changes")
        .last()
        .expect("a pod")["writers"];
    assert_eq!(*writers, json!(["replicaset-controller"]), "{created}");

    // What a plan has ended with needs no further work.
    let settled = after(&created);
    assert!(plan(&settled).ends_with(0).contains("nothing would change"));

    let changed = plan(&settled)
        .with("--change", "change.json", &[manifest("web:2")])
        .json();
    assert_eq!(
        counts(&changed, "created", "apps/v1/ReplicaSet"),
        1,
        "{changed}"
    );
    assert_eq!(counts(&changed, "deleted", "v1/Pod"), 3, "{changed}");
    assert_eq!(counts(&changed, "created", "v1/Pod"), 3, "{changed}");
    assert_eq!(changed["summary"]["restartedPods"], 3, "{changed}");
    let images = after(&changed)
        .into_iter()
        .filter(|object| object["kind"] == "Pod");
    for pod in images {
        assert_eq!(pod["spec"]["containers"][0]["image"], "web:2");
    }
}

#[test]
fn a_rollout_stops_where_it_waits_for_pods_that_stay_pending() {
    let controllers = |plan: Plan| plan.arg("--controllers").arg(WORKLOADS);
    let settled = after(&controllers(Plan::over(&[deployment("web:1")])).json());
    let plan =
        controllers(Plan::over(&settled)).with("--change", "change.json", &[manifest("web:2")]);
    let changed = plan.arg("--pods=stay").json();
    // One more than three, of which all have to be ready.
    assert_eq!(counts(&changed, "created", "v1/Pod"), 1, "{changed}");
    assert_eq!(counts(&changed, "deleted", "v1/Pod"), 0, "{changed}");
}

#[test]
fn what_has_lost_its_owner_is_deleted() {
    let controllers = |plan: Plan| {
        plan.arg("--controllers")
            .arg(format!("{WORKLOADS},garbage-collector-controller").as_str())
    };
    let settled = after(&controllers(Plan::over(&[deployment("web:1")])).json());
    let deleted = controllers(Plan::over(&settled))
        .with("--delete", "delete.json", &[deployment("web:1")])
        .json();
    for (kind, expected) in [
        ("apps/v1/Deployment", 1),
        ("apps/v1/ReplicaSet", 1),
        ("v1/Pod", 3),
    ] {
        assert_eq!(
            counts(&deleted, "deleted", kind),
            expected,
            "{kind}: {deleted}"
        );
    }
    assert_eq!(deleted["summary"]["deleted"], 5, "{deleted}");
}

/// A Namespace that asks the greeter for a greeting, or no longer does, and its greeting.
fn greeted(annotation: Option<&str>) -> [Value; 2] {
    let mut namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    if let Some(text) = annotation {
        namespace["metadata"]["annotations"] = json!({"greeter.flyball.dev/greeting": text});
    }
    let metadata = json!({"name": "greeting", "namespace": "team"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "hello"}});
    [namespace, map]
}

fn greeter(objects: &[Value]) -> Plan {
    let greeter = guest("greeter").display().to_string();
    Plan::over(objects).arg(&greeter).arg("--controllers=")
}

#[test]
fn a_plugin_is_planned_for_by_its_file() {
    assert!(
        greeter(&greeted(Some("hello")))
            .ends_with(0)
            .contains("nothing would change")
    );
    let changed = greeter(&greeted(Some("good evening"))).ends_with(1);
    assert!(
        changed.contains("\n-  greeting: hello\n+  greeting: good evening\n"),
        "{changed}"
    );
    assert!(
        changed.contains("change  v1/ConfigMap team/greeting (by greeter)"),
        "{changed}"
    );
    let deleted = greeter(&greeted(None)).ends_with(1);
    assert!(
        deleted.contains("DELETE  v1/ConfigMap team/greeting (by greeter)"),
        "{deleted}"
    );
}

#[test]
fn a_plan_that_reaches_its_limit_is_not_complete() {
    let many = (0..5).flat_map(|number| {
        let [mut namespace, _] = greeted(Some("hello"));
        namespace["metadata"]["name"] = format!("team-{number}").into();
        [namespace]
    });
    let plan = greeter(&many.collect::<Vec<_>>()).arg("--max-writes=2");
    let printed = plan.ends_with(2);
    assert!(printed.contains("2 created"), "{printed}");
    assert!(
        printed.contains("has reached its limit of 2 writes"),
        "{printed}"
    );
}

#[test]
fn a_plan_that_can_not_be_made_says_why() {
    let unknown = Plan::over(&[
        json!({"apiVersion": "a.b/v1", "kind": "Mouse", "metadata": {"namespace": "a"}}),
    ]);
    assert!(
        unknown
            .arg("--controllers=job")
            .ends_with(2)
            .contains("has no apiVersion, kind or metadata.name")
    );
    let missing = Plan::over(&[deployment("web:1")]).arg("no-such.wasm");
    assert!(missing.ends_with(2).contains("no-such.wasm"));
    // 1 would say that something changes.
    let wrong = Plan::over(&[deployment("web:1")]).arg("--no-such-flag");
    assert!(wrong.ends_with(2).contains("--no-such-flag"));
    let nowhere = Plan {
        folder: tempfile::tempdir().expect("a folder"),
        args: ["--controllers=job", "--kubeconfig=/no/such/file"]
            .map(str::to_owned)
            .to_vec(),
    };
    assert!(
        nowhere
            .ends_with(2)
            .contains("the kubeconfig /no/such/file does not exist")
    );
}
