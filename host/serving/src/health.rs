//! The health checks of the running parts, and reports of their results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;

/// A check: `Ok` if the part is healthy, else a sentence for the log. It should return quickly, and
/// may be called from several threads.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

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
    checks: Arc<RwLock<BTreeMap<String, (Scope, Check)>>>,
    notes: Arc<RwLock<BTreeMap<String, Arc<str>>>>,
}

/// Which endpoints run a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Ready,
}

/// Removes its check when it is dropped.
#[must_use = "the check is removed when this is dropped"]
pub struct Registration {
    name: String,
    check: Check,
    checks: HealthChecks,
}

/// Removes its note when it is dropped.
#[must_use = "the note is removed when this is dropped"]
pub struct Note {
    name: String,
    text: Arc<str>,
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
    /// Adds a check of every endpoint until the registration is dropped. Replaces a check of the
    /// same name. While it fails, a kubelet may restart the process.
    pub fn add(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Registration {
        self.insert(Scope::All, name.into(), Arc::new(check))
    }

    /// As [`add`](Self::add), but for `/readyz` only: for a failure that a restart would not fix.
    pub fn add_readiness(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Registration {
        self.insert(Scope::Ready, name.into(), Arc::new(check))
    }

    /// Adds a note to `/readyz?verbose` until it is dropped. Replaces a note of the same name. A
    /// note is not a check: it never fails. Everyone may read it.
    pub fn note(&self, name: impl Into<String>, text: &str) -> Note {
        let (name, text): (String, Arc<str>) = (name.into(), text.into());
        self.notes.write().insert(name.clone(), text.clone());
        Note {
            name,
            text,
            checks: self.clone(),
        }
    }

    /// Runs one check; `None` if there is no such check.
    pub fn check(&self, name: &str) -> Option<Result<(), String>> {
        if name == "ping" {
            return Some(Ok(()));
        }
        let check = self.checks.read().get(name).map(|(_, check)| check.clone());
        check.map(|check| check())
    }

    /// Runs the checks of an endpoint that are not excluded. `endpoint` is the name of the path,
    /// such as `healthz`. No lock is held while a check runs.
    pub fn report(&self, endpoint: &str, excluded: &[String]) -> Report {
        let is_included = |scope: &Scope| endpoint == "readyz" || *scope == Scope::All;
        let checks: Vec<(String, Check)> = {
            let checks = self.checks.read();
            let included = checks.iter().filter(|(_, (scope, _))| is_included(scope));
            included
                .map(|(name, (_, check))| (name.clone(), check.clone()))
                .collect()
        };
        let ping: (String, Check) = ("ping".to_owned(), Arc::new(|| Ok(())));
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
            match check() {
                Ok(()) => report.line(format_args!("[+]{name} ok")),
                Err(reason) => {
                    // The path is open to everyone, so the reason is only logged.
                    report.line(format_args!("[-]{name} failed: reason withheld"));
                    report.failed.push((name, reason));
                }
            }
        }
        if endpoint == "readyz" {
            let notes = self.notes.read();
            notes
                .iter()
                .for_each(|(name, text)| report.line(format_args!("[i]{name}: {text}")));
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

    fn insert(&self, scope: Scope, name: String, check: Check) -> Registration {
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

    /// The body of the response, in the format of Kubernetes' components. Failed checks are always
    /// listed.
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
        let note = health.note("plugin-hello", "does not run");
        let report = health.report("readyz", &[]);
        assert_eq!(
            report.text(true),
            "[+]ping ok\n[i]plugin-hello: does not run\nreadyz check passed\n"
        );
        assert!(!health.report("healthz", &[]).text(true).contains("hello"));
        let newer = health.note("plugin-hello", "a newer version is held up");
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
