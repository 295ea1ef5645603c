//! Repeats a recorded call against a plugin.
//!
//! What is not repeated: the time that a call takes, and with it the instruction at which a call was stopped at its limit
//! of time (see [`Tape`]: it is stopped after its last recorded step instead, or must reach the limit again); and requests
//! over HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{CloudCall, Delta, Limits, LogLevel, Plugin};
use flyball_recording::{Call, Ended, Header, Input, Malformed, Parted, StopLimit, Tape};

use crate::ended;
use crate::replaying::Replay;

/// The most memory that a recording may give an instance, in bytes.
const MAX_MEMORY: usize = 4 << 30;
/// The CPU time of a call that did not reach its limit. This machine may be slower than the one that recorded.
const CPU: Duration = Duration::from_secs(30);
/// The longest CPU time of a call that did, whatever the recording says.
const MAX_CPU: Duration = Duration::from_secs(60);
/// More time than a call takes that never waits.
const WALL: Duration = Duration::from_secs(120);

/// How a call was repeated.
#[derive(Debug)]
pub struct Verdict {
    /// The first point at which it parts from the recording; none if it has been repeated.
    pub parted: Option<Parted>,
    /// How it ended; none if it was stopped where the recorded call was stopped or where it parted.
    pub ended: Option<Ended>,
    /// The lines that the guest has logged.
    pub log: Vec<(LogLevel, String)>,
}

impl Verdict {
    /// Whether a call that failed when it was recorded gets past its failure.
    pub fn is_fixed(&self) -> bool {
        self.parted.as_ref().is_some_and(Parted::is_past_failure)
    }

    /// Says what could not be repeated although nothing differed; none if all was.
    pub fn note(&self, call: &Call) -> Option<&'static str> {
        let is_by_time = self.parted.is_none() && call.ended.is_by_time();
        is_by_time.then_some(
            "the recorded call was stopped at a limit of time; the instruction at which it was stopped is not repeated",
        )
    }
}

/// Returns limits with which a call can be repeated: those that it ran with, as far as they shape what it does.
pub fn limits(header: &Header, call: &Call) -> Limits {
    let recorded = &header.limits;
    let default = Limits::default();
    let bytes = |recorded: u64, default: usize| match usize::try_from(recorded) {
        Ok(0) => default,
        Ok(bytes) => bytes.min(MAX_MEMORY),
        Err(_) => MAX_MEMORY,
    };
    let is_by_cpu = matches!(
        call.ended,
        Ended::Stopped {
            limit: StopLimit::Cpu,
            ..
        }
    );
    Limits {
        cpu_per_call: match recorded.cpu_ms {
            1.. if is_by_cpu => Duration::from_millis(recorded.cpu_ms).min(MAX_CPU),
            _ => CPU,
        },
        wall_per_call: WALL,
        memory: bytes(recorded.memory, default.memory),
        total_memory: Some(MAX_MEMORY),
        answer_bytes: bytes(recorded.answer_bytes, default.answer_bytes),
        staged_bytes: bytes(recorded.staged_bytes, default.staged_bytes),
        handles: usize::try_from(recorded.handles).map_or(
            default.handles,
            |handles| match handles {
                0 => default.handles,
                handles => handles.min(1 << 20),
            },
        ),
        max_instances: 1,
        ..default
    }
}

/// Repeats a call. The plugin should have no instance yet, and the [`limits`] of the call. `config` has the values of the
/// configuration that the recorded call did not ask for. Dropping the future stops the call.
///
/// # Errors
/// The recording is malformed.
pub async fn replay(
    plugin: &Plugin,
    header: &Header,
    call: &Call,
    config: &BTreeMap<String, String>,
) -> Result<Verdict, Malformed> {
    let mut config = config.clone();
    if let Input::Describe { config: own } = &call.call {
        config.extend(own.clone());
    }
    let replay = Replay::new(Tape::new(header, call)?, config);
    let ended = tokio::select! {
        biased;
        () = replay.stopped() => None,
        ended = run(plugin, &replay, &call.call) => ended,
    };
    Ok(Verdict {
        log: replay.take_log(),
        parted: replay.end(ended.clone()),
        ended,
    })
}

async fn run(plugin: &Plugin, replay: &Replay, input: &Input) -> Option<Ended> {
    let imports = replay.imports();
    match input {
        Input::Describe { .. } => ended::of_describe(plugin.describe(imports).await),
        Input::Reconcile {
            queue,
            key,
            attempt,
        } => ended::of_reconcile(&plugin.reconcile(imports, queue, key, *attempt).await),
        Input::Route { deltas } => {
            let deltas = deltas.iter().map(delta).collect();
            ended::of_route(&plugin.route(imports, deltas).await)
        }
        Input::Cloud {
            method,
            arguments,
            nodes,
        } => {
            let call = CloudCall {
                method: method.clone(),
                arguments: arguments.0.clone().into(),
                nodes: nodes.0.clone().into(),
            };
            ended::of_cloud(&plugin.cloud_call(imports, call).await)
        }
        Input::CloudCapabilities {} => ended::of_cloud(&plugin.cloud_capabilities(imports).await),
    }
}

fn delta(delta: &flyball_recording::Delta) -> Delta {
    let bytes = |document: &flyball_recording::Document| Bytes::from(document.0.clone());
    Delta {
        watch: delta.watch.clone(),
        delta_type: delta.delta_type,
        old: delta.old.as_ref().map(bytes),
        new: delta.new.as_ref().map(bytes),
        initial: delta.initial,
    }
}

#[cfg(test)]
mod tests {
    use flyball_recording::{GuestLimits, Kept};

    use super::*;

    fn call(ended: Ended) -> Call {
        Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "a/b".into(),
                attempt: 0,
            },
            digest: String::new(),
            began: String::new(),
            took_ms: 0.0,
            kept: Kept::Asked,
            hidden: 0,
            steps: Vec::new(),
            ended,
        }
    }

    #[test]
    fn a_recording_gives_no_more_than_a_machine_has() {
        let lies = GuestLimits {
            cpu_ms: u64::MAX,
            memory: u64::MAX,
            answer_bytes: 0,
            staged_bytes: 1 << 60,
            handles: u64::MAX,
        };
        let header = Header {
            limits: lies,
            ..Header::default()
        };
        let stopped = Ended::Stopped {
            limit: StopLimit::Cpu,
            message: String::new(),
            backtrace: None,
        };
        let limits = limits(&header, &call(stopped));
        assert_eq!(
            (limits.memory, limits.staged_bytes),
            (MAX_MEMORY, MAX_MEMORY)
        );
        assert_eq!(limits.cpu_per_call, MAX_CPU);
        assert_eq!(limits.answer_bytes, Limits::default().answer_bytes);
        assert!(limits.handles <= 1 << 20);
    }

    #[test]
    fn a_slower_machine_has_more_time_unless_the_call_reached_its_limit() {
        let header = Header {
            limits: GuestLimits {
                cpu_ms: 1000,
                ..GuestLimits::default()
            },
            ..Header::default()
        };
        assert_eq!(limits(&header, &call(Ended::Done {})).cpu_per_call, CPU);
        let stopped = Ended::Stopped {
            limit: StopLimit::Cpu,
            message: String::new(),
            backtrace: None,
        };
        let limits = limits(&header, &call(stopped));
        assert_eq!(limits.cpu_per_call, Duration::from_secs(1));
    }
}
