//! Errors of a cloud. Each is the result of one call.

use std::fmt;
use std::time::Duration;

use flyball_sdk::Error;

/// Why a call of the cloud failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudError {
    pub kind: ErrorKind,
    /// The text for events, as the provider words it.
    pub message: String,
    /// Whether the error only wraps one of this kind: Go's `errors.Is` finds the kind, and `==` does not.
    pub wrapped: bool,
    /// For [`ErrorKind::Retry`]: how long to wait.
    pub retry_after: Option<Duration>,
}

/// The kind of a cloud's error. `wit/cloud/types.wit` documents it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// An error of the provider without a kind.
    Other,
    ImplementedElsewhere,
    InstanceNotFound,
    NotImplemented,
    Retry,
    /// An error of the host, such as `Unavailable`, or a kind that this SDK does not know.
    Host(String),
}

impl CloudError {
    /// An error without a kind.
    pub fn other(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Other,
            message: message.into(),
            wrapped: false,
            retry_after: None,
        }
    }

    /// Something else manages this load balancer.
    pub fn implemented_elsewhere() -> Self {
        Self::sentinel(ErrorKind::ImplementedElsewhere)
    }

    /// The cloud has no such instance.
    pub fn instance_not_found() -> Self {
        Self::sentinel(ErrorKind::InstanceNotFound)
    }

    /// The cloud does not support the method.
    pub fn not_implemented() -> Self {
        Self::sentinel(ErrorKind::NotImplemented)
    }

    /// To be repeated after this time, which leaves the key's backoff as it is.
    pub fn retry(message: impl Into<String>, after: Duration) -> Self {
        Self {
            kind: ErrorKind::Retry,
            retry_after: Some(after),
            ..Self::other(message)
        }
    }

    /// Wraps the error in a step: `step: message`. The kind is kept, as a wrapped one.
    pub fn wrap(self, step: &str) -> Self {
        Self {
            message: format!("{step}: {}", self.message),
            wrapped: true,
            ..self
        }
    }

    /// Whether the error is of this kind and not wrapped: Go's `==`.
    pub fn is(&self, kind: &ErrorKind) -> bool {
        !self.wrapped && self.has(kind)
    }

    /// Whether the error is of this kind or wraps one: Go's `errors.Is`.
    pub fn has(&self, kind: &ErrorKind) -> bool {
        self.kind == *kind
    }

    /// Whether the host made no call, because no provider runs.
    pub fn is_unavailable(&self) -> bool {
        matches!(&self.kind, ErrorKind::Host(kind) if kind == "Unavailable")
    }

    pub(crate) fn malformed(method: &str, error: &serde_json::Error) -> Self {
        Self::other(format!(
            "the provider's result of {method} is malformed: {error}"
        ))
    }

    fn sentinel(kind: ErrorKind) -> Self {
        // The messages of k8s.io/cloud-provider's errors.
        let message = match kind {
            ErrorKind::ImplementedElsewhere => "implemented by alternate to cloud provider",
            ErrorKind::InstanceNotFound => "instance not found",
            _ => "unimplemented",
        };
        Self {
            kind,
            ..Self::other(message)
        }
    }
}

impl ErrorKind {
    /// The kind's name in the world; empty for [`ErrorKind::Other`].
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other => "",
            Self::ImplementedElsewhere => "ImplementedElsewhere",
            Self::InstanceNotFound => "InstanceNotFound",
            Self::NotImplemented => "NotImplemented",
            Self::Retry => "Retry",
            Self::Host(kind) => kind,
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "" => Self::Other,
            "ImplementedElsewhere" => Self::ImplementedElsewhere,
            "InstanceNotFound" => Self::InstanceNotFound,
            "NotImplemented" => Self::NotImplemented,
            "Retry" => Self::Retry,
            other => Self::Host(other.into()),
        }
    }
}

impl fmt::Display for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CloudError {}

/// A retry may help.
impl From<CloudError> for Error {
    fn from(error: CloudError) -> Self {
        Self::failed(error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_error_has_the_kind_but_is_not_of_it() {
        let error = CloudError::instance_not_found();
        assert!(error.is(&ErrorKind::InstanceNotFound));
        let wrapped = error.wrap("looking up a");
        assert_eq!(wrapped.to_string(), "looking up a: instance not found");
        assert!(!wrapped.is(&ErrorKind::InstanceNotFound));
        assert!(wrapped.has(&ErrorKind::InstanceNotFound));
    }

    #[test]
    fn each_kind_is_read_back_from_its_name() {
        for name in [
            "",
            "ImplementedElsewhere",
            "InstanceNotFound",
            "NotImplemented",
            "Retry",
            "Timeout",
        ] {
            assert_eq!(ErrorKind::of(name).as_str(), name);
        }
    }
}
