//! The health checks of the running parts, and reports of their results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::seldom::Seldom;
use crate::slis::Slis;

/// The name of the check that always succeeds.
const PING: &str = "ping";

/// A check: `Ok` if the part is healthy, else a sentence for the log. It should return quickly, and may be called from
/// several threads.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The text of a note; none if there is nothing to note at present.
type NoteText = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// The name of a check or of a note. Plugins can't use names of other plugins or of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckName {
    /// A part of the host.
    Host(&'static str),
    /// A built-in controller, which has the name of its check in kube-controller-manager.
    Controller(String),
    /// The informers of a controller or plugin: `informers/NAME`.
    Informers(String),
    /// The instance slots of a controller or plugin: `instances/NAME`.
    Instances(String),
    /// A dropped-in plugin: `plugins/NAME`.
    Plugin(String),
}

/// The checks by name. Clones share the checks.
///
/// ```
/// let health = flyball_serving::HealthChecks::default();
/// let registration = health.add("replicaset-controller", || Ok(()));
/// assert_eq!(health.report("healthz", &[]).text(true), "[+]ping ok\n[+]replicaset-controller ok\nhealthz check passed\n");
/// drop(registration);
/// assert!(health.check("replicaset-controller").is_none());
/// ```
#[derive(Clone, Default)]
pub struct HealthChecks {
    checks: Arc<RwLock<BTreeMap<CheckName, (Scope, Check)>>>,
    notes: Arc<RwLock<BTreeMap<CheckName, NoteText>>>,
    /// Lets lines about failed checks pass. Anyone may request a report.
    pub(crate) failures: Arc<Seldom>,
    slis: Slis,
}

/// The endpoints that run a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Ready,
}

/// Removes its check when it is dropped.
#[must_use = "the check is removed when this is dropped"]
pub struct Registration {
    name: CheckName,
    check: Check,
    checks: HealthChecks,
}

/// Removes its note when it is dropped.
#[must_use = "the note is removed when this is dropped"]
pub struct Note {
    name: CheckName,
    text: NoteText,
    checks: HealthChecks,
}

/// The results of the checks.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    endpoint: String,
    lines: String,
    failed: Vec<(String, String)>,
}

impl HealthChecks {
    /// Adds a check of every endpoint until the registration is dropped. Replaces a check of the same name. While it
    /// fails, a kubelet may restart the process.
    pub fn add(
        &self,
        name: impl Into<CheckName>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Registration {
        self.insert(Scope::All, name.into(), Arc::new(check))
    }

    /// Like [`add`](Self::add), but for `/readyz` only: for a failure that a restart would not fix.
    pub fn add_readiness(
        &self,
        name: impl Into<CheckName>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Registration {
        self.insert(Scope::Ready, name.into(), Arc::new(check))
    }

    /// Adds a note to `/readyz?verbose` until it is dropped. Replaces a note of the same name. A note is not a check:
    /// it never fails. Everyone may read it.
    pub fn note(&self, name: impl Into<CheckName>, text: &'static str) -> Note {
        self.note_while(name, text, || true)
    }

    /// Like [`note`](Self::note), but the note is shown only while `is_so`, which should return quickly.
    pub fn note_while(
        &self,
        name: impl Into<CheckName>,
        text: &'static str,
        is_so: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Note {
        let (name, text): (_, NoteText) = (name.into(), Arc::new(move || is_so().then_some(text)));
        self.notes.write().insert(name.clone(), text.clone());
        Note {
            name,
            text,
            checks: self.clone(),
        }
    }

    /// Runs one check, which has the name that reports show; `None` if there is no such check.
    pub fn check(&self, name: &str) -> Option<Result<(), String>> {
        if name == PING {
            return Some(Ok(()));
        }
        let check = {
            let checks = self.checks.read();
            let mut named = checks.iter().filter(|(own, _)| own.to_string() == name);
            named.next().map(|(_, (_, check))| check.clone())
        };
        check.map(|check| check())
    }

    /// Runs the checks of an endpoint that are not excluded. `endpoint` is the name of the path, such as `healthz`. No
    /// lock is held while a check runs.
    pub fn report(&self, endpoint: &str, excluded: &[String]) -> Report {
        let is_included = |scope: &Scope| endpoint == "readyz" || *scope == Scope::All;
        let checks: Vec<(String, Check)> = {
            let checks = self.checks.read();
            let included = checks.iter().filter(|(_, (scope, _))| is_included(scope));
            included
                .map(|(name, (_, check))| (name.to_string(), check.clone()))
                .collect()
        };
        let ping: (String, Check) = (PING.to_owned(), Arc::new(|| Ok(())));
        let mut unmatched: BTreeSet<&str> = excluded.iter().map(String::as_str).collect();
        let mut report = Report {
            endpoint: endpoint.to_owned(),
            lines: String::new(),
            failed: Vec::new(),
        };
        for (name, check) in std::iter::once(ping).chain(checks) {
            if excluded.contains(&name) {
                unmatched.remove(name.as_str());
                report.line(format_args!("[+]{name} excluded: ok"));
                continue;
            }
            let checked = check();
            self.slis.observe(&name, endpoint, checked.is_ok());
            match checked {
                Ok(()) => report.line(format_args!("[+]{name} ok")),
                Err(reason) => {
                    // The path is open to everyone, so the reason is only logged.
                    report.line(format_args!("[-]{name} failed: reason withheld"));
                    report.failed.push((name, reason));
                }
            }
        }
        if endpoint == "readyz" {
            let notes = self.notes.read().clone();
            for (name, text) in notes {
                if let Some(text) = text() {
                    report.line(format_args!("[i]{name}: {text}"));
                }
            }
        }
        if !unmatched.is_empty() {
            let names: Vec<String> = unmatched.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            report.line(format_args!(
                "warn: some health checks cannot be excluded: no matches for {names}"
            ));
        }
        report
    }

    /// The results of the checks so far, as metrics.
    pub(crate) fn slis(&self) -> &Slis {
        &self.slis
    }

    fn insert(&self, scope: Scope, name: CheckName, check: Check) -> Registration {
        self.checks
            .write()
            .insert(name.clone(), (scope, check.clone()));
        Registration {
            name,
            check,
            checks: self.clone(),
        }
    }
}

impl From<&'static str> for CheckName {
    fn from(name: &'static str) -> Self {
        Self::Host(name)
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(name),
            Self::Controller(name) => f.write_str(name),
            Self::Informers(name) => write!(f, "informers/{name}"),
            Self::Instances(name) => write!(f, "instances/{name}"),
            Self::Plugin(name) => write!(f, "plugins/{name}"),
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let mut notes = self.checks.notes.write();
        if notes
            .get(&self.name)
            .is_some_and(|own| Arc::ptr_eq(own, &self.text))
        {
            notes.remove(&self.name);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut checks = self.checks.checks.write();
        // A newer check of the same name stays.
        if checks
            .get(&self.name)
            .is_some_and(|(_, check)| Arc::ptr_eq(check, &self.check))
        {
            checks.remove(&self.name);
        }
    }
}

impl Report {
    /// Whether no check failed.
    pub fn is_healthy(&self) -> bool {
        self.failed.is_empty()
    }

    /// The failed checks with their reasons, for the log.
    pub fn failed(&self) -> &[(String, String)] {
        &self.failed
    }

    /// The body of the response, in the format of Kubernetes' components. Failed checks are always listed.
    pub fn text(&self, verbose: bool) -> String {
        match (self.is_healthy(), verbose) {
            (true, false) => "ok".to_owned(),
            (true, true) => format!("{}{} check passed\n", self.lines, self.endpoint),
            (false, _) => format!("{}{} check failed\n", self.lines, self.endpoint),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments) {
        let _ = writeln!(self.lines, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_shown_by_readyz_and_fails_nothing() {
        let health = HealthChecks::default();
        let name = || CheckName::Plugin("hello".to_owned());
        let note = health.note(name(), "does not run");
        let report = health.report("readyz", &[]);
        assert_eq!(
            report.text(true),
            "[+]ping ok\n[i]plugins/hello: does not run\nreadyz check passed\n"
        );
        assert!(!health.report("healthz", &[]).text(true).contains("hello"));
        let newer = health.note(name(), "a newer version is held up");
        drop(note);
        assert!(
            health
                .report("readyz", &[])
                .text(true)
                .contains("a newer version is held up")
        );
        drop(newer);
        assert!(!health.report("readyz", &[]).text(true).contains("hello"));
    }

    #[test]
    fn a_note_is_shown_while_it_is_so() {
        let health = HealthChecks::default();
        let is_so = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let seen = is_so.clone();
        let name = CheckName::Informers("hello".to_owned());
        let _note = health.note_while(name, "not synced", move || {
            seen.load(std::sync::atomic::Ordering::Relaxed)
        });
        let text = || health.report("readyz", &[]).text(true);
        assert_eq!(
            text(),
            "[+]ping ok\n[i]informers/hello: not synced\nreadyz check passed\n"
        );
        is_so.store(false, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(text(), "[+]ping ok\nreadyz check passed\n");
    }

    #[test]
    fn no_plugin_replaces_the_check_of_another_or_of_the_host() {
        let health = HealthChecks::default();
        let fails = || Err("the host's own".to_owned());
        let own = ["leaderElection", "shutdown", "a"];
        let _own = own.map(|name| health.add_readiness(name, fails));
        let informers = CheckName::Informers("a".to_owned());
        let _informers = health.add_readiness(informers, || Err("of a".to_owned()));
        let names = [
            "ping",
            "leaderElection",
            "shutdown",
            "readyz",
            "a",
            "a-informers",
            "informers/a",
            "informers",
        ];
        let _plugins = names.map(|name| {
            let plugin = health.add(CheckName::Plugin(name.to_owned()), || Ok(()));
            let note = health.note(CheckName::Informers(name.to_owned()), "not synced");
            (plugin, note)
        });
        for name in own {
            assert_eq!(health.check(name), Some(fails()));
        }
        assert_eq!(health.check("informers/a"), Some(Err("of a".to_owned())));
        assert_eq!(health.check("plugins/leaderElection"), Some(Ok(())));
        assert_eq!(health.check("readyz"), None);
        let report = health.report("readyz", &[]);
        let failed: Vec<&str> = report
            .failed()
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(failed, ["a", "leaderElection", "shutdown", "informers/a"]);
    }

    #[test]
    fn a_failed_check_is_named_without_its_reason() {
        let health = HealthChecks::default();
        let _a = health.add("a", || Err("its informers are not synced".to_owned()));
        let report = health.report("readyz", &[]);
        assert!(!report.is_healthy());
        assert_eq!(
            report.text(false),
            "[+]ping ok\n[-]a failed: reason withheld\nreadyz check failed\n"
        );
        assert_eq!(
            report.failed(),
            [("a".to_owned(), "its informers are not synced".to_owned())]
        );
    }

    #[test]
    fn an_excluded_check_is_not_run_and_an_unknown_one_is_warned_about() {
        let health = HealthChecks::default();
        let _a = health.add("a", || Err("never run".to_owned()));
        let report = health.report("livez", &["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            report.text(true),
            "[+]ping ok\n[+]a excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"b\"\nlivez check passed\n"
        );
    }

    #[test]
    fn a_readiness_check_fails_only_readyz() {
        let health = HealthChecks::default();
        let _syncing = health.add_readiness("informer-sync", || Err("2 are not synced".to_owned()));
        assert!(health.report("livez", &[]).is_healthy());
        assert!(health.report("healthz", &[]).is_healthy());
        assert!(!health.report("readyz", &[]).is_healthy());
    }

    #[test]
    fn a_replaced_check_stays_when_the_old_registration_is_dropped() {
        let health = HealthChecks::default();
        let old = health.add("a", || Ok(()));
        let _new = health.add("a", || Err("new".to_owned()));
        drop(old);
        assert_eq!(health.check("a"), Some(Err("new".to_owned())));
    }
}
