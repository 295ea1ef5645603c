//! The versions of Kubernetes that `--emulated-version` and `--min-compatibility-version` choose. They decide which
//! defaults the feature gates have: see [`crate::kcm::feature_gates`].

use std::fmt;

/// A version of Kubernetes without its patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minor {
    major: u32,
    minor: u32,
}

/// The version of the release that this process stands for, without the patch.
pub(crate) const CURRENT: Minor = Minor {
    major: 1,
    minor: 37,
};
/// The oldest version that may be emulated.
const OLDEST: Minor = Minor {
    major: 1,
    minor: 34,
};
/// The component whose versions may be set. It is the default where no component is named.
const COMPONENT: &str = "kube";

/// The versions that the gates follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    /// The version whose gates apply.
    pub(crate) emulated: Minor,
    /// The oldest version of the other parts of the control plane. A stage of a gate may need a later one.
    pub(crate) min_compatibility: Minor,
}

impl Default for Versions {
    fn default() -> Self {
        Self {
            emulated: CURRENT,
            min_compatibility: CURRENT.before(),
        }
    }
}

impl Versions {
    /// Reads the items of both flags.
    ///
    /// # Errors
    /// Returns the wrong flag and the reason.
    pub(crate) fn new(
        emulated: &[String],
        min_compatibility: &[String],
    ) -> Result<Self, (&'static str, String)> {
        let emulated = of_component(emulated)
            .and_then(|version| within(version.unwrap_or(CURRENT), CURRENT))
            .map_err(|reason| ("emulated-version", reason))?;
        let min_compatibility = of_component(min_compatibility)
            .and_then(|version| {
                let default = emulated.before().max(OLDEST);
                within(version.unwrap_or(default), emulated)
            })
            .map_err(|reason| ("min-compatibility-version", reason))?;
        Ok(Self {
            emulated,
            min_compatibility,
        })
    }
}

impl Minor {
    /// Parses `1.37`, with the tolerance of Kubernetes: a `v` may precede it and the patch 0 may follow.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let illegal = || format!("illegal version string {text:?}");
        let numbers = text.strip_prefix('v').unwrap_or(text).split('.');
        let numbers: Result<Vec<u32>, _> = numbers.map(str::parse).collect();
        match numbers.map_err(|_| illegal())?.as_slice() {
            [major, minor] | [major, minor, 0] => Ok(Self {
                major: *major,
                minor: *minor,
            }),
            [_, _, _] => Err(format!("patch version not allowed, got {text}")),
            _ => Err(illegal()),
        }
    }

    fn before(self) -> Self {
        Self {
            minor: self.minor.saturating_sub(1),
            ..self
        }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Returns the version among the items, each `VERSION` or `COMPONENT=VERSION`.
fn of_component(items: &[String]) -> Result<Option<Minor>, String> {
    let mut found = None;
    for item in items {
        let (component, version) = item.split_once('=').unwrap_or((COMPONENT, item));
        if component.trim() != COMPONENT {
            return Err(format!("component not registered: {}", component.trim()));
        }
        let version = Minor::parse(version.trim())?;
        if let Some(first) = found.replace(version) {
            return Err(format!("it is set twice: {first} and {version}"));
        }
    }
    Ok(found)
}

fn within(version: Minor, newest: Minor) -> Result<Minor, String> {
    match (OLDEST..=newest).contains(&version) {
        true => Ok(version),
        false => Err(format!("{version} is not between {OLDEST} and {newest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(emulated: &[&str], min: &[&str]) -> Result<(String, String), String> {
        let owned = |items: &[&str]| -> Vec<String> {
            items.iter().map(|item| (*item).to_owned()).collect()
        };
        Versions::new(&owned(emulated), &owned(min))
            .map(|read| {
                (
                    read.emulated.to_string(),
                    read.min_compatibility.to_string(),
                )
            })
            .map_err(|(flag, reason)| format!("{flag}: {reason}"))
    }

    #[test]
    fn the_current_version_is_that_of_the_release() {
        let release = format!("{CURRENT}.");
        assert!(flyball_serving::KUBERNETES.starts_with(&release));
    }

    #[test]
    fn the_minimum_is_one_before_the_emulated_version_unless_it_is_given() {
        for (emulated, min, expected) in [
            (&[][..], &[][..], ("1.37", "1.36")),
            (&["1.36"], &[], ("1.36", "1.35")),
            (&["kube=v1.35.0"], &[], ("1.35", "1.34")),
            (&["1.34"], &[], ("1.34", "1.34")),
            (&[], &["kube = 1.37"], ("1.37", "1.37")),
            (&["1.36"], &["1.34"], ("1.36", "1.34")),
        ] {
            let expected = (expected.0.to_owned(), expected.1.to_owned());
            assert_eq!(
                versions(emulated, min),
                Ok(expected),
                "{emulated:?} {min:?}"
            );
        }
    }

    #[test]
    fn what_kube_controller_manager_refuses_is_an_error() {
        for (emulated, min, reason) in [
            (
                &["1.33"][..],
                &[][..],
                "emulated-version: 1.33 is not between 1.34 and 1.37",
            ),
            (
                &["1.38"],
                &[],
                "emulated-version: 1.38 is not between 1.34 and 1.37",
            ),
            (
                &["1.35.1"],
                &[],
                "emulated-version: patch version not allowed, got 1.35.1",
            ),
            (
                &["wardle=1.35"],
                &[],
                "emulated-version: component not registered: wardle",
            ),
            (
                &["1"],
                &[],
                "emulated-version: illegal version string \"1\"",
            ),
            (
                &["1.x"],
                &[],
                "emulated-version: illegal version string \"1.x\"",
            ),
            (
                &["1.35", "kube=1.35"],
                &[],
                "emulated-version: it is set twice: 1.35 and 1.35",
            ),
            (
                &["1.35"],
                &["1.36"],
                "min-compatibility-version: 1.36 is not between 1.34 and 1.35",
            ),
        ] {
            assert_eq!(versions(emulated, min), Err(reason.to_owned()));
        }
    }
}
