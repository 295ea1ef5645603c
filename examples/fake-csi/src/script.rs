//! Scripts: how a driver behaves in each operation, as annotations and parameters define it.

use std::fmt;
use std::time::Duration;

use flyball_sdk::{StringMap, duration};

/// The prefix of all annotations.
pub const PREFIX: &str = "fake-csi.flyball.dev/";
/// The ends of the names of annotations and parameters, after the operation and a hyphen.
pub const FIELDS: [&str; 3] = ["after", "failures", "error"];
/// The number of failures of an operation that never succeeds.
const ALWAYS: &str = "always";

/// Something that a driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Provision,
    Delete,
    Attach,
    Detach,
    Resize,
}

impl Operation {
    pub const ALL: [Self; 5] = [
        Self::Provision,
        Self::Delete,
        Self::Attach,
        Self::Detach,
        Self::Resize,
    ];

    /// The beginning of the names of annotations and parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Delete => "delete",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Resize => "resize",
        }
    }
}

/// How a driver behaves in an operation. By default it succeeds at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Time that each attempt takes.
    pub after: Duration,
    /// Number of attempts that fail before one succeeds.
    pub failures: u32,
    /// The error of a failed attempt.
    pub error: String,
}

/// An annotation or a parameter is invalid. Only its author can fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The name, without prefix.
    pub name: String,
    pub value: String,
    /// Describes the valid values.
    pub expected: &'static str,
}

/// The annotations of an object, and the parameters or attributes that they take precedence over.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    pub annotations: &'a StringMap,
    pub parameters: &'a StringMap,
}

impl Script<'_> {
    /// Returns the behaviour in an operation.
    ///
    /// # Errors
    /// An annotation with [`PREFIX`] is unknown, or a value of the operation is invalid.
    pub fn behaviour(&self, operation: Operation) -> Result<Behaviour, ScriptError> {
        self.check_names()?;
        let name = operation.name();
        Ok(Behaviour {
            after: self
                .read(name, "after", "a duration such as 5s", |value| {
                    duration::parse(value).ok()
                })?
                .unwrap_or_default(),
            failures: self
                .read(name, "failures", "a whole number or `always`", failures)?
                .unwrap_or_default(),
            error: self
                .read(name, "error", "a text", |value| Some(value.to_owned()))?
                .unwrap_or_else(|| format!("the script makes {name} fail")),
        })
    }

    /// Fails for unknown annotations, which are typing errors. Drivers have other parameters, too.
    fn check_names(&self) -> Result<(), ScriptError> {
        let unknown = self.annotations.iter().find(|(key, _)| {
            let name = key.strip_prefix(PREFIX);
            name.is_some_and(|name| !is_known(name))
        });
        match unknown {
            None => Ok(()),
            Some((key, value)) => Err(ScriptError {
                name: key[PREFIX.len()..].to_owned(),
                value: value.clone(),
                expected: "one of the annotations of the fake CSI drivers",
            }),
        }
    }

    fn read<T>(
        &self,
        operation: &str,
        field: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ScriptError> {
        let name = format!("{operation}-{field}");
        let annotation = self.annotations.get(&format!("{PREFIX}{name}"));
        let Some(value) = annotation.or_else(|| self.parameters.get(&name)) else {
            return Ok(None);
        };
        match parse(value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(ScriptError {
                name,
                value: value.clone(),
                expected,
            }),
        }
    }
}

fn is_known(name: &str) -> bool {
    let Some((operation, field)) = name.split_once('-') else {
        return false;
    };
    Operation::ALL.iter().any(|one| one.name() == operation) && FIELDS.contains(&field)
}

fn failures(text: &str) -> Option<u32> {
    match text {
        ALWAYS => Some(u32::MAX),
        number => number.parse().ok(),
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid annotation or parameter `{}` with value `{}`: must be {}",
            self.name, self.value, self.expected
        )
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        annotations: &[(&str, &str)],
        parameters: &[(&str, &str)],
    ) -> Result<Behaviour, String> {
        let map = |prefix: &str, pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| (format!("{prefix}{name}"), (*value).to_owned()))
                .collect::<StringMap>()
        };
        let script = Script {
            annotations: &map(PREFIX, annotations),
            parameters: &map("", parameters),
        };
        let behaviour = script.behaviour(Operation::Attach);
        behaviour.map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_script_an_operation_succeeds_at_once() {
        let Behaviour {
            after, failures, ..
        } = read(&[("detach-failures", "3")], &[("type", "fast")]).unwrap();
        assert_eq!((after, failures), (Duration::ZERO, 0));
    }

    #[test]
    fn annotations_take_precedence_over_parameters() {
        let parameters = [("attach-after", "2s"), ("attach-failures", "always")];
        let behaviour = read(
            &[("attach-after", "1s"), ("attach-error", "no")],
            &parameters,
        );
        let expected = Behaviour {
            after: Duration::from_secs(1),
            failures: u32::MAX,
            error: "no".into(),
        };
        assert_eq!(behaviour, Ok(expected));
    }

    #[test]
    fn the_error_names_the_invalid_annotation() {
        for (name, value) in [
            ("attach-after", "5"),
            ("attach-failures", "-1"),
            ("attach-failures", "never"),
            ("attach-afer", "5s"),
            ("mount-after", "5s"),
            ("attach", "5s"),
        ] {
            let problem = read(&[(name, value)], &[]).unwrap_err();
            assert!(
                problem.contains(name) && problem.contains(value),
                "{problem}"
            );
        }
        assert!(read(&[], &[("attach-after", "x")]).is_err());
        assert!(read(&[], &[("mount-after", "x")]).is_ok());
    }

    #[test]
    fn each_operation_each_field_and_each_setting_is_in_the_readme() {
        let readme = include_str!("../README.md");
        for operation in Operation::ALL {
            assert!(
                readme.contains(&format!("| `{}` |", operation.name())),
                "{operation:?}"
            );
        }
        for field in FIELDS {
            assert!(
                readme.contains(&format!("| `OPERATION-{field}` |")),
                "{field}"
            );
        }
        for (key, ..) in crate::settings::KEYS {
            assert!(readme.contains(&format!("| `{key}` |")), "{key}");
        }
    }
}
