//! Kinds of objects, written `group/version/Kind`, such as `apps/v1/Deployment` and `v1/Pod`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A kind of object in one version of its API group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// The longest kind in bytes. The API allows 253 for the group, and 63 for the version and the kind each.
const MAX_LENGTH: usize = 512;

/// A text that is not `group/version/Kind` or `version/Kind`, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind: write it as `apps/v1/Deployment`, or `v1/Pod` in the core group")]
pub struct KindError(pub String);

impl KindError {
    fn new(text: &str) -> Self {
        Self(text[..text.floor_char_boundary(MAX_LENGTH)].to_owned())
    }
}

impl Kind {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// The kind of an object with these `apiVersion` and `kind` fields.
    pub fn of_object(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// The `apiVersion` of objects of this kind: `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind and its group, as in `Deployment.apps` or `Pod`: the same for all versions of the API.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.kind)
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        if text.len() > MAX_LENGTH {
            return Err(KindError::new(text));
        }
        let parts: Vec<&str> = text.split('/').collect();
        if !parts.iter().all(|part| is_word(part)) {
            return Err(KindError::new(text));
        }
        match parts[..] {
            [version, kind] => Ok(Self::new("", version, kind)),
            [group, version, kind] => Ok(Self::new(group, version, kind)),
            _ => Err(KindError::new(text)),
        }
    }
}

fn is_word(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

impl TryFrom<String> for Kind {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, KindError> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.to_string()
    }
}

/// The kind or kinds of a permission. It is written as the kind is, or `*`, or `GROUP/*` for a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KindPattern {
    /// Every kind, including kinds that the API server does not serve yet.
    All,
    /// Every kind of this group, in all versions, and resources of the group that the API server does not list as
    /// kinds, such as custom metrics. Not the core group: its kinds are named one by one.
    Group(String),
    One(Kind),
}

impl KindPattern {
    pub fn matches(&self, kind: &Kind) -> bool {
        match self {
            Self::All => true,
            Self::Group(group) => *group == kind.group,
            Self::One(one) => one == kind,
        }
    }
}

impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Group(group) => write!(f, "{group}/*"),
            Self::One(kind) => kind.fmt(f),
        }
    }
}

impl FromStr for KindPattern {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if text.len() > MAX_LENGTH {
            return Err(KindError::new(text));
        }
        match text.strip_suffix("/*") {
            // `v1/*` would be taken for the core group.
            Some(group) if is_word(group) && !is_version(group) => Ok(Self::Group(group.into())),
            Some(_) => Err(KindError::new(text)),
            None => text.parse().map(Self::One),
        }
    }
}

/// Whether a text is a version such as `v1` or `v2beta1`.
fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|c: char| c.is_ascii_digit()) && !text.contains('.')
}

impl TryFrom<String> for KindPattern {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, KindError> {
        text.parse()
    }
}

impl From<KindPattern> for String {
    fn from(pattern: KindPattern) -> Self {
        pattern.to_string()
    }
}

/// Returns the plural that a kind usually has: the kind in lower case with a regular English ending.
pub fn usual_plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    match lower.as_bytes() {
        [.., b's' | b'x'] | [.., b'c' | b's', b'h'] => format!("{lower}es"),
        [.., b'a' | b'e' | b'o' | b'u', b'y'] => format!("{lower}s"),
        [.., b'y'] => format!("{}ies", &lower[..lower.len() - 1]),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_reverses_display() {
        for text in [
            "v1/Pod",
            "apps/v1/Deployment",
            "rbac.authorization.k8s.io/v1/ClusterRole",
        ] {
            assert_eq!(text.parse::<Kind>().unwrap().to_string(), text);
        }
        assert_eq!(
            "apps/v1/Deployment".parse(),
            Ok(Kind::of_object("apps/v1", "Deployment"))
        );
    }

    #[test]
    fn an_invalid_kind_is_an_error() {
        for text in [
            "",
            "Pod",
            "v1/",
            "/v1/Pod",
            "a/b/c/d",
            "v1/Po d",
            "../v1/Pod",
        ] {
            assert_eq!(text.parse::<Kind>(), Err(KindError(text.into())));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_no_kind_and_is_quoted_in_part() {
        for long in ["a/".repeat(1 << 20), format!("v1/{}", "ö".repeat(1 << 20))] {
            let error = long.parse::<Kind>().unwrap_err();
            assert!(error.0.len() <= MAX_LENGTH, "{} bytes", error.0.len());
            assert_eq!(long.parse::<KindPattern>(), Err(error));
        }
    }

    #[test]
    fn a_pattern_is_one_kind_or_a_group_or_all() {
        let kinds = [
            Kind::new("", "v1", "Pod"),
            Kind::new("", "v1", "Secret"),
            Kind::new("apps", "v1", "Pod"),
        ];
        let matched = |text: &str| {
            let pattern: KindPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
            kinds.each_ref().map(|kind| pattern.matches(kind))
        };
        assert_eq!(matched("*"), [true; 3]);
        assert_eq!(matched("v1/Pod"), [true, false, false]);
        assert_eq!(matched("apps/*"), [false, false, true]);
        assert_eq!(matched("v1.example.com/*"), [false; 3]);
        for text in [
            "",
            "**",
            "*/*",
            "/*",
            "v1/*",
            "v2beta1/*",
            "apps/v1/*",
            "apps/*/Pod",
        ] {
            assert_eq!(text.parse::<KindPattern>(), Err(KindError(text.into())));
        }
    }
}
