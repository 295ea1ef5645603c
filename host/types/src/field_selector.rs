//! Field selectors, such as `metadata.name=kube-root-ca.crt` and `spec.nodeName!=`. The server evaluates them for a
//! watch, and the host evaluates them again for the plugin's own writes.

use std::fmt;
use std::str::FromStr;

use crate::FieldPath;

/// The maximum length of a selector in bytes. The server supports a few fields of each kind.
const MAX_LENGTH: usize = 4096;

/// A field selector. All requirements must hold; without any, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A predicate on one field. An absent field counts as empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    pub path: FieldPath,
    /// Whether the field must have the value (`=`) or must not have it (`!=`).
    pub equal: bool,
    pub value: Box<str>,
}

/// A text that is not a field selector. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a field selector: write it as `metadata.name=a,spec.nodeName!=b`")]
pub struct FieldSelectorError(pub String);

impl FieldSelector {
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The fields that it reads.
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        self.requirements.iter().map(|own| &own.path)
    }

    /// Whether the selector matches every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector matches an object. `field` returns the text at a path, empty if there is none.
    pub fn matches<T: AsRef<str>>(&self, field: impl Fn(&FieldPath) -> T) -> bool {
        self.requirements
            .iter()
            .all(|own| (field(&own.path).as_ref() == &*own.value) == own.equal)
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(selector: &str) -> Result<Self, FieldSelectorError> {
        if selector.len() > MAX_LENGTH {
            return Err(FieldSelectorError(crate::path::shortened(selector)));
        }
        let fail = || FieldSelectorError(selector.into());
        let mut requirements = Vec::new();
        for part in selector.split(',').filter(|_| !selector.trim().is_empty()) {
            // The first `=` or `!=` is the operator. The API requires further ones in a value to be escaped. Nothing
            // here needs escapes, so they are refused.
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
    fn parsing_reverses_display_and_an_invalid_selector_is_an_error() {
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
