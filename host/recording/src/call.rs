//! The parts of a recording: its header, and its calls with their steps.

use std::collections::BTreeMap;

use flyball_types::description::DeltaType;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Document, message};

/// The first line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format: [`FORMAT`](crate::FORMAT).
    pub flyball_recording: u32,
    /// The version of the host that recorded.
    pub host: String,
    /// The world of the guest, as in `flyball:controller@0.2.0`.
    pub world: String,
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// The SHA-256 of the plugin's file, in hex. Each call has its own, because a plugin can be replaced meanwhile.
    pub digest: String,
    /// Whether it is a controller of the host's binary.
    pub built_in: bool,
    /// Whether the recording has the data of Secrets.
    pub with_secrets: bool,
    /// Whether the plugin may read Secrets. The values of its memo are hidden then, unless `with_secrets`.
    pub reads_secrets: bool,
    /// When the recording was written, in RFC 3339.
    pub at: String,
    /// The limits that the guest ran with.
    pub limits: GuestLimits,
}

/// The limits of a guest that its calls may run into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestLimits {
    /// CPU time of a call, in milliseconds.
    pub cpu_ms: u64,
    /// Memory of an instance, in bytes.
    pub memory: u64,
    /// Bytes that one import may return.
    pub answer_bytes: u64,
    /// Bytes that the host holds for a call.
    pub staged_bytes: u64,
    /// Cursors and batches of an instance.
    pub handles: u64,
}

/// A recorded call: a line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub call: Input,
    /// The SHA-256 of the plugin's file, in hex.
    pub digest: String,
    /// When it began, in RFC 3339.
    #[serde(default)]
    pub began: String,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub took_ms: f64,
    pub kept: Kept,
    /// How many values were replaced, because they are the data of Secrets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: u32,
    /// In the order in which the guest asked.
    pub steps: Vec<Step>,
    pub ended: Ended,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a guest was called with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Input {
    /// `describe`, with the operator's values.
    Describe {
        config: BTreeMap<String, String>,
    },
    Reconcile {
        queue: String,
        key: String,
        attempt: u32,
    },
    Route {
        deltas: Vec<Delta>,
    },
    /// A method of a cloud's provider.
    Cloud {
        method: String,
        arguments: Document,
        nodes: Document,
    },
    /// The capabilities of a cloud's provider.
    CloudCapabilities {},
}

/// A change of an object, for `route`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    pub watch: String,
    #[serde(rename = "type")]
    pub delta_type: DeltaType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Document>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Document>,
    #[serde(default)]
    pub initial: bool,
}

/// The reason why a call was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kept {
    /// The guest reported a failure.
    Failed,
    /// The guest trapped, or was stopped at a limit.
    Trapped,
    /// It took long.
    Slow,
    /// An operator asked for all calls.
    Asked,
}

/// One call of an import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The interface and the function, as in `lister.get`.
    pub import: String,
    /// The arguments: an object.
    pub asked: Box<RawValue>,
    /// `{"ok": …}` or `{"error": …}`; none if the call ended before there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Box<RawValue>>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Ended {
    Done {},
    RequeueAfter {
        ms: u32,
    },
    Failed {
        message: String,
    },
    Terminal {
        message: String,
    },
    /// The keys that `route` returned.
    Routed {
        keys: Vec<RoutedKey>,
    },
    /// `route` reported a failure.
    NotRouted {
        message: String,
    },
    /// The document that `describe` returned.
    Described {
        description: Document,
    },
    /// The document that a cloud returned.
    Answered {
        document: Document,
    },
    /// A cloud reported an error.
    Refused {
        kind: String,
        message: String,
    },
    /// The guest panicked, aborted or broke a rule of its sandbox.
    Trapped {
        message: String,
        /// The last error that the guest logged, such as a panic's message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_error: Option<String>,
        /// The guest's functions, one a line, the innermost first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backtrace: Option<String>,
    },
    /// The guest reached a limit.
    Stopped {
        limit: StopLimit,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backtrace: Option<String>,
    },
}

/// A limit at which a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopLimit {
    /// CPU time. Where in its code the guest was is not repeatable.
    Cpu,
    /// Time with all waiting. Where the guest was is not repeatable.
    Wall,
    Memory,
}

/// A key that `route` returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutedKey {
    #[serde(default)]
    pub queue: String,
    pub key: String,
    #[serde(default)]
    pub delay_ms: u32,
}

impl Input {
    /// Returns the key that was reconciled; none for other calls.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Reconcile { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns the name of the call for people, as in `reconcile team/web`.
    pub fn label(&self) -> String {
        match self {
            Self::Describe { .. } => "describe".into(),
            Self::Reconcile { key, .. } => format!("reconcile {key}"),
            Self::Route { deltas } => format!("route of {} deltas", deltas.len()),
            Self::Cloud { method, .. } => format!("{method} of the cloud"),
            Self::CloudCapabilities {} => "capabilities of the cloud".into(),
        }
    }
}

impl Ended {
    /// Whether the call was stopped after a time, so that where it was stopped can't be repeated.
    pub fn is_by_time(&self) -> bool {
        matches!(
            self,
            Self::Stopped {
                limit: StopLimit::Cpu | StopLimit::Wall,
                ..
            }
        )
    }

    /// Whether the call ended badly: it failed, trapped or was stopped.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Failed { .. }
            | Self::Terminal { .. }
            | Self::NotRouted { .. }
            | Self::Refused { .. }
            | Self::Trapped { .. }
            | Self::Stopped { .. } => true,
            Self::Done {}
            | Self::RequeueAfter { .. }
            | Self::Routed { .. }
            | Self::Described { .. }
            | Self::Answered { .. } => false,
        }
    }

    /// Whether two calls ended alike. The places in a guest's code, and the amounts of time and memory, may differ.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Trapped {
                    message,
                    last_error,
                    ..
                },
                Self::Trapped {
                    message: now,
                    last_error: last_now,
                    ..
                },
            ) => {
                let (last, last_now) = (last_error.as_deref(), last_now.as_deref());
                let is_like_last = match (last, last_now) {
                    (Some(last), Some(now)) => message::is_like(last, now),
                    (last, now) => last == now,
                };
                message::is_like(message, now) && is_like_last
            }
            (Self::Failed { message }, Self::Failed { message: now })
            | (Self::Terminal { message }, Self::Terminal { message: now })
            | (Self::NotRouted { message }, Self::NotRouted { message: now }) => {
                message::is_like(message, now)
            }
            (Self::Stopped { limit, .. }, Self::Stopped { limit: now, .. }) => limit == now,
            (Self::Described { description }, Self::Described { description: now }) => {
                described(description) == described(now)
            }
            (Self::Answered { document }, Self::Answered { document: now }) => {
                Document::value(&document.0) == Document::value(&now.0)
            }
            (before, now) => before == now,
        }
    }
}

/// A description with its defaults left out, so that two that mean the same are equal.
pub(crate) fn described(description: &Document) -> serde_json::Value {
    let read = serde_json::from_slice::<flyball_types::description::Description>(&description.0);
    let value = read.ok().and_then(|read| serde_json::to_value(read).ok());
    value.unwrap_or_else(|| Document::value(&description.0))
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done {} => f.write_str("is done"),
            Self::RequeueAfter { ms } => {
                write!(f, "is done, and asks to be called again after {ms} ms")
            }
            Self::Failed { message } => write!(f, "fails: {message}"),
            Self::Terminal { message } => write!(f, "fails for good: {message}"),
            Self::Routed { keys } => {
                let key = |key: &RoutedKey| match key.delay_ms {
                    0 => format!("{:?}", key.key),
                    ms => format!("{:?} after {ms} ms", key.key),
                };
                let keys: Vec<String> = keys.iter().map(key).collect();
                write!(f, "routes to [{}]", keys.join(", "))
            }
            Self::NotRouted { message } => write!(f, "fails to route: {message}"),
            Self::Described { .. } => f.write_str("describes itself"),
            Self::Answered { .. } => f.write_str("returns a document"),
            Self::Refused { kind, message } => write!(f, "fails with {kind:?}: {message}"),
            Self::Trapped {
                message,
                last_error,
                ..
            } => {
                write!(f, "traps: {message}")?;
                match last_error {
                    Some(error) => write!(f, "; its last error: {error}"),
                    None => Ok(()),
                }
            }
            Self::Stopped { message, .. } => write!(f, "is stopped at a limit: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_alike_whatever_the_place_in_the_code_and_the_amount_of_time() {
        let stopped = |limit, message: &str| Ended::Stopped {
            limit,
            message: message.into(),
            backtrace: Some(message.into()),
        };
        let cpu = |message| stopped(StopLimit::Cpu, message);
        assert!(cpu("used 1.1 s").is_like(&cpu("used 1.2 s")));
        assert!(!cpu("used 1 s").is_like(&stopped(StopLimit::Memory, "used 1 s")));
        let trapped = |last: &str| Ended::Trapped {
            message: "unreachable".into(),
            last_error: Some(last.into()),
            backtrace: None,
        };
        assert!(!trapped("a").is_like(&trapped("b")));
        let described = |text: &str| Ended::Described {
            description: Document(text.into()),
        };
        let plain = "{\"format\":1,\"name\":\"a\",\"queues\":[]}";
        let more = "{\"format\":1, \"name\":\"a\", \"queues\":[], \"concurrency\":0}";
        assert!(described(plain).is_like(&described(more)));
        assert!(!described(plain).is_like(&described("{\"name\":\"b\"}")));
        assert!(!Ended::Done {}.is_like(&Ended::RequeueAfter { ms: 0 }));
    }

    #[test]
    fn an_end_has_one_form_in_json() {
        for (ended, json) in [
            (Ended::Done {}, "{\"done\":{}}"),
            (
                Ended::RequeueAfter { ms: 5 },
                "{\"requeueAfter\":{\"ms\":5}}",
            ),
        ] {
            assert_eq!(serde_json::to_string(&ended).unwrap(), json);
            let read: Ended = serde_json::from_str(json).unwrap();
            assert_eq!(read, ended);
        }
    }
}
