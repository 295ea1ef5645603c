//! The conformance test for guests: one suite for the guest of each language in `tests/guests`. Its README lists the
//! faults that the guests have on request.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Example, Space, finish, guest, is_full, last_lines, log_of, replace, stamped, until,
    until_within,
};
use flyball_controlplane::{Process, skip};
use futures::future::join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::greeters::{Greetings, text_of};

/// The guest of a language. The plugin is named as the greeter that it contains.
struct Language {
    /// The name of the folder in `tests/guests`, and the end of the names of the component and the greeter.
    name: &'static str,
    /// The source with the bug, in that folder.
    source: &'static str,
    /// The language's own error message for the bug.
    says: &'static str,
    /// The notation of the source in a stack trace.
    place: &'static str,
    /// The function that loops without an end, as the log names it; none if the component has no names.
    looping: Option<&'static str>,
}

const LANGUAGES: [Language; 6] = [
    language(
        "rust",
        "src/lib.rs",
        "called `Option::unwrap()` on a `None` value",
        "src/lib.rs",
    ),
    Language {
        looping: Some("main.forever"),
        ..language("go", "main.go", "nil pointer dereference", "main.go")
    },
    language("typescript", "src/main.ts", "TypeError", "src/main.ts"),
    language("javascript", "src/main.js", "TypeError", "src/main.js"),
    language("python", "faulty.py", "TypeError", "faulty.py"),
    language(
        "c",
        "src/main.c",
        "NULL or misaligned pointer",
        "src/main.c",
    ),
];

const fn language(
    name: &'static str,
    source: &'static str,
    says: &'static str,
    place: &'static str,
) -> Language {
    Language {
        name,
        source,
        says,
        place,
        looping: None,
    }
}

const HOST: &str = "host";
/// The most bytes of data that a ConfigMap may have.
const MIB: usize = 1 << 20;
/// Greetings that are created while the plugin is reloaded.
const MANY: usize = 100;
const MANY_IN_FULL: usize = 1_000;
/// The number of objects that are created at once.
const AT_ONCE: usize = 20;

/// The time that the host may take to compile a component.
const COMPILED_WITHIN: Duration = Duration::from_secs(300);

#[tokio::test]
async fn the_guest_of_each_language_conforms() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let mut hosts = Vec::new();
    let result = all_conform(&cluster, &mut hosts).await;
    finish(cluster, hosts, result).await
}

/// Runs all guests side by side in one host. Each is granted a namespace of its own.
async fn all_conform(cluster: &Cluster, hosts: &mut Vec<Process>) -> Result<()> {
    cluster.define_greetings().await?;
    let plugins = cluster.folder_with("plugins", &[])?;
    let policies = cluster.folder_with("policies", &[])?;
    let mut suites = Vec::new();
    for language in &LANGUAGES {
        let Ok(component) = guest(&format!("conformance-{}", language.name)) else {
            let test = format!("the_guest_of_each_language_conforms ({})", language.name);
            skip(&test, "a tool that builds it is missing")?;
            continue;
        };
        let plugin = format!("greeter-{}", language.name);
        let space = Space::create(cluster.client.clone(), &format!("of-{plugin}")).await?;
        let suite = Suite {
            cluster,
            language,
            greetings: Greetings::of(space),
            file: plugins.join(format!("{plugin}.wasm")),
            policy: policies.join(format!("{plugin}.toml")),
            plugin,
        };
        suite.write_policy("concurrency = 1")?;
        cluster.apply_roles(&suite.policy, &component).await?;
        std::fs::copy(&component, &suite.file)?;
        suites.push(suite);
    }
    let mut args = Cluster::plugins_alone(&plugins, &policies).to_vec();
    args.extend(
        [
            "--logging-format=json",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]
        .map(str::to_owned),
    );
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let ended = join_all(suites.iter().map(|suite| suite.run(&host))).await;
    let failed = suites.iter().zip(ended).filter_map(|(suite, ended)| {
        let error = ended.err()?;
        Some(format!("{}: {error:#}", suite.plugin))
    });
    let failed: Vec<String> = failed.collect();
    let log = last_lines(&log_of(&host)?);
    hosts.push(host);
    ensure!(failed.is_empty(), "{}\n{log}", failed.join("\n"));
    Ok(())
}

struct Suite<'a> {
    cluster: &'a Cluster,
    language: &'a Language,
    plugin: String,
    greetings: Greetings,
    /// The plugin's file in the host's folder.
    file: PathBuf,
    policy: PathBuf,
}

impl Suite<'_> {
    async fn run(&self, host: &Process) -> Result<()> {
        let is_running = |status: &Value| status["state"] == "running";
        self.cluster
            .until_plugin(HOST, &self.plugin, "runs", is_running)
            .await?;
        // Creates, updates and deletes with the finalizer; events, conditions and unicode.
        self.greetings.are_kept().await.context("the greeter")?;
        self.errors_are_retried().await.context("errors")?;
        self.requeues().await.context("requeues")?;
        self.bugs_are_named(host).await.context("bugs")?;
        self.loops_are_stopped(host).await.context("loops")?;
        if self.language.name == "go" {
            let faults = self.faults_of_go_are_explained(host).await;
            faults.context("faults of Go")?;
        }
        self.conflicts_are_known().await.context("conflicts")?;
        self.large_objects_are_written()
            .await
            .context("large objects")?;
        self.reloads_amid_work().await.context("many objects")
    }

    async fn errors_are_retried(&self) -> Result<()> {
        self.greetings.create("final", "fault: terminal").await?;
        self.greetings.create("error", "fault: error").await?;
        let third = |entry: &Value| {
            entry["attempt"].as_u64() >= Some(2) && is_failure(entry, "asked to fail")
        };
        self.until_entry("error", "it fails a third time", third)
            .await?;
        self.recovers("error").await?;
        let is_final = |entry: &Value| is_failure(entry, "no retry can help");
        self.until_entry("final", "it fails", is_final).await?;
        let entries = self.entries("final")?;
        ensure!(
            entries.iter().all(|entry| entry["attempt"] == 0),
            "it is retried: {entries:?}"
        );
        self.recovers("final").await
    }

    async fn requeues(&self) -> Result<()> {
        self.greetings.create("again", "fault: requeue").await?;
        let is_asked_for = |entry: &Value| {
            let why = entry["why"].as_str().unwrap_or_default();
            why.starts_with("asked for by the reconcile of") && entry["failed"].is_null()
        };
        self.until_entry("again", "it is called again", is_asked_for)
            .await?;
        self.recovers("again").await
    }

    /// The message of a bug and its line are in the log, and the next call works.
    async fn bugs_are_named(&self, host: &Process) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests");
        let source = folder.join(self.language.name).join(self.language.source);
        let source = std::fs::read_to_string(&source)
            .with_context(|| format!("can't read {}", source.display()))?;
        let line = source.lines().position(|line| line.contains("the bug"));
        let line = line.context("no line has the bug")? + 1;
        let place = format!("{}:{line}", self.language.place);
        self.greetings.create("raise", "fault: raise").await?;
        self.until_logged(host, "raise", &[self.language.says, &place])
            .await?;
        let is_failed = |entry: &Value| !entry["failed"].is_null();
        self.until_entry("raise", "it fails", is_failed).await?;
        self.recovers("raise").await
    }

    /// Waits until the log has these texts, in lines about a Greeting.
    async fn until_logged(&self, host: &Process, name: &str, wanted: &[&str]) -> Result<()> {
        let key = self.key(name);
        until(&format!("the log has {wanted:?} about {key}"), async || {
            let log = log_of(host)?;
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let texts = lines
                .filter(|line: &Value| line["key"] == key && line["plugin"] == self.plugin)
                .flat_map(|line| line.as_object().cloned().unwrap_or_default())
                .filter_map(|(_, value)| value.as_str().map(str::to_owned));
            let text = texts.collect::<Vec<_>>().join("\n");
            let has_all = wanted.iter().all(|wanted| text.contains(wanted));
            Ok(if has_all { Ok(()) } else { Err(text) })
        })
        .await
    }

    /// A deep recursion, and sleeping, are explained in the log.
    async fn faults_of_go_are_explained(&self, host: &Process) -> Result<()> {
        self.greetings.create("recurse", "fault: recurse").await?;
        self.until_logged(host, "recurse", &["main.recurse"])
            .await?;
        self.recovers("recurse").await?;
        self.greetings.create("sleep", "fault: sleep").await?;
        let said = "the code slept for 1m0s, and sleeping returns at once";
        self.until_logged(host, "sleep", &[said]).await?;
        self.recovers("sleep").await
    }

    /// A call that never returns is stopped, and the log names its function. The next one is in another instance, which has no state of the first.
    async fn loops_are_stopped(&self, host: &Process) -> Result<()> {
        self.greetings.create("count", "fault: count").await?;
        let is_counted = |entry: &Value| is_failure(entry, "of this instance");
        self.until_entry("count", "it is called", is_counted)
            .await?;
        // An instance serves many calls. It could be recycled between two.
        let mut changes = 0;
        while self.counted_after(&format!("{changes}")).await? < 2 {
            changes += 1;
            ensure!(changes < 10, "no instance serves two calls");
        }
        self.greetings.create("loop", "fault: loop").await?;
        // Functions in C have names. Those in Rust are stripped in tests, and of an interpreted language, the host sees the
        // interpreter alone.
        let has_names = self.language.name == "c";
        let place = if has_names { "; it was in `" } else { "" };
        let is_stopped = |entry: &Value| {
            is_failure(entry, "of CPU time, and its limit is") && is_failure(entry, place)
        };
        self.until_entry("loop", "its call is stopped", is_stopped)
            .await?;
        if let Some(function) = self.language.looping {
            self.until_logged(host, "loop", &[function]).await?;
        }
        let count = self.counted_after("afterwards").await?;
        ensure!(count == 1, "state survives the instance: call {count}");
        self.recovers("loop").await
    }

    /// Lets the guest count a call. Returns its number in the instance.
    async fn counted_after(&self, change: &str) -> Result<u32> {
        let last = |entries: &[Value]| {
            let at = |entry: &Value| entry["at"].as_str().map(str::to_owned);
            entries.iter().filter_map(at).max()
        };
        let before = last(&self.entries("count")?);
        let change = json!({"metadata": {"annotations": {"changed": change}}});
        self.change("count", change).await?;
        let entry = self
            .until_entry("count", "it is called", |entry| {
                entry["at"].as_str() > before.as_deref() && entry["failed"].is_string()
            })
            .await?;
        let said = entry["failed"].as_str().unwrap_or_default();
        let number = said
            .split_once("call ")
            .and_then(|(_, rest)| rest.split(' ').next());
        let number = number.with_context(|| format!("it says {said:?}"))?;
        Ok(number.parse()?)
    }

    async fn conflicts_are_known(&self) -> Result<()> {
        self.greetings.create("conflict", "fault: conflict").await?;
        let is_conflict = |entry: &Value| is_failure(entry, "found a conflict: ");
        self.until_entry("conflict", "it finds a conflict", is_conflict)
            .await?;
        let greeting = self.greetings.api.get("conflict").await?;
        ensure!(
            greeting.data["spec"]["text"] == "fault: conflict",
            "a stale update was written: {}",
            greeting.data
        );
        self.recovers("conflict").await
    }

    /// A ConfigMap holds at most 1 MiB. The API server's error for a larger one reaches the operator.
    async fn large_objects_are_written(&self) -> Result<()> {
        let mut text = "Grüezi 👋 ".repeat(MIB / 13 + 1);
        text.truncate(text.floor_char_boundary(MIB - 1));
        text += &"x".repeat(MIB - text.len());
        self.greetings.create("large", &text).await?;
        self.greetings.until_text("large", &text).await?;
        self.change("large", json!({"spec": {"text": text + "x"}}))
            .await?;
        let is_refused = |entry: &Value| is_failure(entry, "Invalid");
        self.until_entry("large", "the API server refuses the ConfigMap", is_refused)
            .await?;
        self.recovers("large").await
    }

    /// The plugin is replaced while Greetings are created. None is forgotten.
    async fn reloads_amid_work(&self) -> Result<()> {
        self.write_policy("")?;
        let count = if is_full() { MANY_IN_FULL } else { MANY };
        let (before, after) = (0..count).partition::<Vec<_>, _>(|number| *number < count / 2);
        self.create_all(before).await?;
        let new = stamped(&std::fs::read(&self.file)?, "new");
        let digest = format!("{:x}", Sha256::digest(&new));
        replace(&self.file, &new)?;
        self.create_all(after).await?;
        // The host compiles it first, which takes long for an interpreter.
        let reloaded = format!("{} is reloaded", self.plugin);
        until_within(COMPILED_WITHIN, &reloaded, async || {
            let status = self.cluster.plugin(HOST, &self.plugin)?;
            let is_new =
                |status: &Value| status["digest"] == digest && status["state"] == "running";
            Ok(match status {
                Some(status) if is_new(&status) => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        until(&format!("{count} Greetings are ready"), async || {
            let greetings = self.greetings.api.list(&ListParams::default()).await?;
            let ready = greetings
                .items
                .iter()
                .filter(|greeting| {
                    let status = &greeting.data["status"];
                    status["conditions"][0]["status"] == "True"
                        && status["observedGeneration"] == json!(greeting.metadata.generation)
                })
                .filter_map(|greeting| greeting.metadata.name.as_deref())
                .filter(|name| name.starts_with("many-"));
            let ready = ready.count();
            Ok(if ready == count {
                Ok(())
            } else {
                Err(format!("{ready} are"))
            })
        })
        .await?;
        let maps = self.greetings.space.api::<ConfigMap>();
        let maps = maps.list(&ListParams::default()).await?.items;
        let right = maps
            .iter()
            .filter(|map| map.metadata.name.as_deref() == text_of(map));
        let right: BTreeSet<_> = right.map(|map| &map.metadata.name).collect();
        ensure!(
            right.len() == count,
            "{} of {count} ConfigMaps have the text of their Greeting",
            right.len()
        );
        Ok(())
    }

    /// Creates Greetings whose texts are their names.
    async fn create_all(&self, numbers: Vec<usize>) -> Result<()> {
        let create = async |number: usize| {
            let name = format!("many-{number}");
            self.greetings.create(&name, &name).await
        };
        let created = stream::iter(numbers).map(create);
        created.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Writes the greeter's policy, for the plugin's namespace alone.
    fn write_policy(&self, more: &str) -> Result<()> {
        let policy = Example::folders().join(&self.plugin).join("policy.toml");
        let namespaces = format!("namespaces = [\"{}\"]", self.greetings.space.name);
        let mut text = String::new();
        for line in std::fs::read_to_string(policy)?.lines() {
            text += &format!("{line}\n");
            if line.starts_with("verbs") {
                text += &format!("{namespaces}\n");
            }
            if line.starts_with("service-account") {
                text += &format!("{more}\n");
            }
        }
        ensure!(text.matches(&namespaces).count() > 3, "{text}");
        replace(&self.policy, text.as_bytes())
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.greetings.space.name)
    }

    /// The last reconciles of a Greeting.
    fn entries(&self, name: &str) -> Result<Vec<Value>> {
        let key = self.key(name);
        let object = format!("Greeting/{key}");
        let args = ["why", "-o", "json", object.as_str()];
        let all = self.cluster.operator_command(HOST, &args)?;
        let all: Vec<Value> = serde_json::from_str(&all)?;
        let of_key = all
            .into_iter()
            .filter(|entry| entry["key"] == key && entry["plugin"] == self.plugin);
        Ok(of_key.collect())
    }

    /// Waits for a reconcile of a Greeting that meets a condition.
    async fn until_entry(
        &self,
        name: &str,
        what: &str,
        is_met: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        until(&format!("{what} ({name})"), async || {
            let entries = self.entries(name)?;
            let met = entries.iter().find(|entry| is_met(entry));
            Ok(met.cloned().ok_or_else(|| format!("{entries:?}")))
        })
        .await
    }

    async fn change(&self, name: &str, patch: Value) -> Result<()> {
        let patch = Patch::Merge(patch);
        let api = &self.greetings.api;
        api.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Takes the fault away, and waits until the Greeting is as it should be.
    async fn recovers(&self, name: &str) -> Result<()> {
        self.change(name, json!({"spec": {"text": "well"}})).await?;
        self.greetings.until_text(name, "well").await?;
        self.greetings.until_ready(name, "True", "Greeted").await
    }
}

fn is_failure(entry: &Value, text: &str) -> bool {
    let failed = entry["failed"].as_str();
    failed.is_some_and(|failed| failed.contains(text))
}
