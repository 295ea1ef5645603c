//! Field selectors, as in `metadata.name=kube-root-ca.crt` or `spec.nodeName!=`: the server evaluates them for a watch, and
//! the host again for what a plugin wrote itself.

use std::fmt;
use std::str::FromStr;

use crate::FieldPath;

/// Which fields match: all requirements must hold. Without any, everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A condition on one field. A field that is absent counts as empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// Where the field is.
    pub path: FieldPath,
    /// Whether it must have the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: Box<str>,
}

/// A text that is not a field selector. No retry can help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a field selector: write it as `metadata.name=a,spec.nodeName!=b`")]
pub struct FieldSelectorError(pub String);

impl FieldSelector {
    /// The requirements.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object matches of which `field` tells the text at a path, empty where there is none.
    pub fn matches<T: AsRef<str>>(&self, field: impl Fn(&FieldPath) -> T) -> bool {
        self.requirements
            .iter()
            .all(|own| (field(&own.path).as_ref() == &*own.value) == own.equal)
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(selector: &str) -> Result<Self, FieldSelectorError> {
        let fail = || FieldSelectorError(selector.into());
        let mut requirements = Vec::new();
        for part in selector.split(',').filter(|_| !selector.trim().is_empty()) {
            // The first sign is the one that compares. The API wants those that stand in a value escaped; here there is no
            // use for them, so they are refused.
            let (path, value) = part.split_once('=').ok_or_else(fail)?;
            let (path, equal, value) = match (path.strip_suffix('!'), value.strip_prefix('=')) {
                (Some(path), _) => (path, false, value),
                (None, Some(value)) => (path, true, value),
                (None, None) => (path, true, value),
            };
            if path.contains('!') || value.contains(['=', '\\']) {
                return Err(fail());
            }
            let path = path.trim().parse().map_err(|_| fail())?;
            requirements.push(FieldRequirement {
                path,
                equal,
                value: value.trim().into(),
            });
        }
        requirements.sort();
        Ok(Self { requirements })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, FieldRequirement { path, equal, value }) in self.requirements.iter().enumerate() {
            write!(
                f,
                "{}{path}{}{value}",
                if i > 0 { "," } else { "" },
                if *equal { "=" } else { "!=" }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_field_counts_as_empty() {
        let name = |path: &FieldPath| {
            if path.to_string() == "metadata.name" {
                "a"
            } else {
                ""
            }
        };
        for selector in [
            "",
            "metadata.name=a",
            "metadata.name==a,spec.nodeName=",
            "metadata.name!=b",
        ] {
            assert!(
                selector.parse::<FieldSelector>().unwrap().matches(name),
                "{selector}"
            );
        }
        for selector in ["metadata.name=b", "spec.nodeName!="] {
            assert!(
                !selector.parse::<FieldSelector>().unwrap().matches(name),
                "{selector}"
            );
        }
    }

    #[test]
    fn a_field_selector_reads_back_and_nonsense_is_refused() {
        let text = "metadata.name=a,spec.nodeName!=b";
        assert_eq!(text.parse::<FieldSelector>().unwrap().to_string(), text);
        for wrong in [
            "a",
            "a=1,",
            "=1",
            "a b=1",
            "a=b=c",
            "a===b",
            "a!!=b",
            "a.['=']==b",
            "a=b\\,c",
        ] {
            assert!(wrong.parse::<FieldSelector>().is_err(), "{wrong}");
        }
    }
}
