//! Scripts: the behaviour that a pod's annotations define.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use flyball_sdk::{StringMap, duration};

/// The prefix of all annotations.
pub const PREFIX: &str = "fake-kubelet.flyball.dev/";
/// The annotation with the completion index of a Job's pod.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The names of the annotations, without prefix.
pub const NAMES: [&str; 13] = [
    "start-after",
    "ready",
    "ready-after",
    "exit-after",
    "exit-code",
    "container",
    "restarts",
    "fail-index",
    "evict-after",
    "reason",
    "message",
    "terminate-after",
    "terminate-exit-code",
];

/// The scripted behaviour of a pod. By default it starts at once, becomes ready, and runs until it
/// is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Delay between binding and the start of the containers.
    pub start_after: Duration,
    /// Whether the containers never become ready.
    pub never_ready: bool,
    /// Delay between a container's start and its readiness; the setting `ready-delay` if absent.
    pub ready_after: Option<Duration>,
    /// How containers exit; they don't if absent.
    pub exit: Option<Exit>,
    /// Delay between the pod's start and its eviction.
    pub evict_after: Option<Duration>,
    /// `status.reason` of a failed pod.
    pub reason: Option<String>,
    /// `status.message` of a failed pod.
    pub message: Option<String>,
    /// Time that containers take to end after the pod is deleted; at most the grace period.
    pub terminate_after: Duration,
    /// Exit code of the containers after the pod is deleted;
    /// [`TERMINATED`](crate::lifecycle::TERMINATED) if absent.
    pub terminate_exit_code: Option<i32>,
}

/// How containers exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Delay after the container's start.
    pub after: Duration,
    /// The exit code.
    pub code: i32,
    /// The container that exits; all if absent.
    pub container: Option<String>,
    /// Number of exits; unlimited if absent.
    pub times: Option<u32>,
}

/// An annotation is invalid. Only its author can fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The annotation's name, without prefix.
    pub name: String,
    pub value: String,
    /// Describes the valid values.
    pub expected: &'static str,
}

impl Script {
    /// Parses a pod's annotations.
    ///
    /// # Errors
    /// An annotation with [`PREFIX`] is unknown or has an invalid value.
    pub fn read(annotations: &StringMap) -> Result<Self, ScriptError> {
        let notes = Notes(annotations);
        notes.check_names()?;
        Ok(Self {
            start_after: notes.time("start-after")?.unwrap_or_default(),
            never_ready: notes
                .read("ready", "never", |value| (value == "never").then_some(()))?
                .is_some(),
            ready_after: notes.time("ready-after")?,
            exit: notes.exit()?,
            evict_after: notes.time("evict-after")?,
            reason: notes.text("reason"),
            message: notes.text("message"),
            terminate_after: notes.time("terminate-after")?.unwrap_or_default(),
            terminate_exit_code: notes.number("terminate-exit-code")?,
        })
    }
}

impl Exit {
    /// Whether a container exits that has been restarted `restarts` times.
    pub fn applies_to(&self, container: &str, restarts: u32) -> bool {
        self.container
            .as_deref()
            .is_none_or(|name| name == container)
            && self.times.is_none_or(|times| restarts < times)
    }
}

/// The annotations of a pod.
struct Notes<'a>(&'a StringMap);

impl Notes<'_> {
    /// Fails for unknown names, which are typing errors.
    fn check_names(&self) -> Result<(), ScriptError> {
        let unknown = |key: &&String| {
            key.strip_prefix(PREFIX)
                .is_some_and(|name| !NAMES.contains(&name))
        };
        match self.0.keys().find(unknown) {
            None => Ok(()),
            Some(key) => {
                let name = key.strip_prefix(PREFIX).unwrap_or(key).to_owned();
                Err(ScriptError {
                    name,
                    value: self.0[key].clone(),
                    expected: "one of the annotations of the fake kubelet",
                })
            }
        }
    }

    /// Containers exit if any annotation about exits is present. The exit code defaults to 0, and
    /// to 1 for pods that `fail-index` lists or that are to be restarted. Pods of other indexes
    /// exit with 0.
    fn exit(&self) -> Result<Option<Exit>, ScriptError> {
        let after = self.time("exit-after")?;
        let code = self.number("exit-code")?;
        let times = self.number("restarts")?;
        let failing = self.read("fail-index", "a list of numbers such as 0,3", indexes)?;
        if after.is_none() && code.is_none() && times.is_none() && failing.is_none() {
            return Ok(None);
        }
        let own_index = self
            .0
            .get(COMPLETION_INDEX)
            .and_then(|index| index.parse().ok());
        let code = match failing {
            Some(failing) if own_index.is_none_or(|index| !failing.contains(&index)) => 0,
            Some(_) => code.unwrap_or(1),
            None => code.unwrap_or(i32::from(times.is_some())),
        };
        Ok(Some(Exit {
            after: after.unwrap_or_default(),
            code,
            container: self.text("container"),
            times,
        }))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(&format!("{PREFIX}{name}")).cloned()
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, ScriptError> {
        self.read(name, "a duration such as 5s", |value| {
            duration::parse(value).ok()
        })
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ScriptError> {
        self.read(name, "a whole number", |value| value.parse().ok())
    }

    fn read<T>(
        &self,
        name: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ScriptError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(ScriptError {
                name: name.into(),
                value,
                expected,
            }),
        }
    }
}

fn indexes(text: &str) -> Option<BTreeSet<u32>> {
    text.split(',')
        .map(str::trim)
        .filter(|index| !index.is_empty())
        .map(|index| index.parse().ok())
        .collect()
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid annotation `{PREFIX}{}` with value `{}`: must be {}",
            self.name, self.value, self.expected
        )
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(notes: &[(&str, &str)]) -> Result<Script, ScriptError> {
        let prefixed = notes.iter().map(|&(name, value)| match name {
            COMPLETION_INDEX => (name.to_owned(), value.to_owned()),
            _ => (format!("{PREFIX}{name}"), value.to_owned()),
        });
        Script::read(&prefixed.collect())
    }

    fn code(notes: &[(&str, &str)]) -> Option<i32> {
        read(notes).unwrap().exit.map(|exit| exit.code)
    }

    #[test]
    fn without_annotations_a_pod_runs() {
        assert_eq!(read(&[]), Ok(Script::default()));
    }

    #[test]
    fn a_container_exits_if_any_annotation_about_exits_is_present() {
        assert_eq!(code(&[("ready-after", "1s")]), None);
        assert_eq!(code(&[("exit-after", "1s")]), Some(0));
        assert_eq!(code(&[("exit-code", "3")]), Some(3));
        assert_eq!(code(&[("restarts", "2")]), Some(1));
        assert_eq!(code(&[("restarts", "2"), ("exit-code", "0")]), Some(0));
    }

    #[test]
    fn the_listed_indexes_of_a_job_fail_and_the_others_do_not() {
        let of_index = |index| code(&[("fail-index", "0, 3"), (COMPLETION_INDEX, index)]);
        assert_eq!(
            [of_index("0"), of_index("1"), of_index("3")],
            [Some(1), Some(0), Some(1)]
        );
        assert_eq!(
            code(&[
                ("fail-index", "0"),
                (COMPLETION_INDEX, "0"),
                ("exit-code", "42")
            ]),
            Some(42)
        );
        assert_eq!(code(&[("fail-index", "0"), ("exit-code", "42")]), Some(0));
        assert_eq!(code(&[("fail-index", "")]), Some(0));
    }

    #[test]
    fn an_exit_applies_to_the_named_container_for_the_given_number_of_times() {
        let exit = Exit {
            container: Some("a".into()),
            times: Some(2),
            ..Exit::default()
        };
        assert!(exit.applies_to("a", 1) && !exit.applies_to("a", 2) && !exit.applies_to("b", 0));
        assert!(Exit::default().applies_to("b", 9));
    }

    #[test]
    fn the_error_names_the_invalid_annotation() {
        for (name, value) in [
            ("ready", "no"),
            ("ready-after", "5"),
            ("exit-code", "x"),
            ("restarts", "-1"),
            ("fail-index", "a"),
            ("redy", "never"),
        ] {
            let problem = read(&[(name, value)]).unwrap_err().to_string();
            assert!(
                problem.contains(&format!("{PREFIX}{name}")) && problem.contains(value),
                "{problem}"
            );
        }
    }

    #[test]
    fn each_annotation_and_each_setting_is_in_the_readme() {
        let readme = include_str!("../README.md");
        for name in NAMES
            .iter()
            .chain(crate::settings::KEYS.iter().map(|(key, ..)| key))
        {
            assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
