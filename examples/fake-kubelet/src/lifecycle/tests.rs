//! Pod lifecycles, step by step: each test advances the time and checks the status after each step.

use std::time::Duration;

use flyball_sdk::testing::view;

use super::*;
use crate::script::PREFIX;

const START: Time = Time {
    seconds: 1_767_225_600,
    nanoseconds: 250_000_000,
};

/// A simulated pod: each plan becomes its status.
struct Life {
    pod: Pod,
    settings: Settings,
    now: Time,
}

impl Life {
    fn new(annotations: &[(&str, &str)]) -> Self {
        Self::of(
            annotations,
            json!({"containers": [{"name": "web", "image": "nginx"}]}),
        )
    }

    fn of(annotations: &[(&str, &str)], spec: Value) -> Self {
        let annotations: flyball_sdk::StringMap = annotations
            .iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned()))
            .collect();
        let pod = view(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "1", "generation": 1, "annotations": annotations,
                         "creationTimestamp": START},
            "spec": spec,
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": START},
            ]},
        }));
        Self {
            pod,
            settings: Settings::read(|_| None).unwrap(),
            now: START,
        }
    }

    fn script(&self) -> Script {
        Script::read(&self.pod.meta.annotations).unwrap()
    }

    /// Takes a step at the current time.
    fn step(&mut self) -> Plan {
        let plan = plan(&self.pod, &self.script(), &self.settings, self.now);
        let again = Pod {
            status: plan.status.clone(),
            ..self.pod.clone()
        };
        let second = super::plan(&again, &self.script(), &self.settings, self.now);
        if plan.wake.is_none_or(|wake| wake > self.now) {
            assert_eq!(
                second.status, plan.status,
                "a second step at the same time must change nothing"
            );
        }
        self.pod = again;
        plan
    }

    /// Advances the time and takes a step.
    fn after(&mut self, millis: u64) -> Plan {
        self.now = self.now + Duration::from_millis(millis);
        self.step()
    }

    /// Advances the time to the plan's wake time and takes a step.
    fn wake(&mut self, plan: &Plan) -> Plan {
        self.now = plan.wake.expect("the plan has no wake time").max(self.now);
        self.step()
    }

    fn delete(&mut self, grace: i64) {
        self.pod.meta.deletion_timestamp =
            Some(self.now.to_second() + Duration::from_secs(grace.unsigned_abs()));
        self.pod.meta.deletion_grace_period_seconds = Some(grace);
        self.pod.meta.generation += 1;
    }

    fn status(&self, condition: &str) -> &str {
        self.pod
            .status
            .condition(condition)
            .map_or("", |condition| condition.status.as_str())
    }

    fn ready(&self) -> bool {
        self.status("Ready") == "True"
    }

    fn phase(&self) -> &str {
        &self.pod.status.phase
    }

    fn container(&self) -> &ContainerStatus {
        &self.pod.status.container_statuses[0]
    }
}

fn millis(plan: &Plan, life: &Life) -> Option<u128> {
    plan.wake.map(|at| at.since(life.now).as_millis())
}

#[test]
fn a_pod_is_running_and_ready_at_once() {
    let mut life = Life::new(&[]);
    let plan = life.step();
    assert_eq!(
        (life.phase(), plan.wake, plan.delete),
        ("Running", None, false)
    );
    for condition in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        assert_eq!(life.status(condition), "True", "{condition}");
    }
    let status = &life.pod.status;
    assert_eq!(
        (status.observed_generation, status.start_time),
        (Some(1), Some(START.to_second()))
    );
    assert_eq!(
        status.condition("Ready").unwrap().observed_generation,
        Some(1)
    );
    let container = life.container();
    assert_eq!(
        (container.ready, container.started, container.restart_count),
        (true, Some(true), 0)
    );
    assert_eq!(
        (container.image.as_str(), container.started_at()),
        ("nginx", Some(START))
    );
}

#[test]
fn start_after_leaves_a_pod_pending_until_then() {
    let mut life = Life::new(&[("start-after", "5s")]);
    let plan = life.step();
    assert_eq!(
        (life.phase(), life.pod.status.start_time),
        ("Pending", None)
    );
    life.wake(&plan);
    assert_eq!(life.phase(), "Running");
}

#[test]
fn ready_never_leaves_a_pod_running_and_unready() {
    let mut life = Life::new(&[("ready", "never")]);
    assert_eq!(life.step().wake, None);
    assert_eq!((life.phase(), life.ready()), ("Running", false));
    let ready = life.pod.status.condition("Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("ContainersNotReady"));
    assert_eq!(
        ready.message.as_deref(),
        Some("containers with unready status: [web]")
    );
}

#[test]
fn removing_ready_never_makes_a_pod_ready() {
    let mut life = Life::new(&[("ready", "never")]);
    life.step();
    life.pod.meta.annotations.clear();
    life.after(3000);
    assert!(life.ready());
    let ready = life.pod.status.condition("Ready").unwrap();
    assert_eq!(
        (ready.reason.clone(), ready.last_transition_time),
        (None, Some(life.now.to_second()))
    );
    assert_eq!(
        life.pod
            .status
            .condition("Initialized")
            .unwrap()
            .last_transition_time,
        Some(START.to_second())
    );
}

#[test]
fn ready_after_counts_from_the_start_to_the_millisecond() {
    let mut life = Life::new(&[("ready-after", "500ms")]);
    let plan = life.step();
    assert_eq!((millis(&plan, &life), life.ready()), (Some(500), false));
    let plan = life.after(499);
    assert_eq!((millis(&plan, &life), life.ready()), (Some(1), false));
    let plan = life.after(1);
    assert_eq!((plan.wake, life.ready()), (None, true));
}

#[test]
fn ready_delay_applies_to_pods_without_ready_after() {
    let mut life = Life::new(&[]);
    life.settings.ready_delay = Duration::from_secs(2);
    assert_eq!(life.step().wake, Some(START + Duration::from_secs(2)));
    let mut life = Life::new(&[("ready-after", "0")]);
    life.settings.ready_delay = Duration::from_secs(2);
    life.step();
    assert!(life.ready());
}

#[test]
fn a_container_that_is_never_restarted_ends_its_pod() {
    for (code, phase, reason) in [
        ("0", "Succeeded", "PodCompleted"),
        ("3", "Failed", "PodFailed"),
    ] {
        let annotations = [
            ("exit-after", "3s"),
            ("exit-code", code),
            ("reason", "Why"),
            ("message", "because"),
        ];
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "web"}]});
        let mut life = Life::of(&annotations, spec);
        let plan = life.step();
        assert_eq!(
            (millis(&plan, &life), life.phase(), life.ready()),
            (Some(3000), "Running", true)
        );
        let plan = life.wake(&plan);
        assert_eq!(
            (life.phase(), life.ready(), plan.wake),
            (phase, false, None)
        );
        let ended = life.container().state.terminated.as_ref().unwrap();
        assert_eq!(
            (ended.exit_code.to_string().as_str(), ended.started_at),
            (code, Some(START.to_second()))
        );
        assert_eq!(ended.finished_at, Some(life.now.to_second()));
        assert_eq!(
            life.pod
                .status
                .condition("Ready")
                .unwrap()
                .reason
                .as_deref(),
            Some(reason)
        );
        assert_eq!(life.status("PodReadyToStartContainers"), "False");
        let expected = if phase == "Failed" { "Why" } else { "" };
        assert_eq!(life.pod.status.reason, expected);
    }
}

#[test]
fn a_pod_that_exits_at_once_ends_in_one_step() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "web"}]});
    let mut life = Life::of(&[("exit-code", "0")], spec);
    life.step();
    assert_eq!(
        (life.phase(), life.pod.status.start_time),
        ("Succeeded", Some(START.to_second()))
    );
}

#[test]
fn on_failure_restarts_failed_containers_only() {
    let spec = json!({"restartPolicy": "OnFailure", "containers": [{"name": "web"}]});
    let mut failing = Life::of(&[("exit-code", "1")], spec.clone());
    failing.step();
    assert_eq!(
        (failing.phase(), failing.container().exit_code()),
        ("Running", None)
    );
    let mut ending = Life::of(&[("exit-code", "0")], spec);
    ending.step();
    assert_eq!(ending.phase(), "Succeeded");
}

#[test]
fn always_restarts_with_growing_backoff() {
    let mut life = Life::new(&[("exit-after", "100ms")]);
    let mut plan = life.step();
    let mut waits = Vec::new();
    for restarts in 0..4 {
        assert_eq!(
            (life.container().restart_count, life.ready()),
            (restarts, true)
        );
        plan = life.wake(&plan);
        let waiting = life.container().state.waiting.as_ref().unwrap();
        assert_eq!(
            (waiting.reason.as_str(), life.phase(), life.ready()),
            ("CrashLoopBackOff", "Running", false)
        );
        assert_eq!(
            life.container()
                .last_state
                .terminated
                .as_ref()
                .unwrap()
                .exit_code,
            0
        );
        waits.push(millis(&plan, &life).unwrap());
        plan = life.wake(&plan);
    }
    assert_eq!(waits, [0, 1000, 2000, 4000]);
}

#[test]
fn restarts_sets_how_often_a_container_restarts_before_it_runs() {
    let mut life = Life::new(&[("restarts", "2")]);
    let mut plan = life.step();
    for _ in 0..2 {
        assert!(!life.ready());
        plan = life.wake(&plan);
    }
    assert_eq!(
        (plan.wake, life.ready(), life.container().restart_count),
        (None, true, 2)
    );
    assert_eq!(
        life.container()
            .last_state
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        1
    );
}

#[test]
fn only_the_named_container_exits() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "web"}, {"name": "log"}]});
    let mut life = Life::of(&[("exit-code", "1"), ("container", "log")], spec);
    life.step();
    let codes: Vec<_> = life
        .pod
        .status
        .container_statuses
        .iter()
        .map(ContainerStatus::exit_code)
        .collect();
    assert_eq!(
        (codes, life.phase(), life.ready()),
        (vec![None, Some(1)], "Running", false)
    );
}

#[test]
fn init_containers_have_ended_and_sidecars_run_until_the_pod_ends() {
    let spec = json!({
        "restartPolicy": "Never", "containers": [{"name": "web"}],
        "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
    });
    let mut life = Life::of(&[("exit-after", "1s")], spec);
    let plan = life.step();
    let codes = |life: &Life| -> Vec<_> {
        life.pod
            .status
            .init_container_statuses
            .iter()
            .map(ContainerStatus::exit_code)
            .collect()
    };
    assert_eq!((codes(&life), life.ready()), (vec![Some(0), None], true));
    life.wake(&plan);
    assert_eq!(
        (codes(&life), life.phase()),
        (vec![Some(0), Some(0)], "Succeeded")
    );
}

#[test]
fn an_evicted_pod_fails_whatever_its_restart_policy() {
    let mut life = Life::new(&[("evict-after", "2s"), ("message", "no room")]);
    let plan = life.step();
    assert!(life.ready());
    life.wake(&plan);
    let status = &life.pod.status;
    assert_eq!(
        (
            life.phase(),
            status.reason.as_str(),
            status.message.as_str()
        ),
        ("Failed", "Evicted", "no room")
    );
    let disrupted = status.condition("DisruptionTarget").unwrap();
    assert_eq!(disrupted.reason.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(life.container().exit_code(), Some(KILLED));
}

#[test]
fn a_pod_being_deleted_ends_at_once_and_is_removed() {
    let mut life = Life::new(&[]);
    life.step();
    life.delete(30);
    let plan = life.after(1500);
    assert_eq!(
        (life.phase(), life.ready(), plan.delete),
        ("Failed", false, true)
    );
    assert_eq!(life.container().exit_code(), Some(TERMINATED));
    assert_eq!(life.pod.status.observed_generation, Some(2));
}

#[test]
fn terminate_after_delays_the_end_up_to_the_grace_period() {
    for (after, grace, expected) in [("2s", 30, 2), ("1m", 5, 5)] {
        let mut life = Life::new(&[("terminate-after", after), ("terminate-exit-code", "0")]);
        life.now = START.to_second();
        life.step();
        life.delete(grace);
        let plan = life.step();
        assert_eq!(
            (life.phase(), life.ready(), plan.delete),
            ("Running", true, false)
        );
        assert_eq!(plan.wake, Some(life.now + Duration::from_secs(expected)));
        let plan = life.wake(&plan);
        assert_eq!((life.phase(), plan.delete), ("Succeeded", true));
    }
}

#[test]
fn a_pod_that_is_deleted_before_it_starts_fails() {
    let mut life = Life::new(&[("start-after", "1h")]);
    life.step();
    life.delete(30);
    let plan = life.step();
    assert_eq!(
        (life.phase(), plan.delete, life.pod.status.start_time),
        ("Failed", true, None)
    );
    let ended = life.container().state.terminated.as_ref().unwrap();
    assert_eq!(
        (ended.exit_code, ended.reason.as_str()),
        (KILLED, "ContainerStatusUnknown")
    );
}

#[test]
fn an_ended_pod_is_only_deleted_and_only_once() {
    let mut life = Life::of(
        &[("exit-code", "0")],
        json!({"restartPolicy": "Never", "containers": [{"name": "web"}]}),
    );
    life.step();
    let ended = life.pod.status.clone();
    life.delete(30);
    let plan = life.step();
    assert_eq!((&plan.status, plan.delete), (&ended, true));
    life.delete(0);
    let plan = life.step();
    assert_eq!(
        (&plan.status, plan.delete),
        (&ended, false),
        "only finalizers keep it"
    );
}
