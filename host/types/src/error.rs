//! Errors of reads and writes, as guests receive them: from the API server, or from the host.

use std::fmt;

use crate::printable;

/// Why a read or a write failed. Only its constructors create one, so that its texts are bounded and its effect fits its
/// status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status of the API server's response, or of the [`HostReason`]. Never 0.
    pub status: u16,
    /// The API server's reason, from an open set (`NotFound`, `Conflict`, …), or a [`HostReason`].
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// Whether the call may have changed anything.
    pub effect: Effect,
    /// How long to wait before a retry, in milliseconds, if the server says so.
    pub retry_after_ms: Option<u32>,
}

/// The maximum size of an error's text, in bytes. Webhooks write messages of any length, errors of the host quote texts
/// that a guest has passed to it, and the host keeps all errors of a batch.
const MAX_MESSAGE: usize = 16 * 1024;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE)]
}

/// Truncates a text, and frees the memory of the rest.
fn short(text: String) -> String {
    if text.len() <= MAX_MESSAGE {
        return text;
    }
    cut(&text).to_owned()
}

/// Whether a failed call may have changed the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was changed: no request was sent, or only requests that read.
    None,
    /// Nothing was changed: the API server refused the request (4xx).
    Refused,
    /// Unknown: a request was sent, but no response came, or the server failed (5xx).
    Unknown,
}

/// The reason of an error of the host. `wit/types.wit` lists the reasons for guests; a test compares the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostReason {
    Denied,
    Invalid,
    NotFound,
    UnknownKind,
    Unauthorized,
    Conflict,
    Full,
    Skipped,
    Fenced,
    Unreachable,
    Timeout,
    InternalError,
}

impl HostReason {
    pub const ALL: [Self; 12] = [
        Self::Denied,
        Self::Invalid,
        Self::NotFound,
        Self::UnknownKind,
        Self::Unauthorized,
        Self::Conflict,
        Self::Full,
        Self::Skipped,
        Self::Fenced,
        Self::Unreachable,
        Self::Timeout,
        Self::InternalError,
    ];

    /// The text in [`ApiError::reason`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "Denied",
            Self::Invalid => "Invalid",
            Self::NotFound => "NotFound",
            Self::UnknownKind => "UnknownKind",
            Self::Unauthorized => "Unauthorized",
            Self::Conflict => "Conflict",
            Self::Full => "Full",
            Self::Skipped => "Skipped",
            Self::Fenced => "Fenced",
            Self::Unreachable => "Unreachable",
            Self::Timeout => "Timeout",
            Self::InternalError => "InternalError",
        }
    }

    /// The HTTP status that fits the reason.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthorized => 401,
            Self::Denied => 403,
            Self::NotFound | Self::UnknownKind => 404,
            Self::Conflict => 409,
            Self::Skipped => 424,
            Self::InternalError => 500,
            Self::Fenced | Self::Unreachable => 503,
            Self::Timeout => 504,
            Self::Full => 507,
        }
    }
}

/// Errors of the API server.
impl ApiError {
    /// The error response to a request that may change something. The effect is `Refused` if the status is 4xx, else
    /// `Unknown`.
    pub fn of_server(status: u16, reason: &str, message: impl Into<String>) -> Self {
        let effect = if (400..500).contains(&status) {
            Effect::Refused
        } else {
            Effect::Unknown
        };
        Self {
            status,
            reason: cut(reason).into(),
            message: short(message.into()),
            effect,
            retry_after_ms: None,
        }
    }

    /// The same error for a request that only reads, which changed nothing.
    #[must_use]
    pub fn of_read(self) -> Self {
        match self.effect {
            Effect::Unknown => self.with_effect(Effect::None),
            Effect::None | Effect::Refused => self,
        }
    }

    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// The same error with the time to wait before a retry, in milliseconds.
    #[must_use]
    pub fn with_retry_after(self, retry_after_ms: Option<u32>) -> Self {
        Self {
            retry_after_ms,
            ..self
        }
    }
}

/// Errors of the host. The call changed nothing, unless the constructor says otherwise.
impl ApiError {
    fn of_host(reason: HostReason, message: impl Into<String>) -> Self {
        Self {
            status: reason.status(),
            reason: reason.as_str().into(),
            message: short(message.into()),
            effect: Effect::None,
            retry_after_ms: None,
        }
    }

    /// The plugin's policy does not grant this.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Denied, message)
    }

    /// The plugin's description does not ask for this. `namespace` is empty unless the description asks for it in other
    /// namespaces. The host, if all plugins are trusted, and the clusters of tests have the same sentence.
    pub fn not_asked(verb: &str, kind: &str, subresource: &str, namespace: &str) -> Self {
        let (slash, on, place) = (
            if subresource.is_empty() { "" } else { "/" },
            match subresource {
                "" => format!("permission({kind:?}, {verb:?})"),
                _ => format!("permission_on({kind:?}, {subresource:?}, {verb:?})"),
            },
            match namespace {
                "" => String::new(),
                _ => format!(" in the namespace {namespace}"),
            },
        );
        Self::denied(printable(&format!(
            "the plugin does not ask to {verb} {kind}{slash}{subresource}{place}: add `{on}` to its description"
        )))
    }

    /// An argument is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Invalid, message)
    }

    /// The host has nothing of this name.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::NotFound, message)
    }

    /// The API server serves no such kind. Says nothing about the object.
    pub fn unknown_kind(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::UnknownKind, message)
    }

    /// A token was not signed with the key.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Unauthorized, message)
    }

    /// The object has changed since the version that the call is based on.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Conflict, message)
    }

    /// A limit of the plugin is reached.
    pub fn full(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Full, message)
    }

    /// Not started, because an earlier write of the batch failed.
    pub fn skipped() -> Self {
        Self::of_host(
            HostReason::Skipped,
            "not started: an earlier write of the batch failed",
        )
    }

    /// A write that did not start, because the plugin was stopped.
    pub fn stopped() -> Self {
        Self::of_host(
            HostReason::Skipped,
            "not started: the plugin was removed, its grant was changed, or it is quarantined",
        )
    }

    /// Not started, because this process does not hold the lease.
    pub fn fenced() -> Self {
        Self::of_host(
            HostReason::Fenced,
            "not started: this process does not hold the lease",
        )
    }

    /// The API server could not be reached: no request was sent.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Unreachable, message)
    }

    /// A request, which may have taken effect, got no complete response.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::of_host(HostReason::Timeout, message).with_effect(Effect::Unknown)
    }

    /// A fault of the host or of the server.
    pub fn internal(effect: Effect, message: impl Into<String>) -> Self {
        Self::of_host(HostReason::InternalError, message).with_effect(effect)
    }
}

impl ApiError {
    /// True if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == 404 && self.reason != HostReason::UnknownKind.as_str()
    }

    /// True if the server does not support this verb on the kind.
    pub fn is_method_not_supported(&self) -> bool {
        self.status == 405
    }

    /// True if the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.reason == HostReason::Conflict.as_str()
    }

    /// True if an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// True if the API server could not be reached.
    pub fn is_unreachable(&self) -> bool {
        self.reason == HostReason::Unreachable.as_str()
    }

    /// True if the host did not start the write because an earlier write of the batch failed.
    pub fn is_skipped(&self) -> bool {
        self.reason == HostReason::Skipped.as_str()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            reason,
            message,
            ..
        } = self;
        match reason.as_str() {
            "" => write!(f, "{message} ({status})"),
            reason => write!(f, "{message} ({status} {reason})"),
        }
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_server_is_cut() {
        let long = "ö".repeat(MAX_MESSAGE);
        let error = ApiError::of_server(400, &long, long.clone());
        assert_eq!(
            (error.reason.len(), error.message.len()),
            (MAX_MESSAGE, MAX_MESSAGE)
        );
        let error = ApiError::of_server(409, "Conflict", "it changed");
        assert_eq!(
            (error.reason.as_str(), error.message.as_str()),
            ("Conflict", "it changed")
        );
    }

    #[test]
    fn types_wit_lists_the_reasons_of_the_host() {
        let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/types.wit");
        let wit = std::fs::read_to_string(wit).unwrap();
        let (_, list) = wit.split_once("The reasons of the host:").unwrap();
        let (list, _) = list.split_once("reason: string").unwrap();
        let entry = |line: &str| {
            let (reason, rest) = line.trim().strip_prefix("/// - `")?.split_once("` (")?;
            Some((reason.to_owned(), rest.split_once(')')?.0.parse().ok()?))
        };
        let listed: Vec<(String, u16)> = list.lines().filter_map(entry).collect();
        let mut reasons =
            HostReason::ALL.map(|reason| (reason.as_str().to_owned(), reason.status()));
        let mut sorted = listed.clone();
        sorted.sort();
        reasons.sort();
        assert_eq!(sorted, reasons);
        assert_eq!(
            listed.len(),
            list.matches("/// - ").count(),
            "a line of the list can't be parsed"
        );
    }

    #[test]
    fn the_effect_of_a_servers_error_follows_its_status() {
        let effect = |status| ApiError::of_server(status, "", "").effect;
        assert_eq!(
            [404, 409, 429].map(effect),
            [Effect::Refused, Effect::Refused, Effect::Refused]
        );
        assert_eq!(
            [302, 500, 504].map(effect),
            [Effect::Unknown, Effect::Unknown, Effect::Unknown]
        );
        let read = |status| ApiError::of_server(status, "", "").of_read().effect;
        assert_eq!([404, 500].map(read), [Effect::Refused, Effect::None]);
        assert_eq!(ApiError::timeout("").effect, Effect::Unknown);
        assert_eq!(ApiError::unreachable("").effect, Effect::None);
    }

    #[test]
    fn a_missing_permission_is_named_with_the_line_to_add() {
        let message = |subresource, namespace| {
            ApiError::not_asked("patch", "v1/Pod", subresource, namespace).message
        };
        assert_eq!(
            message("", ""),
            "the plugin does not ask to patch v1/Pod: add `permission(\"v1/Pod\", \"patch\")` to its description"
        );
        assert_eq!(
            message("status", "demo"),
            "the plugin does not ask to patch v1/Pod/status in the namespace demo: add \
             `permission_on(\"v1/Pod\", \"status\", \"patch\")` to its description"
        );
    }

    #[test]
    fn an_unknown_kind_says_nothing_about_the_object() {
        assert!(ApiError::not_found("").is_not_found());
        assert!(!ApiError::unknown_kind("").is_not_found());
    }
}
