//! The life of a pod: what its status should be by now, and when that changes next. Pure functions
//! of the pod, its script and the time.

use flyball_sdk::prelude::*;

use crate::pod::{Container, Pod};
use crate::script::Script;
use crate::settings::Settings;
use crate::status::{Condition, ContainerStatus, State, Status};

/// What containers exit with when their pod is deleted: 128 and the number of SIGTERM, as of a
/// process that does not handle it.
pub const TERMINATED: i32 = 143;
/// What containers exit with when they are killed, or never ran: 128 and the number of SIGKILL.
pub const KILLED: i32 = 137;

/// What is to be done about a pod now, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What its status should be.
    pub status: Status,
    /// Whether the object is to be deleted, once the status is written.
    pub delete: bool,
    /// When something changes next.
    pub wake: Option<Time>,
}

/// What is to be done about a pod now.
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
    // With a grace period of 0 the server needs no more of us: only finalizers keep the object.
    plan.delete = plan.status.has_ended()
        && pod.meta.is_deleting()
        && pod.meta.deletion_grace_period_seconds != Some(0);
    plan
}

/// When a pod that is being deleted has ended; none if it is not being deleted.
fn end_of_deletion(pod: &Pod, script: &Script) -> Option<Time> {
    let (asked, grace) = pod.deletion()?;
    Some(asked + script.terminate_after.min(grace))
}

/// When the pod starts; none if it has, or if it can't be told since when it waits.
fn start_of(pod: &Pod, script: &Script) -> Option<Time> {
    match pod.status.start_time {
        Some(_) => None,
        None => Some(pod.bound_at()? + script.start_after),
    }
}

/// Starts the pod if it has not started, and goes on with each of its containers.
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
            .map(|init| initialize(pod, init, now))
            .collect();
    }
    let mut containers = Vec::new();
    for container in &pod.containers {
        let old = status
            .container_statuses
            .iter()
            .find(|status| status.name == container.name);
        let mut new = old
            .cloned()
            .unwrap_or_else(|| ContainerStatus::created(container));
        let due = go_on(&mut new, pod, script, settings, now);
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

/// An init container, once the containers start: a sidecar runs, any other one has ended well.
fn initialize(pod: &Pod, container: &Container, now: Time) -> ContainerStatus {
    let mut status = ContainerStatus::created(container);
    status.start(&pod.meta.uid, now);
    if !container.is_sidecar() {
        status.end(0, "Completed", now);
    }
    status.ready = true;
    status
}

/// Goes on with a container: starts it if that is due, ends it if that is due, and says when
/// something is due next.
fn go_on(
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
        .filter(|exit| exit.concerns(&container.name, container.restart_count));
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

/// When a container that waits for its restart starts again.
fn restart_of(container: &ContainerStatus, script: &Script, settings: &Settings) -> Option<Time> {
    container.state.waiting.as_ref()?;
    let finished = container.last_state.terminated.as_ref()?.finished_at?;
    // The status keeps times to the second only: that of the scripted exit may be known better.
    let scripted = script
        .exit
        .as_ref()
        .and_then(|exit| Some(container.started_at()? + exit.after));
    let finished = scripted.map_or(finished, |scripted| finished.max(scripted));
    Some(finished + settings.backoff(container.restart_count))
}

/// A container exits: for good, or to be started again.
fn end_or_restart(container: &mut ContainerStatus, pod: &Pod, code: i32, now: Time) {
    container.end(code, if code == 0 { "Completed" } else { "Error" }, now);
    if pod.restarts(code) {
        let message = format!(
            "back-off restarting failed container={} pod={}",
            container.name,
            pod.meta.key()
        );
        let waiting = State::waiting("CrashLoopBackOff", message);
        container.last_state = std::mem::replace(&mut container.state, waiting);
    }
}

/// Ends a pod because its node lacks something, whatever its restart policy.
fn evict(status: &mut Status, pod: &Pod, script: &Script, now: Time) {
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

/// Ends all containers that have not ended; one that never ran as a kubelet says it of a container
/// that it has lost.
fn end_all(status: &mut Status, pod: &Pod, code: i32, now: Time) {
    let mut containers = Vec::new();
    for container in &pod.containers {
        let old = status
            .container_statuses
            .iter()
            .find(|status| status.name == container.name);
        let mut new = old
            .cloned()
            .unwrap_or_else(|| ContainerStatus::created(container));
        if new.is_running() {
            new.end(code, if code == 0 { "Completed" } else { "Error" }, now);
        } else if new.exit_code().is_none() {
            match new.last_state.terminated.take() {
                Some(last) => new.state = State::terminated(last),
                None => new.end(KILLED, "ContainerStatusUnknown", now),
            }
        }
        containers.push(new);
    }
    status.container_statuses = containers;
    end_sidecars(status, now);
}

fn end_sidecars(status: &mut Status, now: Time) {
    for sidecar in status
        .init_container_statuses
        .iter_mut()
        .filter(|init| init.is_running())
    {
        sidecar.end(0, "Completed", now);
    }
}

/// Draws phase and conditions from the containers.
fn conclude(status: &mut Status, pod: &Pod, script: &Script, now: Time) {
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

/// The phase of a pod that has started.
fn phase(containers: &[ContainerStatus]) -> &'static str {
    let codes: Option<Vec<i32>> = containers.iter().map(ContainerStatus::exit_code).collect();
    match codes {
        None => "Running",
        Some(codes) if codes.iter().all(|&code| code == 0) => "Succeeded",
        Some(_) => "Failed",
    }
}

/// The conditions that kubelets set.
fn conditions(status: &Status) -> [Condition; 4] {
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

/// The generation that the status is for; none of a server that counts none for pods.
fn generation(pod: &Pod) -> Option<i64> {
    Some(pod.meta.generation).filter(|&generation| generation > 0)
}

#[cfg(test)]
mod tests;
