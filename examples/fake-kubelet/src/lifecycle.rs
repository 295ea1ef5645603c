//! The lifecycle of a pod: its current status, and the time of its next change. Pure functions of the pod, its script
//! and the time.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::pod::{Container, Pod};
use crate::script::Script;
use crate::settings::Settings;
use crate::status::{Condition, ContainerState, ContainerStatus, PodStatus};

/// Exit code of containers when their pod is deleted: 128 + SIGTERM, as for a process without a
/// handler.
pub const TERMINATED: i32 = 143;
/// How long a pod whose deletion needs no further request may exist before its deletion is requested again.
const INTERRUPTED: Duration = Duration::from_secs(1);
/// Exit code of containers that are killed or never ran: 128 + SIGKILL.
pub const KILLED: i32 = 137;

/// The next step for a pod: the change to make now, and when to check it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub status: PodStatus,
    /// Whether to delete the object after the status is written.
    pub delete: bool,
    /// When the pod changes next.
    pub wake: Option<Time>,
}

/// Returns what to do with a pod now.
pub fn plan(pod: &Pod, script: &Script, settings: &Settings, now: Time) -> Plan {
    let mut plan = Plan {
        status: pod.status.clone(),
        delete: false,
        wake: None,
    };
    if !pod.status.has_ended() {
        if let Some(end) = end_of_deletion(pod, script) {
            if now < end {
                plan.wake = Some(end);
                return plan;
            }
            end_all(
                &mut plan.status,
                pod,
                script.terminate_exit_code.unwrap_or(TERMINATED),
                now,
            );
        } else {
            match start_of(pod, script) {
                Some(start) if now < start => {
                    plan.wake = Some(start);
                    return plan;
                }
                _ => live(&mut plan, pod, script, settings, now),
            }
        }
        conclude(&mut plan.status, pod, script, now);
    }
    if plan.status.has_ended()
        && let Some((requested, grace)) = pod.deletion()
    {
        if !grace.is_zero() {
            plan.delete = true;
        } else if pod.meta.finalizers.is_empty() {
            // The API server deletes the object itself, unless the client that requested it goes away in the middle.
            let due = requested + INTERRUPTED;
            if now < due {
                plan.wake = Some(due);
            } else {
                plan.delete = true;
            }
        }
    }
    plan
}

/// When a pod being deleted ends; `None` if it is not being deleted.
fn end_of_deletion(pod: &Pod, script: &Script) -> Option<Time> {
    let (requested, grace) = pod.deletion()?;
    Some(requested + script.terminate_after.min(grace))
}

/// When the pod starts; `None` if it has started, or if the time of its binding is unknown.
fn start_of(pod: &Pod, script: &Script) -> Option<Time> {
    match pod.status.start_time {
        Some(_) => None,
        None => Some(pod.bound_at()? + script.start_after),
    }
}

/// Starts the pod if needed, and advances each of its containers.
fn live(plan: &mut Plan, pod: &Pod, script: &Script, settings: &Settings, now: Time) {
    let status = &mut plan.status;
    let start = *status.start_time.get_or_insert(now.to_second());
    if let Some(after) = script.evict_after {
        if now >= start + after {
            return evict(status, pod, script, now);
        }
        plan.wake = Some(start + after);
    }
    if status.init_container_statuses.is_empty() {
        status.init_container_statuses = pod
            .init_containers
            .iter()
            .map(|init| init_status(pod, init, now))
            .collect();
    }
    let mut containers = Vec::new();
    for container in &pod.containers {
        let mut new = current_status(status, container);
        let due = advance(&mut new, pod, script, settings, now);
        plan.wake = [plan.wake, due].into_iter().flatten().min();
        containers.push(new);
    }
    status.container_statuses = containers;
    if status
        .container_statuses
        .iter()
        .all(|container| container.exit_code().is_some())
    {
        end_sidecars(status, now);
        plan.wake = None;
    }
}

/// Returns the last status of a container, or its first one.
fn current_status(status: &PodStatus, container: &Container) -> ContainerStatus {
    let mut all = status.container_statuses.iter();
    let old = all.find(|old| old.name == container.name);
    old.cloned().unwrap_or_else(|| container.initial_status())
}

/// Returns the status of an init container when the containers start: a sidecar is running, any
/// other one has completed.
fn init_status(pod: &Pod, container: &Container, now: Time) -> ContainerStatus {
    let mut status = container.initial_status();
    status.start(&pod.meta.uid, now);
    if !container.is_sidecar() {
        status.end(0, "Completed", now);
    }
    status.ready = true;
    status
}

/// Advances a container: starts or ends it if that is due. Returns when it changes next.
fn advance(
    container: &mut ContainerStatus,
    pod: &Pod,
    script: &Script,
    settings: &Settings,
    now: Time,
) -> Option<Time> {
    if container.exit_code().is_some() {
        return None;
    }
    if !container.is_running() {
        let restart = restart_of(container, script, settings);
        if let Some(restart) = restart.filter(|&restart| now < restart) {
            return Some(restart);
        }
        container.restart_count += u32::from(restart.is_some());
        container.start(&pod.meta.uid, now);
    }
    let started = container.started_at().unwrap_or(now);
    let exit = script
        .exit
        .as_ref()
        .filter(|exit| exit.applies_to(&container.name, container.restart_count));
    let end = exit.map(|exit| (started + exit.after, exit.code));
    if let Some((_, code)) = end.filter(|&(at, _)| now >= at) {
        end_or_restart(container, pod, code, now);
        return restart_of(container, script, settings);
    }
    let ready =
        (!script.never_ready).then(|| started + script.ready_after.unwrap_or(settings.ready_delay));
    container.ready = ready.is_some_and(|at| now >= at);
    let ready = ready.filter(|_| !container.ready);
    [ready, end.map(|(at, _)| at)].into_iter().flatten().min()
}

/// When a container in backoff restarts.
fn restart_of(container: &ContainerStatus, script: &Script, settings: &Settings) -> Option<Time> {
    container.state.waiting.as_ref()?;
    let finished = container.last_state.terminated.as_ref()?.finished_at?;
    // The status has whole seconds only. The time of a scripted exit can be more precise.
    let scripted = script
        .exit
        .as_ref()
        .and_then(|exit| Some(container.started_at()? + exit.after));
    let finished = scripted.map_or(finished, |scripted| finished.max(scripted));
    Some(finished + settings.backoff(container.restart_count))
}

/// Ends a container, or puts it into backoff if it restarts.
fn end_or_restart(container: &mut ContainerStatus, pod: &Pod, code: i32, now: Time) {
    container.end(code, if code == 0 { "Completed" } else { "Error" }, now);
    if pod.restarts(code) {
        let message = format!(
            "back-off restarting failed container={} pod={}",
            container.name,
            pod.meta.key()
        );
        let waiting = ContainerState::waiting("CrashLoopBackOff", message);
        container.last_state = std::mem::replace(&mut container.state, waiting);
    }
}

/// Evicts a pod, regardless of its restart policy.
fn evict(status: &mut PodStatus, pod: &Pod, script: &Script, now: Time) {
    end_all(status, pod, KILLED, now);
    status.phase = "Failed".into();
    status.reason = script.reason.clone().unwrap_or_else(|| "Evicted".into());
    status.message = script
        .message
        .clone()
        .unwrap_or_else(|| "The node was low on resource: memory.".into());
    let disrupted = condition(
        "DisruptionTarget",
        true,
        "TerminationByKubelet",
        &status.message.clone(),
    );
    status.set_condition(
        Condition {
            observed_generation: generation(pod),
            ..disrupted
        },
        now,
    );
}

/// Ends all containers. Containers that never ran get the status that a kubelet gives to a
/// container it has lost.
fn end_all(status: &mut PodStatus, pod: &Pod, code: i32, now: Time) {
    let mut containers = Vec::new();
    for container in &pod.containers {
        let mut new = current_status(status, container);
        if new.is_running() {
            new.end(code, if code == 0 { "Completed" } else { "Error" }, now);
        } else if new.exit_code().is_none() {
            match new.last_state.terminated.take() {
                Some(last) => new.state = ContainerState::terminated(last),
                None => new.end(KILLED, "ContainerStatusUnknown", now),
            }
        }
        containers.push(new);
    }
    status.container_statuses = containers;
    end_sidecars(status, now);
}

fn end_sidecars(status: &mut PodStatus, now: Time) {
    for sidecar in status
        .init_container_statuses
        .iter_mut()
        .filter(|init| init.is_running())
    {
        sidecar.end(0, "Completed", now);
    }
}

/// Derives phase and conditions from the containers.
fn conclude(status: &mut PodStatus, pod: &Pod, script: &Script, now: Time) {
    if !status.has_ended() {
        status.phase = phase(&status.container_statuses).into();
        if status.phase == "Failed" {
            status.reason = script.reason.clone().unwrap_or_default();
            status.message = script.message.clone().unwrap_or_default();
        }
    }
    status.observed_generation = generation(pod);
    for condition in conditions(status) {
        status.set_condition(
            Condition {
                observed_generation: generation(pod),
                ..condition
            },
            now,
        );
    }
}

/// Returns the phase of a pod that has started.
fn phase(containers: &[ContainerStatus]) -> &'static str {
    let codes: Option<Vec<i32>> = containers.iter().map(ContainerStatus::exit_code).collect();
    match codes {
        None => "Running",
        Some(codes) if codes.iter().all(|&code| code == 0) => "Succeeded",
        Some(_) => "Failed",
    }
}

/// Returns the conditions that kubelets set.
fn conditions(status: &PodStatus) -> [Condition; 4] {
    let unready: Vec<&str> = status
        .container_statuses
        .iter()
        .filter(|container| !container.ready)
        .map(|container| container.name.as_str())
        .collect();
    let (reason, message) = match status.phase.as_str() {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ if unready.is_empty() => ("", String::new()),
        _ => (
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    };
    let ready = status.phase == "Running" && unready.is_empty();
    let initialized = if status.phase == "Succeeded" {
        "PodCompleted"
    } else {
        ""
    };
    [
        condition("PodReadyToStartContainers", !status.has_ended(), "", ""),
        condition("Initialized", true, initialized, ""),
        condition("Ready", ready, reason, &message),
        condition("ContainersReady", ready, reason, &message),
    ]
}

fn condition(condition_type: &str, is_true: bool, reason: &str, message: &str) -> Condition {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Condition {
        condition_type: condition_type.into(),
        status: if is_true { "True" } else { "False" }.into(),
        reason: text(reason),
        message: text(message),
        ..Condition::default()
    }
}

/// The generation that the status reflects; `None` if the API server sets none for pods.
fn generation(pod: &Pod) -> Option<i64> {
    Some(pod.meta.generation).filter(|&generation| generation > 0)
}

#[cfg(test)]
mod tests;
