//! Canaries on a host with real guests and an API server in memory.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_fakes::guest::probe;
use flyball_manager::{
    AdminHandle, CanaryState, CanaryStatus, DropIns, Manager, PluginState, RequestError,
};
use flyball_policy::grant::Grants;
use flyball_policy::{Calls, Interval, Policy, Rollout, Share, Step, Steps, Thresholds};
use flyball_serving::Metrics;
use flyball_testserver::api::{ApiServer, Served};
use flyball_types::Kind;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::{JoinHandle, LocalSet};
use tokio_util::sync::CancellationToken;

use self::support::options;

/// The time limit of each wait. Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(120);
const OBJECTS: usize = 60;
const PROBE: &str = "probe";

/// A plugin that watches ConfigMaps.
fn guest(version: &str, more: &str, traps: bool) -> Vec<u8> {
    let description = format!(
        r#"{{"format":1,"name":"{PROBE}","version":"{version}","queues":[{{"name":"main"}}],"watches":[{{"kind":"v1/ConfigMap","fields":["metadata.labels"],"map":[{{"to":"itself"}}]}}]{more}}}"#
    );
    probe(&description, traps)
}

fn rollout(steps: &[u32], interval: Duration) -> Rollout {
    let steps = steps.iter().map(|share| Step::Keys(Share::percent(*share)));
    Rollout {
        steps: Steps(steps.collect()),
        interval: Interval(interval),
        calls: Calls(1),
        // The API server and the host share a busy machine.
        thresholds: Thresholds {
            p99: 1000.0,
            ..Thresholds::default()
        },
    }
}

/// The files of a host, and its API server.
struct World {
    home: TempDir,
    server: ApiServer,
}

/// A host that runs.
struct Host {
    admin: AdminHandle,
    metrics: Metrics,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        let served = |kind: &str, plural: &str| Served {
            kind: Kind::new("", "v1", kind),
            plural: plural.into(),
            namespaced: true,
        };
        let kinds = vec![
            served("ConfigMap", "configmaps"),
            served("Event", "events"),
            served("ServiceAccount", "serviceaccounts"),
        ];
        let server = ApiServer::start(kinds).await.expect("a port");
        let metadata = json!({"namespace": "flyball-system", "name": PROBE});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        server.put(account).expect("it is valid");
        for number in 0..OBJECTS {
            let labels = json!({"team": if number % 2 == 0 { "x" } else { "y" }});
            let metadata =
                json!({"namespace": "demo", "name": format!("a-{number}"), "labels": labels});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            server.put(object).expect("it is valid");
        }
        let world = Self {
            home: tempfile::tempdir().expect("a folder"),
            server,
        };
        std::fs::create_dir(world.path("plugins")).expect("a folder");
        std::fs::write(world.path("plugins/probe.wasm"), guest("1", "", false)).expect("a file");
        world.set_policy("");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a candidate, and returns its path.
    fn candidate(&self, name: &str, wasm: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, wasm).expect("a file");
        path
    }

    /// Writes a policy that grants the probe what it needs.
    fn set_policy(&self, more: &str) {
        let text = format!(
            "[[plugins.probe.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]\n{more}"
        );
        std::fs::write(self.path("policy.toml"), text).expect("a file");
    }

    async fn start(&self) -> Host {
        let policy = self.path("policy.toml");
        let metrics = Metrics::new();
        let grants = Grants {
            plugins: Policy::read(&policy).expect("it is valid"),
            ..Grants::default()
        };
        let options = options(&self.server.url(), &metrics, 16);
        let drop_ins = DropIns {
            folders: vec![self.path("plugins")],
            policy: Some(policy),
            versions: Some(self.path("state")),
            grants,
            enabled: Box::new(|_| true),
        };
        let manager = Manager::load(options, drop_ins, &[]).await;
        let manager = manager.expect("the manager loads");
        let (admin, shutdown) = (manager.admin(), CancellationToken::new());
        let run = manager.run(shutdown.clone());
        let running = tokio::spawn(async move { run.await.expect("no lease can be lost") });
        let host = Host {
            admin,
            metrics,
            shutdown,
            running,
        };
        host.until_runs("1").await;
        host
    }
}

impl Host {
    async fn stop(self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(DEADLINE, self.running).await;
        ended.expect("it ends in time").expect("no panic");
    }

    /// Waits until this version runs.
    async fn until_runs(&self, version: &str) {
        let runs = async {
            loop {
                let status = self.admin.status().await.expect("the manager runs");
                let mut plugins = status.iter();
                let runs = plugins.any(|plugin| {
                    plugin.version == version && plugin.state == PluginState::Running
                });
                if runs {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ran = tokio::time::timeout(DEADLINE, runs).await;
        ran.unwrap_or_else(|_| panic!("the version {version} does not run"));
    }

    /// Waits until the canary is as wanted.
    async fn until(&self, what: &str, is_so: impl Fn(&CanaryStatus) -> bool) -> CanaryStatus {
        let asking = async {
            loop {
                if let Ok(status) = self.admin.canary(PROBE).await
                    && is_so(&status)
                {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(DEADLINE, asking).await {
            Ok(status) => status,
            Err(_) => panic!("{what}: not in time: {:?}", self.admin.canary(PROBE).await),
        }
    }

    /// The keys by the version that reconciled them, in the last reconciles.
    async fn keys(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for done in self.admin.recent().await.expect("the manager runs") {
            keys.entry(done.digest).or_default().insert(done.key);
        }
        keys
    }

    /// The versions that reconciled each key, in order, without repetitions.
    async fn versions(&self) -> BTreeMap<String, Vec<String>> {
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for done in self.admin.recent().await.expect("the manager runs") {
            let of_key = versions.entry(done.key).or_default();
            if of_key.last() != Some(&done.digest) {
                of_key.push(done.digest);
            }
        }
        versions
    }
}

/// Runs a test beside an API server, which stays on its thread.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

fn digest(wasm: &[u8]) -> String {
    flyball_plugin::digest(wasm)
}

#[test]
fn a_canary_that_does_well_takes_all_keys_and_then_the_place_of_the_file() {
    run(async {
        let world = World::new().await;
        let host = world.start().await;
        let new = guest("2", "", false);
        let file = world.candidate("new.wasm", &new);
        let rollout = rollout(&[20, 50], Duration::from_secs(1));
        let started = host.admin.start_canary(PROBE, file, rollout).await;
        let started = started.expect("it starts");
        assert!(started.contains("reconciles 20% of the keys"), "{started}");
        host.until_runs("2").await;
        let status = host
            .until("it is promoted", |status| {
                status.state == CanaryState::Promoted
            })
            .await;
        assert_eq!(status.candidate.digest, digest(&new));
        let installed = std::fs::read(world.path("plugins/probe.wasm")).expect("it is there");
        assert_eq!(digest(&installed), digest(&new));
        for (key, versions) in host.versions().await {
            // Each key has gone from the old version to the new one, once.
            assert!(versions.len() <= 2, "{key}: {versions:?}");
        }
        let text = host.metrics.render();
        for line in [
            "flyball_plugin_canary_ends_total{plugin=\"probe\",result=\"promoted\"} 1",
            "flyball_plugin_canary_step{plugin=\"probe\"} -1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        host.stop().await;
    });
}

#[test]
fn a_canary_that_traps_goes_back_and_says_why() {
    run(async {
        let world = World::new().await;
        let host = world.start().await;
        let file = world.candidate("new.wasm", &guest("2", "", true));
        let rollout = rollout(&[30, 60], Duration::from_secs(3600));
        let started = host.admin.start_canary(PROBE, file, rollout).await;
        started.expect("it starts");
        let status = host
            .until("it goes back", |status| {
                status.state == CanaryState::WentBack
            })
            .await;
        let reason = status.reason.clone().unwrap_or_default();
        assert!(
            reason.contains("trapped") && reason.contains("demo/a-"),
            "{reason}"
        );
        assert_eq!((status.step, status.steps.len()), (0, 2));
        let text = host.metrics.render();
        let line = "flyball_plugin_canary_ends_total{plugin=\"probe\",result=\"went_back\"} 1";
        assert!(text.contains(line), "{text}");
        // The version that runs reconciles the keys again that the candidate failed on.
        let old = digest(&guest("1", "", false));
        let healed = async {
            loop {
                let versions = host.versions().await;
                let last = |versions: &Vec<String>| versions.last() == Some(&old);
                if versions.len() == OBJECTS && versions.values().all(last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let healed = tokio::time::timeout(DEADLINE, healed).await;
        healed.expect("all keys are the old version's");
        host.stop().await;
    });
}

#[test]
fn a_host_that_starts_again_goes_on_with_the_step_and_the_same_keys() {
    run(async {
        let world = World::new().await;
        let host = world.start().await;
        let new = guest("2", "", false);
        let file = world.candidate("new.wasm", &new);
        let mut rollout = rollout(&[70], Duration::from_secs(3600));
        let selector = "team=x".parse().expect("a selector");
        rollout.steps.0.insert(0, Step::Selector { selector });
        let started = host.admin.start_canary(PROBE, file.clone(), rollout).await;
        started.expect("it starts");
        host.until("it reconciles half of the objects", |status| {
            status.candidate_did.counts.calls as usize >= OBJECTS / 2
        })
        .await;
        let before = host.keys().await[&digest(&new)].clone();
        assert_eq!(before.len(), OBJECTS / 2, "those with the label");
        // What was counted is stored every few seconds.
        let state = world.path("state/canaries.json");
        let stored = async {
            let calls = |text: &str| -> u64 {
                let stored: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
                stored[PROBE]["candidateDid"]["calls"].as_u64().unwrap_or(0)
            };
            while calls(&std::fs::read_to_string(&state).unwrap_or_default()) == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let stored = tokio::time::timeout(DEADLINE, stored).await;
        stored.expect("it is stored");
        host.stop().await;
        // The host keeps a copy of the candidate.
        std::fs::remove_file(&file).expect("it is there");

        let host = world.start().await;
        let status = host
            .until("it goes on", |status| {
                status.candidate_did.counts.calls > 30
            })
            .await;
        assert_eq!((status.state, status.step), (CanaryState::Running, 1));
        assert!(status.elapsed_ms > 0);
        let after = host.keys().await;
        assert!(after[&digest(&new)].is_subset(&before), "{after:?}");
        let old = &after[&digest(&guest("1", "", false))];
        assert!(old.is_disjoint(&before), "{after:?}");

        let aborted = host.admin.abort_canary(PROBE).await;
        aborted.expect("it ends");
        let status = host
            .until("it has ended", |status| {
                status.state == CanaryState::WentBack
            })
            .await;
        assert_eq!(status.reason.as_deref(), Some("an operator ended it"));
        host.stop().await;
    });
}

#[test]
fn a_candidate_that_the_policy_names_has_all_keys_in_the_end_until_the_policy_changes() {
    run(async {
        let world = World::new().await;
        let new = guest("2", "", false);
        world.candidate("new.wasm", &new);
        let canary = "[plugins.probe.canary]\nfile = \"new.wasm\"\nsteps = [\"40%\"]\ninterval = \"1s\"\ncalls = 1\n\
                      thresholds = { p99 = 1000.0 }\n[plugins.probe.shadow]\nfile = \"new.wasm\"\n";
        world.set_policy(canary);
        let host = world.start().await;
        let status = host
            .until("it is promoted", |status| {
                status.state == CanaryState::Promoted
            })
            .await;
        assert!(status.by_policy && status.waits_for.is_none(), "{status:?}");
        let shadow = host.admin.shadow(PROBE).await;
        assert_eq!(shadow.expect("by the policy").file, world.path("new.wasm"));
        // The operator's files are the operator's.
        host.until_runs("1").await;
        let refused = host
            .admin
            .start_canary(PROBE, world.path("new.wasm"), Rollout::default())
            .await;
        assert!(
            matches!(refused, Err(RequestError::Refused(_))),
            "{refused:?}"
        );
        world.set_policy("");
        let status = host
            .until("it goes back", |status| {
                status.state == CanaryState::WentBack
            })
            .await;
        let reason = status.reason.unwrap_or_default();
        assert!(reason.contains("the policy does not name it"), "{reason}");
        host.stop().await;
    });
}

#[test]
fn what_can_be_no_candidate_is_refused_with_the_reason() {
    run(async {
        let world = World::new().await;
        let host = world.start().await;
        let wider = r#","permissions":[{"kind":"v1/Secret","verbs":["create"]}]"#;
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for (file, expected) in [
            (
                world.candidate("wider.wasm", &guest("2", wider, false)),
                "the candidate describes itself otherwise",
            ),
            (
                world.candidate("same.wasm", &guest("1", "", false)),
                "is the version that runs already",
            ),
            (other, "can't load the plugin"),
        ] {
            let started = host
                .admin
                .start_canary(PROBE, file.clone(), Rollout::default())
                .await;
            let error = started.expect_err("it is refused").to_string();
            assert!(error.contains(expected), "{}: {error}", file.display());
        }
        let none = host.admin.canary(PROBE).await.expect_err("there is none");
        assert!(
            none.to_string().contains("flyball canary probe FILE"),
            "{none}"
        );
        host.stop().await;
    });
}
