//! Carries out planned actions. The slow ones run in the background, and their results are events.

use std::collections::BTreeMap;

use flyball_types::error_chain;
use tokio::sync::oneshot;

use super::Supervisor;
use crate::plugins::plan::{Action, Progress, SourceKey, Subject, Trouble, Version};

impl Supervisor {
    pub(super) fn carry_out(&mut self, action: Action) {
        // A start can fail, so `start` stores that it began.
        if !matches!(action, Action::Start(_)) {
            self.state.begin(&action);
        }
        match action {
            Action::Load(path, stamp) => {
                let is_expected = self.state.is_expected(&path, self.feeds.grants());
                self.loader.load_file(path, stamp, is_expected);
            }
            Action::Pull(package) => self.loader.pull(package),
            Action::LoadKept(origin, digest) => {
                let version = self.versions.version(&digest);
                self.loader.load_kept(origin, version);
            }
            Action::Describe(key, config) => self.describe(key, config),
            Action::Forget(key) => self.loader.abort(&key),
            Action::Open(name, version) => {
                // The code stays loaded while the state names it.
                if let Some(component) = self.components.get(&version.plugin.digest) {
                    self.opener.open(&name, *version, component.clone());
                }
            }
            Action::Abandon(name) => self.opener.abandon(&name),
            Action::Start(name) => self.start(&name),
            Action::Stop(name, reason) => {
                self.opener.abandon(&name);
                self.running.stop(name, reason.as_deref());
            }
            Action::Record(..) => self.write_record(None),
            Action::Note(subject, trouble) => self.note(&subject, trouble),
            Action::Unnote(Subject::Plugin(name)) => self.reports.forget(&name),
            Action::Unnote(Subject::Policy | Subject::Folder(_)) => {}
        }
    }

    fn describe(&mut self, key: SourceKey, config: BTreeMap<String, String>) {
        let source = self.state.source(&key);
        if let Some(plugin) = source.and_then(|source| source.plugin.clone())
            && let Some(component) = self.components.get(&plugin.digest)
        {
            self.loader.describe(key, config, plugin, component.clone());
        }
    }

    /// Opens a version. If that fails, it is tried again in the background.
    pub(super) async fn open_now(&mut self, name: String, version: Box<Version>) {
        let open = Action::Open(name.clone(), version.clone());
        self.state.begin(&open);
        let Some(component) = self.components.get(&version.plugin.digest).cloned() else {
            return;
        };
        let progress = self.opener.open_now(&name, *version, component).await;
        if let Some(next) = self.state.next_mut(&name) {
            next.progress = progress;
        }
    }

    /// Starts the version that is ready. It takes over from the running version.
    fn start(&mut self, name: &str) {
        let Some(opened) = self.opener.take_ready(name) else {
            // This would be a bug. The version is opened again.
            return self.state.begin(&Action::Abandon(name.to_owned()));
        };
        match self.running.start(name, opened) {
            Ok(()) => self.state.begin(&Action::Start(name.to_owned())),
            Err(error) => {
                let reason = format!("can't be started: {}", error_chain(&error));
                if let Some(next) = self.state.next_mut(name) {
                    next.progress = Progress::HeldUp(Trouble::failed(reason));
                }
            }
        }
    }

    /// Writes the record of versions, and then notifies `done`.
    pub(super) fn write_record(&self, done: Option<oneshot::Sender<()>>) {
        let loaded = self.state.plugins();
        let in_use = loaded.map(|plugin| plugin.digest.clone());
        let in_use = in_use.chain(self.canaries.digests()).collect();
        self.versions.write(&self.state.record, in_use, done);
    }

    /// Logs a problem and reports it, or reports that it was solved.
    fn note(&mut self, subject: &Subject, trouble: Option<Trouble>) {
        match (subject, trouble) {
            (Subject::Plugin(name), None) => self.reports.release(name),
            (Subject::Plugin(name), Some(trouble)) => {
                let runs = self.running.get(name).is_some();
                let goes_on = match runs {
                    true => "; the version before goes on",
                    false => "",
                };
                tracing::warn!(plugin = name, "{}{goes_on}", trouble.reason);
                let waiting = (!runs).then(|| self.status_of(name)).flatten();
                self.reports.hold_up(name, runs, waiting.as_ref());
            }
            (Subject::Policy, Some(trouble)) => {
                tracing::error!("{}; the policy before stays in force", trouble.reason);
            }
            (Subject::Folder(folder), Some(trouble)) => {
                let (folder, error) = (folder.display(), trouble.reason);
                tracing::warn!(%folder, error, "can't read a plugin folder: its plugins go on");
            }
            (Subject::Policy | Subject::Folder(_), None) => {}
        }
    }
}
