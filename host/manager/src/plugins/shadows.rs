//! Candidates that run in the shadow of running plugins, at the request of operators or by the policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_plugin::{Limits, Plugin};
use flyball_policy::ShadowPolicy;
use flyball_recording::differences;
use flyball_rehearse::{Findings, Listener, Shadow, Wanted};
use flyball_types::description::Description;
use flyball_types::error_chain;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::plugins::canary::{CandidateLoader, CandidateOrigin, LastFailure};
use crate::plugins::load::Origin;
use crate::plugins::recordings::Recordings;
use crate::plugins::requests::RequestError;
use crate::plugins::start::RunningVersion;
use crate::plugins::supervisor::Reply;

/// The CPU quota of a candidate, in thousandths of a core. It runs at a low priority once it is used up.
const CPU_SHARE: u32 = 100;
/// How many fields of descriptions are shown.
const FIELDS: usize = 50;

/// The candidates, by the names of the running plugins.
#[derive(Default)]
pub(crate) struct Shadows {
    runs: BTreeMap<String, Run>,
    /// The policies whose candidates were started.
    by_policy: BTreeMap<String, ShadowPolicy>,
}

/// A candidate. Dropping it ends it.
struct Run {
    status: Arc<Mutex<ShadowStatus>>,
    shadow: Arc<Shadow>,
    last_failure: LastFailure,
    _task: AbortOnDropHandle<()>,
}

/// What a candidate has done until now, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// The candidate's file, or the address of its package.
    pub file: PathBuf,
    /// The SHA-256 of the file, in hex; empty until it is loaded.
    pub digest: String,
    pub version: String,
    pub state: ShadowState,
    /// Why it has ended, or could not be loaded until now.
    pub reason: Option<String>,
    /// The fields in which its description differs from the running version's.
    pub description: Vec<String>,
    pub findings: Findings,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShadowState {
    Loading,
    Running,
    Ended,
}

/// A candidate, with all that it needs of the running plugin.
pub(crate) struct Candidate {
    loader: CandidateLoader,
    origin: CandidateOrigin,
    /// Of the running version.
    description: Arc<Description>,
    limits: Limits,
    recordings: Recordings,
    duration: Option<Duration>,
}

impl Shadows {
    /// Returns a candidate for a running plugin, which runs for this time or until it is ended.
    pub(crate) fn candidate(
        running: &RunningVersion,
        loader: CandidateLoader,
        origin: CandidateOrigin,
        duration: Option<Duration>,
    ) -> Candidate {
        Candidate {
            loader,
            origin,
            description: running.version.plugin.description.clone(),
            limits: Limits {
                cpu_share: Some(CPU_SHARE),
                max_instances: 1,
                is_reserved: false,
                ..running.tasks.plugin().limits().clone()
            },
            recordings: Recordings::of(running),
            duration,
        }
    }

    /// Whether the candidate of this policy was started, or another policy's of this plugin.
    pub(crate) fn has_started(&self, name: &str, policy: &ShadowPolicy) -> bool {
        self.by_policy.get(name) == Some(policy)
    }

    /// Starts the candidate that the policy names, in place of an earlier one.
    pub(crate) fn start_by_policy(&mut self, policy: &ShadowPolicy, candidate: Candidate) {
        let name = candidate.loader.plugin.clone();
        self.by_policy.insert(name.clone(), policy.clone());
        let (reply, answer) = oneshot::channel();
        self.start(candidate, reply);
        tokio::spawn(async move {
            match answer.await {
                Ok(Ok(sentence)) => tracing::info!(plugin = name, "{sentence}"),
                Ok(Err(problem)) => {
                    tracing::warn!(
                        plugin = name,
                        "can't run the candidate of the policy in the shadow: {problem}"
                    );
                }
                // Another one took its place.
                Err(_) => {}
            }
        });
    }

    /// Ends the candidates that the policy does not name any more.
    pub(crate) fn keep_by_policy(&mut self, is_named: impl Fn(&str) -> bool) {
        let Self { runs, by_policy } = self;
        by_policy.retain(|name, _| {
            let is_kept = is_named(name);
            if !is_kept {
                runs.remove(name);
            }
            is_kept
        });
    }

    /// Starts a candidate, in place of an earlier one. The reply comes once it is loaded, or can't be.
    pub(crate) fn start(&mut self, candidate: Candidate, reply: Reply) {
        let name = candidate.loader.plugin.clone();
        let status = Arc::new(Mutex::new(ShadowStatus {
            file: PathBuf::from(candidate.origin.to_string()),
            digest: String::new(),
            version: String::new(),
            state: ShadowState::Loading,
            reason: None,
            description: Vec::new(),
            findings: Findings::default(),
        }));
        let shadow = Arc::<Shadow>::default();
        let last_failure = candidate.loader.last_failure.clone();
        let task = tokio::spawn(candidate.run(status.clone(), shadow.clone(), reply));
        let run = Run {
            status,
            shadow,
            last_failure,
            _task: AbortOnDropHandle::new(task),
        };
        self.runs.insert(name, run);
    }

    /// Returns what the candidate of a plugin has done until now.
    pub(crate) fn status(&self, name: &str) -> Result<ShadowStatus, RequestError> {
        let run = self.runs.get(name).ok_or_else(|| none(name))?;
        let status = run.status.lock().clone();
        let is_loading = status.state == ShadowState::Loading;
        let failure = run.last_failure.get().filter(|_| is_loading);
        Ok(ShadowStatus {
            findings: run.shadow.findings(),
            reason: failure.or(status.reason),
            ..status
        })
    }

    /// Ends the candidate of a plugin.
    pub(crate) fn end(&mut self, name: &str) -> Result<String, RequestError> {
        self.runs.remove(name).ok_or_else(|| none(name))?;
        Ok(format!("`{name}` has no candidate any more"))
    }

    /// Puts the candidate into the place of the running plugin's file. The supervisor loads it from there, as any file that
    /// changes.
    pub(crate) fn promote(&self, running: &RunningVersion, reply: Reply) {
        let name = running.tasks.name().to_owned();
        let promotion = self.status(&name).and_then(|status| {
            let Origin::File(target) = &running.version.plugin.origin else {
                return Err(RequestError::Refused(format!(
                    "`{name}` does not come from a file in a plugin folder: change its package in the policy, or install \
                     another flyball"
                )));
            };
            if status.digest.is_empty() {
                return Err(RequestError::Refused(format!(
                    "the candidate of `{name}` is not loaded: `flyball shadow {name}` says why"
                )));
            }
            Ok((status, target.clone()))
        });
        let (status, target) = match promotion {
            Ok(promotion) => promotion,
            Err(error) => return drop(reply.send(Err(error))),
        };
        tokio::task::spawn_blocking(move || {
            let placed = place(&status, &target).map_err(|problem| {
                RequestError::Refused(format!(
                    "can't promote the candidate of `{name}`: {problem}"
                ))
            });
            let digest = &status.digest[..status.digest.floor_char_boundary(12)];
            let placed = placed.map(|()| {
                format!(
                    "{} holds the candidate now (sha256:{digest}): `flyball status` says when `{name}` runs it",
                    target.display()
                )
            });
            let _ = reply.send(placed);
        });
    }
}

fn none(name: &str) -> RequestError {
    RequestError::Refused(format!(
        "`{name}` has no candidate in its shadow: start one with `flyball shadow {name} FILE`"
    ))
}

/// Replaces a file by the candidate, in one step. Fails if the candidate's file has changed since it was loaded.
fn place(status: &ShadowStatus, target: &Path) -> Result<(), String> {
    if status.file.starts_with("oci:") {
        return Err("it is a package: change the plugin's `source` in the policy".to_owned());
    }
    let wasm = std::fs::read(&status.file).map_err(|error| error.to_string())?;
    if flyball_plugin::digest(&wasm) != status.digest {
        let file = status.file.display();
        return Err(format!(
            "{file} has changed since it was loaded: start it in the shadow again"
        ));
    }
    replace_file(&wasm, target)
}

/// Replaces a plugin's file in one step. Blocks.
pub(crate) fn replace_file(wasm: &[u8], target: &Path) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // Not `.wasm`: it is no plugin until it is whole.
    let whole = target.with_file_name(format!(".{name}.promoted"));
    std::fs::write(&whole, wasm).map_err(text)?;
    std::fs::rename(&whole, target).map_err(|error| {
        let _ = std::fs::remove_file(&whole);
        text(error)
    })
}

impl Candidate {
    async fn run(self, status: Arc<Mutex<ShadowStatus>>, shadow: Arc<Shadow>, reply: Reply) {
        let name = self.loader.plugin.clone();
        let (plugin, config, listener) = match self.load(&status).await {
            Ok(loaded) => loaded,
            Err(problem) => {
                end(&status, &problem);
                let _ = reply.send(Err(RequestError::Refused(problem)));
                return;
            }
        };
        let _ = reply.send(Ok(format!(
            "{} runs in the shadow of `{name}`: `flyball shadow {name}` shows where they differ",
            self.origin
        )));
        let header = &self.recordings.header;
        let follow = shadow.follow(&plugin, header, &config, listener);
        let reason = match self.duration {
            Some(duration) => match tokio::time::timeout(duration, follow).await {
                Ok(()) => "the plugin was removed",
                Err(_) => "its time is over",
            },
            None => {
                follow.await;
                "the plugin was removed"
            }
        };
        end(&status, reason);
    }

    /// Loads the candidate. Returns it with its configuration and the calls that it will hear of.
    async fn load(
        &self,
        status: &Mutex<ShadowStatus>,
    ) -> Result<(Plugin, BTreeMap<String, String>, Listener), String> {
        let (described, component) = self.loader.load(&self.origin, None).await?;
        let (engine, limits) = (self.loader.engine.clone(), self.limits.clone());
        let linked = tokio::task::spawn_blocking(move || Plugin::new(&engine, component, limits));
        let plugin = linked.await.map_err(|error| error.to_string())?;
        let plugin = plugin.map_err(|error| error_chain(&error))?;
        let mut config = self.loader.config.clone();
        for (key, declared) in &described.description.config {
            if let Some(default) = &declared.default {
                config.entry(key.clone()).or_insert_with(|| default.clone());
            }
        }
        let value =
            |description: &Description| serde_json::to_value(description).unwrap_or_default();
        let (before, now) = (value(&self.description), value(&described.description));
        {
            let mut status = status.lock();
            status.digest = described.digest.clone();
            status.version = flyball_types::printable(&described.description.version);
            status.description = differences(&before, &now, FIELDS);
            status.state = ShadowState::Running;
        }
        let listener = self.recordings.recorder.listen(Wanted {
            key: None,
            all: true,
        });
        Ok((plugin, config, listener))
    }
}

fn end(status: &Mutex<ShadowStatus>, reason: &str) {
    let mut status = status.lock();
    status.state = ShadowState::Ended;
    status.reason = Some(reason.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_takes_the_place_of_a_file_only_if_it_is_what_was_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let (file, target) = (folder.path().join("new.wasm"), folder.path().join("a.wasm"));
        std::fs::write(&file, "new").unwrap();
        std::fs::write(&target, "old").unwrap();
        let status = |digest: String| ShadowStatus {
            file: file.clone(),
            digest,
            version: String::new(),
            state: ShadowState::Running,
            reason: None,
            description: Vec::new(),
            findings: Findings::default(),
        };
        let refused = place(&status("0123".into()), &target).unwrap_err();
        assert!(refused.contains("has changed"), "{refused}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
        place(&status(flyball_plugin::digest(b"new")), &target).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
