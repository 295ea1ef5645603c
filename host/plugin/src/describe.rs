//! Calls `describe` of a component before anything is granted to it. A component that may be malicious is loaded and
//! called in a child process with limits of CPU time, wall-clock time and memory, so that nothing of its code is in the
//! host until it has a grant.
//!
//! The child gets a [`Task`] and the code over stdin. It returns [`Message`]s over stdout, one a line; the description's
//! bytes follow the last one.

pub(crate) mod child;
mod imports;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compile::{ChildWork, Compiler, CompilerProcess, Ended, Stop};
use crate::component::{Component, Stored};
use crate::engine::Engine;
use crate::error::{CallFailure, DescribeError, LoadError};
use crate::imports::LogLevel;
use crate::limits::Limits;
use crate::plugin::Plugin;
use imports::DescribeImports;

/// CPU time of a `describe`.
const CPU: Duration = Duration::from_secs(10);
/// Time of a `describe`, waiting included.
const WALL: Duration = Duration::from_secs(30);
/// More time of both kinds, in which the child loads the code.
const STARTUP: Duration = Duration::from_secs(20);
/// Memory of the child, in bytes. It includes what the engine reserves for the tables and stacks of instances, whether
/// they are in use or not.
const MEMORY: usize = 1 << 30;
/// The largest description that the host reads, in bytes: as large as a valid one may be.
const MAX_DESCRIPTION: usize = 1 << 20;
/// Bytes that the child returns at most: the description, and what the guest logs.
const MAX_OUTPUT: usize = 4 * MAX_DESCRIPTION;

/// The inputs of a `describe` call.
pub struct Describe {
    /// The operator's configuration.
    pub config: BTreeMap<String, String>,
    /// Receives the log of the call.
    pub log: Arc<LogSink>,
    /// Whether the component is part of the host, and is called in the host's process.
    pub is_builtin: bool,
}

pub type LogSink = dyn Fn(LogLevel, &str, &[(String, String)]) + Send + Sync;

/// The child's task.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    config: BTreeMap<String, String>,
    footprint: usize,
}

/// A message of the child.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Message {
    Log {
        /// The index in [`LEVELS`].
        level: usize,
        message: String,
        fields: Vec<(String, String)>,
    },
    /// A description of this many bytes follows.
    Described(usize),
    /// The call failed.
    Failed { reason: String, is_slow: bool },
    /// The component can't be instantiated by this host.
    Unfit(String),
    /// The engine does not accept the code.
    Rejected(String),
}

const LEVELS: [LogLevel; 5] = [
    LogLevel::Trace,
    LogLevel::Debug,
    LogLevel::Info,
    LogLevel::Warn,
    LogLevel::Error,
];

impl Engine {
    /// Returns a component's description: unchecked JSON. The component has no grants.
    ///
    /// Unless the component is a built-in, or the engine compiles in this process, it is called in a child process.
    /// Dropping the future ends the child.
    pub async fn describe(
        &self,
        component: &Component,
        describe: Describe,
    ) -> Result<Vec<u8>, DescribeError> {
        let process = match &self.shared.compiler {
            Compiler::Process(process) if !describe.is_builtin => process.clone(),
            Compiler::Process(_) | Compiler::InProcess => {
                return describe_here(self, component, describe).await;
            }
        };
        let code = component.clone();
        let work = move |stop: &Stop| describe_apart(&process, &code, describe, stop);
        let described = self.shared.in_child(work).await;
        let described = described.unwrap_or_else(|error| Err(error.into()));
        if matches!(described, Err(DescribeError::Rejected(_))) {
            self.shared.forget(component.digest());
        }
        described
    }
}

/// Calls `describe` in this process.
async fn describe_here(
    engine: &Engine,
    component: &Component,
    describe: Describe,
) -> Result<Vec<u8>, DescribeError> {
    let limits = Limits {
        cpu_per_call: CPU,
        wall_per_call: WALL,
        max_instances: 1,
        is_reserved: describe.is_builtin,
        ..Limits::default()
    };
    let (engine, component) = (engine.clone(), component.clone());
    // Mapping and linking the code of a large component takes a while.
    let plugin = tokio::task::spawn_blocking(move || Plugin::new(&engine, component, limits));
    let plugin = plugin.await.map_err(|_| LoadError::Shutdown)??;
    let imports = DescribeImports {
        config: describe.config,
        log: describe.log,
    };
    let description = plugin.describe(Arc::new(imports)).await;
    // All plugins are described at the start, and the code of many does not run again soon.
    let _ = tokio::task::spawn_blocking(move || plugin.trim_idle(Duration::ZERO)).await;
    description.map_err(|error| DescribeError::Failed {
        is_slow: matches!(error.failure, CallFailure::CpuLimit { .. }),
        reason: error.to_string(),
    })
}

/// Calls `describe` in a child process. Blocks until the child has ended.
fn describe_apart(
    process: &CompilerProcess,
    component: &Component,
    describe: Describe,
    stop: &Stop,
) -> Result<Vec<u8>, DescribeError> {
    let task = Task {
        config: describe.config,
        footprint: component.footprint,
    };
    let work = ChildWork {
        task: child::TASK,
        cpu: CPU + STARTUP,
        wall: WALL + STARTUP,
        memory: MEMORY,
        output: MAX_OUTPUT,
        stop,
    };
    let ended = process.run(&work, |input| {
        serde_json::to_writer(&mut *input, &task)?;
        input.write_all(b"\n")?;
        match component.code.stored()? {
            Stored::File(file) => io::copy(&mut File::open(file.path())?, input).map(drop),
            Stored::Bytes(code) => input.write_all(&code),
        }
    });
    result(ended.map_err(DescribeError::Process)?, &*describe.log)
}

/// Returns the description that a child returned, and passes on what the guest logged.
fn result(ended: Ended, log: &LogSink) -> Result<Vec<u8>, DescribeError> {
    let is_out_of_memory = ended.is_out_of_memory();
    let Ended {
        output,
        messages,
        in_time,
        status,
    } = ended;
    let output = output.map_err(DescribeError::Process)?;
    let mut rest = output.as_slice();
    while let Some((line, after)) = split_line(rest) {
        rest = after;
        let Ok(message) = serde_json::from_slice(line) else {
            break;
        };
        match message {
            Message::Log {
                level,
                message,
                fields,
            } => log(
                LEVELS.get(level).copied().unwrap_or(LogLevel::Error),
                &message,
                &fields,
            ),
            Message::Described(bytes) if rest.len() == bytes && status.success() => {
                return Ok(rest.to_vec());
            }
            Message::Described(_) => break,
            Message::Failed { reason, is_slow } => {
                return Err(DescribeError::Failed { reason, is_slow });
            }
            Message::Unfit(reason) => return Err(LoadError::Unfit(reason).into()),
            Message::Rejected(reason) => return Err(DescribeError::Rejected(reason)),
        }
    }
    Err(match () {
        () if !in_time => DescribeError::Time(WALL),
        () if is_out_of_memory => DescribeError::Memory(MEMORY),
        () => DescribeError::Ended(format!("{status}: {messages}")),
    })
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use parking_lot::Mutex;

    use super::*;

    fn ended(output: &str, status: i32) -> Ended {
        Ended {
            output: Ok(output.as_bytes().to_vec()),
            messages: "its message".into(),
            in_time: true,
            status: ExitStatus::from_raw(status),
        }
    }

    fn read(ended: Ended) -> (Result<Vec<u8>, String>, Vec<String>) {
        let logged = Arc::new(Mutex::new(Vec::new()));
        let sink = logged.clone();
        let log = move |level: LogLevel, message: &str, fields: &[(String, String)]| {
            sink.lock().push(format!("{level:?} {message} {fields:?}"));
        };
        let result = result(ended, &log).map_err(|error| error.to_string());
        let logged = logged.lock().clone();
        (result, logged)
    }

    #[test]
    fn a_description_follows_what_the_guest_logged() {
        let log = Message::Log {
            level: 3,
            message: "a\nline".into(),
            fields: vec![("key".into(), "value".into())],
        };
        let log = serde_json::to_string(&log).unwrap();
        let (described, logged) = read(ended(&format!("{log}\n{{\"Described\":3}}\n{{\n}}"), 0));
        assert_eq!(described.unwrap(), b"{\n}");
        assert_eq!(logged, ["Warn a\nline [(\"key\", \"value\")]"]);
        let (failed, logged) = read(ended(&format!("{log}\n"), 9));
        assert!(failed.unwrap_err().contains("its message"));
        assert_eq!(logged.len(), 1);
    }

    #[test]
    fn half_a_description_and_that_of_a_child_that_failed_are_not_used() {
        for (output, status) in [
            ("{\"Described\":4}\nabc", 0),
            ("{\"Described\":3}\nabcd", 0),
            ("{\"Described\":3}\nabc", 9),
            ("{\"Described\":3}", 0),
            ("", 0),
        ] {
            let (described, _) = read(ended(output, status));
            assert!(described.is_err(), "{output}");
        }
    }

    #[test]
    fn the_reason_of_a_failure_is_passed_on() {
        let (failed, _) = read(ended("{\"Unfit\":\"it has 9 memories\"}\n", 0));
        assert_eq!(failed.unwrap_err(), "it has 9 memories");
        let late = Ended {
            in_time: false,
            ..ended("", 9)
        };
        assert!(read(late).0.unwrap_err().contains("30 s"));
    }
}
