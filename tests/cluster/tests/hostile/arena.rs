//! A host under attack: a control plane, the host with built-in controllers, a plugin that works (the victim), one that
//! watches all Secrets, and one that attacks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flyball_cluster_tests::{
    Cluster, Space, guest, host_output, last_lines, log_of, replace, until, until_within,
};
use flyball_controlplane::Process;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::victim::{During, Observed, Victim};

/// One attack.
#[derive(Debug)]
pub(crate) struct Case {
    /// Names the case in the document and in messages.
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// The plugin's policy: keys and `[[plugins.faulty.allow]]` entries after its configuration.
    pub(crate) policy: &'static str,
    /// Fields of its description, in addition to its name, its queue and its ticker.
    pub(crate) description: &'static str,
    /// How often its ticker runs the script, in milliseconds.
    pub(crate) period: u32,
    /// The behaviour of its `route`.
    pub(crate) route: &'static str,
    /// The host calls that it makes.
    pub(crate) script: &'static str,
    /// Texts that the host's log must then have, each in some line that names the plugin.
    pub(crate) expects: &'static [&'static str],
}

impl Case {
    pub(crate) const NONE: Self = Self {
        name: "",
        class: Class::Read,
        policy: "",
        description: "",
        period: 1000,
        route: "",
        script: "[]",
        expects: &[],
    };
}

/// The target of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Escalation,
    Read,
    Write,
    Memory,
    Cpu,
    Log,
    Name,
    Lifecycle,
    Registry,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Escalation => "escalation",
            Self::Read => "read",
            Self::Write => "write",
            Self::Memory => "memory",
            Self::Cpu => "CPU",
            Self::Log => "log",
            Self::Name => "name",
            Self::Lifecycle => "lifecycle",
            Self::Registry => "registry",
        }
    }
}

/// Cases that reach no limit, although their classes are about limits.
const FAULTS: [&str; 17] = [
    "deep",
    "failing-route",
    "forged-lines",
    "large-argument",
    "loop-of-cached-lists",
    "loop-of-counts",
    "loop-of-discoveries",
    "loop-of-events",
    "loop-of-live-gets",
    "loop-of-live-lists",
    "loop-of-memos-and-metrics",
    "loop-of-merges",
    "loop-of-patches",
    "loop-of-raw-reads",
    "panic",
    "quick-ticker",
    "unknown-queues",
];
/// Words that show that a message names a limit.
const LIMITS: [&str; 5] = [
    "limit",
    "more than",
    "at most",
    "larger than",
    "in the policy",
];

/// A kubelet's default timeout of a probe, and the number of failures in a row after which it restarts a container.
const PROBE: Duration = Duration::from_secs(1);
const PROBES: usize = 3;
/// How long the host may take to answer an attack.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to load a file: `describe` has 10 s of CPU time, of which it gets a quarter of a core.
const LOADING: Duration = Duration::from_secs(80);
/// The content of the Secrets. Neither the attacker's data nor the host's output may contain it.
pub(crate) const SECRET: &str = "VE9QU0VDUkVU";
/// The most memory that the host may use during an attack, in bytes. Before an attack it uses about 100 MiB.
const MEMORY: u64 = 768 << 20;
/// The time that the host may take to free the memory of an attack that has ended.
const SETTLING: Duration = Duration::from_secs(45);
/// The maximum private memory in bytes that the host maps after its start. Most of it takes no pages, which `MEMORY`
/// bounds: stacks of instances take memory only when they are used, and a slot stays mapped as far as any guest has grown
/// in it, without pages once the guest has ended.
const DATA: u64 = 2 << 30;

/// The host under attack.
pub(crate) struct Arena {
    cluster: Cluster,
    host: Process,
    pub(crate) plugins: PathBuf,
    policy: PathBuf,
    /// The policies of the victim and of the plugin that watches Secrets.
    others: String,
    /// Resident memory before the attacks, in bytes.
    before: u64,
    victim: Victim,
    /// The port that the host serves on.
    port: u16,
    done: Vec<Done>,
    /// Whether the policy of an attack is in force.
    is_under_attack: bool,
}

/// A case that the host has handled correctly.
pub(crate) struct Done {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) answer: String,
}

impl Arena {
    pub(crate) async fn start() -> Result<Self> {
        let cluster = Cluster::for_plugins().await?;
        let plugins = cluster.folder_with("plugins", &[guest("greeter")?, guest("faulty")?])?;
        std::fs::write(plugins.join("watcher.wasm"), faulty_as("watcher")?)?;
        let policy = cluster.plane.dir().join("policy.toml");
        let greeter = guest("greeter")?.display().to_string();
        let others = host_output(&["policy", &greeter])?
            + "\n[[plugins.watcher.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"watch\"]\n"
            // The victim never waits for its own rate limiter.
            + "[plugins.greeter.limits]\nwrites-per-second = 1000\nwrites-burst = 1000\n";
        std::fs::write(&policy, &others)?;
        cluster.apply_roles(&policy, &guest("greeter")?).await?;
        cluster.apply(&accounts().to_string()).await?;
        for (namespace, secret) in [("demo", "token"), ("other", "other")] {
            let space = Space::create(cluster.client.clone(), namespace).await?;
            let secret = json!({"metadata": {"name": secret, "labels": {"app": "web"}}, "data": {"password": SECRET}});
            space.create_object::<Secret>(secret).await?;
        }
        let demo = space(&cluster, "demo");
        demo.create_object::<ConfigMap>(
            json!({"metadata": {"name": "web", "labels": {"app": "web"}}}),
        )
        .await?;
        demo.create_object::<ConfigMap>(
            json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(900_000)}}),
        )
        .await?;
        let victim = Victim::create(&cluster).await?;
        let (port, serving) = cluster.serving();
        let mut args = serving.to_vec();
        args.extend([
            "--controllers=deployment-controller,replicaset-controller".to_owned(),
            format!("--plugin-dir={}", plugins.display()),
            format!("--policy={}", policy.display()),
        ]);
        let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
        let mut arena = Self {
            cluster,
            host,
            plugins,
            policy,
            others,
            before: 0,
            victim,
            port,
            done: Vec::new(),
            is_under_attack: false,
        };
        for name in ["watcher", "greeter"] {
            let is_running = |status: &serde_json::Value| status["state"] == "running";
            arena
                .cluster
                .until_plugin("host", name, "runs", is_running)
                .await?;
        }
        arena.victim.greet(During::Calm, 0).await?;
        arena.limit_memory()?;
        arena.before = arena.memory("VmRSS")?;
        Ok(arena)
    }

    /// Runs a case, and checks that the host answers as it must and that nobody else is harmed.
    pub(crate) async fn attack(&mut self, case: &Case) -> Result<()> {
        self.attack_at(case, &[]).await
    }

    /// Runs a case. In its texts, each of these names stands for a value.
    pub(crate) async fn attack_at(&mut self, case: &Case, names: &[(&str, &str)]) -> Result<()> {
        let named = |text: &str| {
            let replace = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
            names.iter().fold(text.to_owned(), replace)
        };
        if self.is_under_attack {
            // A lasting problem is logged once. Without a change in between, the same message would not be logged
            // again.
            self.rest(case.name).await?;
            self.victim.greet(During::Calm, self.done.len()).await?;
        }
        self.is_under_attack = true;
        let from = self.log()?.len();
        self.reset_peak()?;
        self.write_policy(&named(&policy_of(case)))?;
        let mut answers = Vec::new();
        for expected in case.expects {
            answers.push(self.answers(case.name, from, &named(expected)).await?);
        }
        names_limit(case.name, case.class, &answers)?;
        self.is_unharmed(case.name, from).await?;
        self.done.push(Done {
            name: case.name,
            class: case.class,
            answer: case.expects.first().copied().unwrap_or_default().into(),
        });
        Ok(())
    }

    /// Notes a case that has a test of its own.
    pub(crate) async fn passed(
        &mut self,
        name: &'static str,
        class: Class,
        from: usize,
        answer: &str,
    ) -> Result<()> {
        self.is_unharmed(name, from).await?;
        self.done.push(Done {
            name,
            class,
            answer: answer.into(),
        });
        Ok(())
    }

    /// Waits until the log has this text after `from` in a line that names the attacker, and returns the line.
    pub(crate) async fn answers(&self, name: &str, from: usize, expected: &str) -> Result<String> {
        self.says(name, from, "faulty", expected, PATIENCE).await
    }

    /// Waits until the log has this text after `from` about a file or package, and returns the line.
    pub(crate) async fn says_of(
        &self,
        name: &str,
        from: usize,
        about: &str,
        expected: &str,
    ) -> Result<String> {
        self.says(name, from, about, expected, LOADING).await
    }

    async fn says(
        &self,
        name: &str,
        from: usize,
        about: &str,
        expected: &str,
        patience: Duration,
    ) -> Result<String> {
        let what = format!("`{name}` is answered with `{expected}`");
        until_within(patience, &what, async || {
            let log = self.log()?;
            let lines: Vec<&str> = log[from..]
                .lines()
                .filter(|line| line.contains(about))
                .collect();
            let found = lines.iter().find(|line| line.contains(expected));
            Ok(match found {
                Some(line) => Ok((*line).to_owned()),
                None => Err(lines[lines.len().saturating_sub(8)..].join("\n")),
            })
        })
        .await
    }

    /// Checks that the host lives within its memory, printed no secret, and serves the others.
    pub(crate) async fn is_unharmed(&mut self, name: &str, from: usize) -> Result<()> {
        let log = self.log()?;
        if let Some(status) = self.host.exited() {
            bail!("{name}: the host ended with {status}\n{}", last_lines(&log));
        }
        let leaked = log[from..].lines().find(|line| line.contains(SECRET));
        ensure!(leaked.is_none(), "{name}: a secret got out: {leaked:?}");
        let peak = self.memory("VmHWM")?;
        ensure!(peak < MEMORY, "{name}: the host had {} MiB", peak >> 20);
        self.victim
            .greet(During::Attack(name), self.done.len())
            .await
            .with_context(|| format!("during {name}"))?;
        self.is_healthy(name).await?;
        self.scales(name).await
    }

    /// Measures how long the victim and probes take.
    pub(crate) async fn observe(&mut self, times: usize) -> Result<Observed> {
        let mut observed = Observed::default();
        for _ in 0..times {
            observed.greetings.push(self.victim.greet_once().await?);
            let start = Instant::now();
            let answer = self.cluster.https(self.port, "/healthz").await?;
            ensure!(answer == "ok", "/healthz answers {answer}");
            observed.probes.push(start.elapsed());
        }
        Ok(observed)
    }

    /// Attacks again, and waits for the first answers.
    pub(crate) async fn repeat(&mut self, case: &Case) -> Result<()> {
        let from = self.log()?.len();
        self.is_under_attack = true;
        self.write_policy(&policy_of(case))?;
        for expected in case.expects {
            self.answers(case.name, from, expected).await?;
        }
        Ok(())
    }

    /// Ends the attack, and waits until it has ended.
    pub(crate) async fn rest(&mut self, name: &str) -> Result<()> {
        let before = self.log()?.len();
        self.write_policy("")?;
        self.is_under_attack = false;
        self.answers(name, before, "no policy grants it anything")
            .await?;
        Ok(())
    }

    /// Checks that a kubelet would not restart the host: that one of as many probes in a row as may fail is answered in
    /// time.
    async fn is_healthy(&self, name: &str) -> Result<()> {
        let mut failures = Vec::new();
        for _ in 0..PROBES {
            let probe = self.cluster.https(self.port, "/healthz");
            match tokio::time::timeout(PROBE, probe).await {
                Ok(answer) if answer.as_ref().is_ok_and(|answer| answer == "ok") => return Ok(()),
                answer => failures.push(format!("{answer:?}")),
            }
        }
        bail!("{name}: no probe of /healthz is answered within {PROBE:?}: {failures:?}")
    }

    /// Checks that the built-in controllers work, by a Deployment whose ReplicaSet they create.
    async fn scales(&self, name: &str) -> Result<()> {
        let demo = space(&self.cluster, "demo");
        let labels = json!({"app": name});
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        }});
        demo.create_object::<Deployment>(deployment).await?;
        until(
            &format!("a Deployment gets its ReplicaSet during {name}"),
            async || {
                let sets = demo.api::<ReplicaSet>().list(&Default::default()).await?;
                let is_its = |set: &ReplicaSet| {
                    set.metadata
                        .name
                        .as_ref()
                        .is_some_and(|own| own.starts_with(name))
                };
                Ok(sets
                    .items
                    .iter()
                    .any(is_its)
                    .then_some(())
                    .ok_or_else(String::new))
            },
        )
        .await
    }

    /// Measures the memory that the host has to return to when no attack runs.
    pub(crate) async fn measure(&mut self) -> Result<()> {
        self.write_policy("")?;
        self.is_under_attack = false;
        tokio::time::sleep(SETTLING).await;
        self.before = self.memory("VmRSS")?;
        Ok(())
    }

    /// Checks that the memory returns to the measured amount, within a tenth.
    pub(crate) async fn recovers(&self) -> Result<()> {
        self.write_policy("")?;
        let most = self.before + self.before / 10;
        let patience = Duration::from_secs(120);
        until_within(patience, "the memory returns to what it was", async || {
            let now = self.memory("VmRSS")?;
            Ok(if now <= most {
                Ok(())
            } else {
                Err(format!(
                    "{} MiB, before {} MiB",
                    now >> 20,
                    self.before >> 20
                ))
            })
        })
        .await
    }

    /// Checks that the attacks delayed the victim by no more than they may.
    pub(crate) fn is_prompt(&self) -> Result<()> {
        self.victim.is_prompt()
    }

    pub(crate) fn log(&self) -> Result<String> {
        log_of(&self.host)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn done(&self) -> &[Done] {
        &self.done
    }

    /// Puts a policy for the attacker in force, in addition to the policies of the others.
    pub(crate) fn write_policy(&self, attacker: &str) -> Result<()> {
        replace(
            &self.policy,
            format!("{}\n{attacker}", self.others).as_bytes(),
        )
    }

    pub(crate) fn into_parts(self) -> (Cluster, Process) {
        (self.cluster, self.host)
    }

    /// A line of the host's status in the system, in bytes.
    fn memory(&self, name: &str) -> Result<u64> {
        Ok(self.in_status(name, " kB")? << 10)
    }

    /// The number of the host's threads.
    pub(crate) fn threads(&self) -> Result<u64> {
        self.in_status("Threads", "")
    }

    /// A number in a line of the host's status in the system, before its unit.
    fn in_status(&self, name: &str, unit: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.host.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.trim().strip_suffix(unit)?.parse().ok());
        number.with_context(|| format!("the system tells no {name}"))
    }

    /// Has the system refuse the host more memory: the host ends if it needs more.
    fn limit_memory(&self) -> Result<()> {
        let most = self.memory("VmData")? + DATA;
        let pid = Pid::from_raw(self.host.pid().try_into()?);
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        prlimit(pid, Resource::Data, limit).context("can't limit the memory of the host")?;
        Ok(())
    }

    /// Has the system count the peak of the memory anew.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.host.pid());
        std::fs::write(&path, "5").with_context(|| format!("can't write {path}"))
    }
}

/// Fails if a case is about a limit, and none of the host's answers names it.
pub(crate) fn names_limit(name: &str, class: Class, answers: &[String]) -> Result<()> {
    let is_about_limit = matches!(class, Class::Memory | Class::Cpu | Class::Log);
    let is_named = |answer: &String| LIMITS.iter().any(|word| answer.contains(word));
    ensure!(
        !is_about_limit || FAULTS.contains(&name) || answers.iter().any(is_named),
        "{name}: no answer names the limit: {answers:?}"
    );
    Ok(())
}

/// The attacker's policy in a case.
pub(crate) fn policy_of(case: &Case) -> String {
    let comma = if case.description.is_empty() { "" } else { "," };
    let description = format!(
        r#"{{"format": 1, "name": "faulty", "version": "{}", "queues": [{{"name": "faulty"}}],
             "tickers": [{{"key": "script", "periodMs": {}}}]{comma} {}}}"#,
        case.name, case.period, case.description
    );
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "[plugins.faulty.config]\ncase = {}\ndescription = {}\nroute = {}\nscript = {}\n{}",
        text(case.name),
        text(&description),
        text(case.route),
        text(case.script),
        case.policy
    )
}

/// The attacker's file, with a mode of `describe` written into it.
pub(crate) fn faulty_as(mode: &str) -> Result<Vec<u8>> {
    const MARK: &[u8] = b"mode of faulty:";
    let mut wasm = std::fs::read(guest("faulty")?)?;
    let place = wasm
        .windows(MARK.len() + 1)
        .position(|bytes| bytes.starts_with(MARK) && bytes.ends_with(b" "));
    let start = place.context("the guest has no place for a mode")? + MARK.len();
    wasm[start..start + mode.len()].copy_from_slice(mode.as_bytes());
    Ok(wasm)
}

pub(crate) fn space(cluster: &Cluster, name: &str) -> Space {
    Space {
        client: cluster.client.clone(),
        name: name.into(),
    }
}

/// The attacker's account, which may do everything, and the account of the plugin that watches Secrets.
fn accounts() -> serde_json::Value {
    let binding = |name: &str| {
        json!([
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "flyball-system", "name": name}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
             "subjects": [{"kind": "ServiceAccount", "namespace": "flyball-system", "name": name}]},
        ])
    };
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flyball-system"}}),
    ];
    for name in ["faulty", "watcher"] {
        items.extend(binding(name).as_array().cloned().unwrap_or_default());
    }
    json!({"items": items})
}
