//! The recordings of a running plugin: its recorder, and what each recording begins with.

use std::sync::Arc;

use flyball_recording::{Call, Document, Ended, FORMAT, GuestLimits, Header, Input, Kept};
use flyball_rehearse::Recorder;
use flyball_types::Kind;
use flyball_types::description::Description;

use crate::plugins::start::RunningVersion;

/// The recorder of a running plugin, with the beginning of its recordings.
#[derive(Debug)]
pub struct Recordings {
    pub recorder: Arc<Recorder>,
    /// The header of a recording, without its time, of calls with the data of Secrets.
    pub header: Header,
    /// The call that described the version that runs. It is the first one of a recording.
    pub described: Call,
}

impl Recordings {
    pub(crate) fn of(running: &RunningVersion) -> Self {
        let (context, plugin) = (running.tasks.context(), &running.version.plugin);
        let limits = running.tasks.plugin().limits();
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let header = Header {
            flyball_recording: FORMAT,
            host: env!("CARGO_PKG_VERSION").into(),
            world: flyball_plugin::provided_world(),
            plugin: context.name().into(),
            version: plugin.description.version.clone(),
            digest: plugin.digest.clone(),
            built_in: running.version.grant.is_builtin,
            with_secrets: true,
            reads_secrets: may_have_secrets(&plugin.description),
            at: String::new(),
            limits: GuestLimits {
                cpu_ms: u64::try_from(limits.cpu_per_call.as_millis()).unwrap_or(u64::MAX),
                memory: bytes(limits.memory),
                answer_bytes: bytes(limits.answer_bytes),
                staged_bytes: bytes(limits.staged_bytes),
                handles: bytes(limits.handles),
            },
        };
        // Only maps with other keys than texts fail.
        let description = serde_json::to_vec(&*plugin.description).unwrap_or_default();
        let described = Call {
            call: Input::Describe {
                config: plugin.config.clone(),
            },
            digest: plugin.digest.clone(),
            began: String::new(),
            took_ms: 0.0,
            kept: Kept::Asked,
            hidden: 0,
            steps: Vec::new(),
            ended: Ended::Described {
                description: Document(description),
            },
        };
        Self {
            recorder: context.recorder.clone(),
            header,
            described,
        }
    }
}

/// Whether calls of a plugin may have the data of Secrets: it watches them, or asks to read or write them.
fn may_have_secrets(description: &Description) -> bool {
    let secret = Kind::new("", "v1", "Secret");
    let mut watches = description.watches.iter();
    let mut permissions = description.permissions.iter();
    watches.any(|watch| watch.kind.as_ref() == Some(&secret))
        || permissions.any(|permission| permission.kind.matches(&secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(more: &str) -> Description {
        serde_json::from_str(&format!(
            "{{\"format\":1,\"name\":\"a\",\"queues\":[]{more}}}"
        ))
        .unwrap()
    }

    #[test]
    fn a_plugin_that_asks_for_secrets_may_have_their_data() {
        for (json, expected) in [
            ("", false),
            (",\"watches\":[{\"kind\":\"v1/Secret\"}]", true),
            (",\"watches\":[{\"kind\":\"v1/Pod\"}]", false),
            (
                ",\"permissions\":[{\"kind\":\"v1/Secret\",\"verbs\":[\"create\"]}]",
                true,
            ),
            (
                ",\"permissions\":[{\"kind\":\"*\",\"verbs\":[\"get\"]}]",
                true,
            ),
            (
                ",\"permissions\":[{\"kind\":\"v1/Pod\",\"verbs\":[\"get\"]}]",
                false,
            ),
        ] {
            assert_eq!(may_have_secrets(&description(json)), expected, "{json}");
        }
    }
}
