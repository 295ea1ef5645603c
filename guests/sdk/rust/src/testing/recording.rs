//! Recorded calls as tests: `flyball record` writes them on a cluster, and a test repeats them natively, under a debugger
//! if need be.
//!
//! ```no_run
//! # use flyball_sdk::prelude::*;
//! # struct Greeter;
//! # impl Controller for Greeter {
//! #     fn describe() -> Description { describe("greeter", "1.0.0") }
//! #     fn reconcile(_: &Host, _: &Request) -> Result<Outcome, Error> { Ok(Outcome::Done) }
//! # }
//! use flyball_sdk::testing::Recording;
//!
//! #[test]
//! fn it_repeats_what_it_did_on_the_cluster() {
//!     Recording::read("tests/calls.fbrec").replay::<Greeter>();
//! }
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use flyball_recording::{Call, Document, Ended, Header, Input, Malformed};
use flyball_types::description;
use flyball_types::excerpt;

use super::exported::Exported;
use super::replayed::{Replayed, Stopped};
use crate::controller::Controller;
use crate::error::Error;
use crate::host::Host;
use crate::key::Key;
use crate::reconcile::{Outcome, Request};
use crate::route::{Delta, RoutedKey};
use crate::time::millis;

/// The part of an error message that the host keeps, in bytes.
const MAX_MESSAGE: usize = 4096;

/// A recording of calls.
pub struct Recording {
    path: String,
    header: Header,
    /// The calls with the numbers of their lines.
    calls: Vec<(usize, Call)>,
}

impl Recording {
    /// Reads a recording, a file that `flyball record` has written.
    ///
    /// # Panics
    /// If it can't be read, or is not a recording.
    pub fn read(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::try_read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// It can't be read, or is not a recording.
    pub fn try_read(path: &Path) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| flyball_types::error_chain(error);
        let file = File::open(path).map_err(|error| text(&error))?;
        let recording = flyball_recording::file::Recording::open(BufReader::new(file));
        let mut recording = recording.map_err(|error| text(&error))?;
        let (header, mut calls) = (recording.header().clone(), Vec::new());
        while let Some(call) = recording.next() {
            let call = call.map_err(|error| text(&error))?;
            calls.push((recording.line(), call));
        }
        Ok(Self {
            path: path.display().to_string(),
            header,
            calls,
        })
    }

    /// The calls, in the order in which they ended.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|(_, call)| call)
    }

    /// The calls, each with the number of its line.
    pub fn calls_with_lines(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.calls.iter().map(|(line, call)| (*line, call))
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Repeats all calls natively. A call that was stopped at a limit is left out, because nothing stops it here:
    /// [`replay_line`](Self::replay_line) repeats it.
    ///
    /// # Panics
    /// At the first point where a call parts from its recording, in the controller's own code, with what it asked before
    /// and what it asks now.
    pub fn replay<C: Controller>(&self) {
        let is_repeatable = |call: &Call| !matches!(call.ended, Ended::Stopped { .. });
        let mut calls = self
            .calls
            .iter()
            .filter(|(_, call)| is_repeatable(call))
            .peekable();
        let path = &self.path;
        assert!(
            calls.peek().is_some(),
            "{path}: the recording has no call to repeat"
        );
        for (line, call) in calls {
            self.repeat(*line, call, Exported::of::<C>(), false);
        }
    }

    /// Repeats all calls natively, as [`replay`](Self::replay) does, but those that failed must no longer fail: a regression
    /// test of a fixed bug. Such a call must end well, or ask all that the failed call asked and then more, to which the
    /// recording has no answer.
    ///
    /// # Panics
    /// As [`replay`](Self::replay), and if a call still fails.
    pub fn replay_fixed<C: Controller>(&self) {
        let path = &self.path;
        let has_failed = |(_, call): &&(usize, Call)| call.ended.is_failure();
        assert!(
            self.calls.iter().any(|call| has_failed(&call)),
            "{path}: the recording has no call that failed"
        );
        for (line, call) in &self.calls {
            match call.ended {
                Ended::Stopped { .. } => {}
                _ => self.repeat(*line, call, Exported::of::<C>(), true),
            }
        }
    }

    /// Repeats the call at a line of the recording, counted from 1. If it was stopped at a limit, it is stopped when it
    /// asks more than the recorded call did; otherwise it goes on until it ends.
    ///
    /// # Panics
    /// As [`replay`](Self::replay), and if there is no call at this line.
    pub fn replay_line<C: Controller>(&self, line: usize) {
        let found = self.calls.iter().find(|(own, _)| *own == line);
        let Some((line, call)) = found else {
            panic!("{} has no call at line {line}", self.path)
        };
        self.repeat(*line, call, Exported::of::<C>(), false);
    }

    /// The configuration that the recorded plugin had: the operator's values, and its defaults.
    fn config(&self) -> BTreeMap<String, String> {
        let mut config = BTreeMap::new();
        for call in self.calls() {
            let (Input::Describe { config: own }, Ended::Described { description }) =
                (&call.call, &call.ended)
            else {
                continue;
            };
            config.extend(own.clone());
            let described = serde_json::from_slice::<description::Description>(&description.0);
            for (key, declared) in described
                .map(|described| described.config)
                .unwrap_or_default()
            {
                if let Some(default) = declared.default {
                    config.entry(key).or_insert(default);
                }
            }
        }
        config
    }

    /// Returns the imports that a call is repeated with.
    ///
    /// # Errors
    /// The recording is malformed.
    pub fn imports(&self, call: &Call) -> Result<Replayed, Malformed> {
        let config = match &call.call {
            // What `describe` gets are the operator's values alone.
            Input::Describe { config } => config.clone(),
            _ => self.config(),
        };
        Replayed::of(&self.header, call, config)
    }

    fn repeat(&self, line: usize, call: &Call, controller: Exported, must_be_fixed: bool) {
        let place = format!("{}, line {line}, {}", self.path, call.call.label());
        let imports = self.imports(call);
        let imports = imports
            .unwrap_or_else(|error| panic!("{place}: {error}"))
            .at(&place);
        let run = AssertUnwindSafe(|| run(&imports, &controller, &call.call));
        let ended = match catch_unwind(run) {
            Ok(ended) => Some(ended),
            Err(panic) if panic.is::<Stopped>() => None,
            Err(_) if must_be_fixed && imports.has_parted() => None,
            Err(panic) => match trapped(&call.ended, &*panic) {
                Some(trapped) if !imports.has_parted() => Some(trapped),
                _ => resume_unwind(panic),
            },
        };
        let problem = match must_be_fixed {
            true => imports.unfixed(ended),
            false => {
                let parted = imports.end(ended);
                parted.map(|parted| imports.report(&parted))
            }
        };
        if let Some(problem) = problem {
            panic!("{problem}");
        }
    }
}

/// The end of a call that panicked: like the recorded one if that trapped with this message. The place in the code may be
/// another one.
fn trapped(recorded: &Ended, panic: &(dyn std::any::Any + Send)) -> Option<Ended> {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned())?;
    let Ended::Trapped { last_error, .. } = recorded else {
        return None;
    };
    let is_same = last_error
        .as_ref()
        .is_some_and(|error| error.contains(message.trim()));
    is_same.then(|| recorded.clone())
}

/// Calls a controller, and returns how the call ended, in the form of a recording.
fn run(imports: &Replayed, controller: &Exported, input: &Input) -> Ended {
    let host = Host::new(imports);
    match input {
        Input::Describe { .. } => {
            let description = controller.describe_with(&host);
            Ended::Described {
                description: Document(
                    serde_json::to_vec(&description).expect("a description is valid JSON"),
                ),
            }
        }
        Input::Reconcile {
            queue,
            key,
            attempt,
        } => {
            let request = Request {
                queue: queue.clone(),
                key: Key::parse(key),
                attempt: *attempt,
            };
            reconciled(controller.reconcile_with(&host, &request))
        }
        Input::Route { deltas } => {
            let deltas: Vec<Delta> = deltas.iter().map(delta).collect();
            match controller.route_with(&host, &deltas) {
                Ok(keys) => Ended::Routed {
                    keys: keys.into_iter().map(routed).collect(),
                },
                Err(error) => Ended::NotRouted {
                    message: excerpt(&error.to_string(), MAX_MESSAGE),
                },
            }
        }
        Input::Cloud { .. } | Input::CloudCapabilities {} => {
            panic!("calls of a cloud's provider are repeated with `flyball replay`")
        }
    }
}

fn reconciled(result: Result<Outcome, Error>) -> Ended {
    let message = |error: Error| excerpt(&error.to_string(), MAX_MESSAGE);
    match result {
        Ok(Outcome::Done) => Ended::Done {},
        Ok(Outcome::RequeueAfter(delay)) => Ended::RequeueAfter { ms: millis(delay) },
        Err(error) if error.is_terminal() => Ended::Terminal {
            message: message(error),
        },
        Err(error) => Ended::Failed {
            message: message(error),
        },
    }
}

fn delta(delta: &flyball_recording::Delta) -> Delta {
    let bytes = |document: &Document| document.0.clone();
    Delta {
        watch: delta.watch.clone(),
        delta_type: delta.delta_type,
        old: delta.old.as_ref().map(bytes),
        new: delta.new.as_ref().map(bytes),
        initial: delta.initial,
    }
}

fn routed(key: RoutedKey) -> flyball_recording::RoutedKey {
    flyball_recording::RoutedKey {
        queue: key.queue,
        key: key.key.to_string(),
        delay_ms: millis(key.delay),
    }
}

#[cfg(test)]
mod tests;
