//! Recorded calls, which the tests of the other SDKs repeat natively.

use std::path::Path;

use flyball_recording::Ended;
use flyball_sdk::testing::{Recording, Replayed};
use serde_json::{Value, json};

use crate::result::{Failure, Result, ok};

/// Returns the calls of a recording that can be repeated natively: the line of each, and what the controller is called
/// with. A call that was stopped at a limit can't, because nothing would stop it here. If what failed must be `fixed`, one
/// of the recording's calls must have failed.
pub(crate) fn list(file: &Path, fixed: bool) -> Result {
    let recording = read(file)?;
    if fixed && !recording.calls().any(|call| call.ended.is_failure()) {
        let message = format!("{}: the recording has no call that failed", file.display());
        return Err(Failure::Mistake(message));
    }
    let calls = recording.calls_with_lines();
    let is_repeatable = |ended: &Ended| !matches!(ended, Ended::Stopped { .. });
    let calls = calls.filter(|(_, call)| is_repeatable(&call.ended));
    let call = |(line, call): (usize, &flyball_recording::Call)| json!({"line": line, "label": call.call.label(), "call": call.call});
    ok(calls.map(call).collect::<Vec<Value>>())
}

/// Opens a call of a recording.
pub(crate) fn open(file: &Path, line: usize) -> std::result::Result<Replayed, Failure> {
    let recording = read(file)?;
    let mut calls = recording.calls_with_lines();
    let found = calls.find(|(own, _)| *own == line);
    let place = format!("{}, line {line}", file.display());
    let (_, call) = found.ok_or_else(|| format!("{place}: the recording has no call there"))?;
    let replayed = recording.imports(call);
    let replayed = replayed.map_err(|error| format!("{place}: {error}"))?;
    Ok(replayed.at(&format!("{place}, {}", call.call.label())))
}

/// Ends a call. A mistake says where it has parted from the recording. If it must be `fixed`, a call that failed when it
/// was recorded must get past its failure instead.
pub(crate) fn end(recorded: &Replayed, ended: &Value, fixed: bool) -> Result {
    // Documents are read from text alone.
    let ended: Ended =
        serde_json::from_str(&ended.to_string()).map_err(|error| error.to_string())?;
    let problem = match fixed {
        true => recorded.unfixed(Some(ended)),
        false => {
            let parted = recorded.end(Some(ended));
            parted.map(|parted| recorded.report(&parted))
        }
    };
    match problem {
        None => Ok(Value::Null),
        Some(problem) => Err(Failure::Mistake(problem)),
    }
}

fn read(file: &Path) -> std::result::Result<Recording, Failure> {
    Recording::try_read(file)
        .map_err(|error| Failure::Mistake(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests;
