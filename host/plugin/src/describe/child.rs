//! The process that calls `describe` of one component. It has limited itself already.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::imports::DescribeImports;
use super::{CPU, LEVELS, MAX_DESCRIPTION, Message, Task, WALL};
use crate::component::Component;
use crate::deserialize::deserialize;
use crate::engine::{Engine, EngineOptions};
use crate::error::CallFailure;
use crate::imports::LogLevel;
use crate::limits::Limits;
use crate::plugin::Plugin;

/// The argument that selects this task.
pub(crate) const TASK: &str = "describe";
/// Bytes that the guest may log.
const MAX_LOG: usize = 256 * 1024;

/// Reads the task and the code from stdin, calls `describe` and writes the result to stdout.
pub(crate) fn describe() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut task = Vec::new();
    input.read_until(b'\n', &mut task)?;
    let task: Task = serde_json::from_slice(&task)?;
    let mut code = Vec::new();
    input.read_to_end(&mut code)?;
    match called(task, code)? {
        Ok(description) if description.len() > MAX_DESCRIPTION => {
            let reason = format!(
                "describe returned {} bytes, more than {MAX_DESCRIPTION}",
                description.len()
            );
            let is_slow = false;
            say(&Message::Failed { reason, is_slow }, b"")
        }
        Ok(description) => say(&Message::Described(description.len()), &description),
        Err(message) => say(&message, b""),
    }
}

/// Calls `describe`, and returns the description or the message that it failed.
fn called(task: Task, code: Vec<u8>) -> io::Result<Result<Vec<u8>, Message>> {
    let limits = Limits {
        cpu_per_call: CPU,
        wall_per_call: WALL,
        max_instances: 1,
        ..Limits::default()
    };
    let engine = Engine::new(EngineOptions {
        threads: 1,
        // As many as the instances of a plugin may occupy.
        max_instances: limits.max_slots as u32,
        shared_memory: usize::MAX,
        ..EngineOptions::default()
    });
    let engine = engine.map_err(io::Error::other)?;
    let code = match deserialize(&engine.shared.wasmtime, &code) {
        Ok(code) => code,
        Err(error) => return Ok(Err(Message::Rejected(format!("{error:#}")))),
    };
    let component = Component::new(code, "", 0).with_footprint(task.footprint);
    let plugin = match Plugin::new(&engine, component, limits) {
        Ok(plugin) => plugin,
        Err(error) => return Ok(Err(Message::Unfit(error.to_string()))),
    };
    let left = AtomicUsize::new(MAX_LOG);
    let log = move |level: LogLevel, message: &str, fields: &[(String, String)]| {
        let bytes = fields.iter().map(|(name, value)| name.len() + value.len());
        let bytes = message.len() + bytes.sum::<usize>();
        let take = |left: usize| left.checked_sub(bytes);
        if left.fetch_update(Relaxed, Relaxed, take).is_ok() {
            let level = LEVELS.iter().position(|own| *own == level);
            let message = Message::Log {
                level: level.unwrap_or(LEVELS.len()),
                message: message.to_owned(),
                fields: fields.to_vec(),
            };
            // If the host does not read any more, it is about to end this process.
            let _ = say(&message, b"");
        }
    };
    let imports = DescribeImports {
        config: task.config,
        log: Arc::new(log),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let described = runtime.block_on(plugin.describe(Arc::new(imports)));
    Ok(described.map_err(|error| Message::Failed {
        is_slow: matches!(error.failure, CallFailure::CpuLimit { .. }),
        reason: error.to_string(),
    }))
}

/// Writes a message, and the bytes that follow it.
fn say(message: &Message, bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, message)?;
    output.write_all(b"\n")?;
    output.write_all(bytes)?;
    output.flush()
}
