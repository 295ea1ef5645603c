//! The keys of the queue: `pod:team/web`, `claim:team/gpu`, `podgroup:team/training`.

use std::fmt;

use flyball_sdk::prelude::*;

/// The key that counts the claims.
pub(crate) const METRICS: &str = "metrics";

/// The object that a key names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Claim(Key),
    Pod(Key),
    PodGroup(Key),
    /// The gauge of claims.
    Metrics,
}

impl Item {
    /// Parses the key of a request.
    ///
    /// # Errors
    /// The key has none of the forms above. The error is terminal.
    pub(crate) fn parse(key: &Key) -> Result<Self, Error> {
        let text = key.to_string();
        match text.split_once(':') {
            Some(("claim", object)) => Ok(Self::Claim(Key::parse(object))),
            Some(("pod", object)) => Ok(Self::Pod(Key::parse(object))),
            Some(("podgroup", object)) => Ok(Self::PodGroup(Key::parse(object))),
            None if text == METRICS => Ok(Self::Metrics),
            _ => Err(Error::terminal(format!("unexpected key: {text}"))),
        }
    }

    pub(crate) fn claim(namespace: &str, name: &str) -> Self {
        Self::Claim(Key::new(namespace, name))
    }

    pub(crate) fn key(&self) -> Key {
        Key::parse(&self.to_string())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "claim:{key}"),
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::PodGroup(key) => write!(f, "podgroup:{key}"),
            Self::Metrics => f.write_str(METRICS),
        }
    }
}
