//! The one shape in which the API server's refusals, and the host's own, travel to a guest.

use std::fmt;

/// Why a read or a write failed: the API server's answer, or the host's in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status; 0 if no answer came, so that the call may have taken effect or not.
    pub status: u16,
    /// The API's reason, an open set (`NotFound`, `Conflict`, …), or one of the host's (`Denied`, `Skipped`, …).
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// How long the server asks to wait before the next try, in milliseconds.
    pub retry_after_ms: Option<u32>,
}

impl ApiError {
    /// An error of this status and reason.
    pub fn new(status: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// The plugin was not granted what it asked for; no call was made.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(403, "Denied", message)
    }

    /// The arguments make no sense; no call was made.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "Invalid", message)
    }

    /// Not run, because an earlier write of the batch failed.
    pub fn skipped() -> Self {
        Self::new(
            0,
            "Skipped",
            "not run: an earlier write of the batch failed",
        )
    }

    /// No answer came: what was asked for may have taken effect or not.
    pub fn unanswered(message: impl Into<String>) -> Self {
        Self::new(0, "Timeout", message)
    }

    /// Whether no answer came to a call that was made, so that its effect is unknown.
    pub fn is_unknown_outcome(&self) -> bool {
        self.status == 0 && self.reason == "Timeout"
    }

    /// The API server serves no such kind; no call was made. Whether an object of it exists is not known.
    pub fn unknown_kind(message: impl Into<String>) -> Self {
        Self::new(404, "UnknownKind", message)
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == 404 && self.reason != "UnknownKind"
    }

    /// Whether the server does not know this verb for what was asked.
    pub fn is_method_not_supported(&self) -> bool {
        self.status == 405
    }

    /// Whether the object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether an object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        match (self.status, self.reason.as_str()) {
            (0, reason) => write!(f, " ({reason})"),
            (status, "") => write!(f, " ({status})"),
            (status, reason) => write!(f, " ({status} {reason})"),
        }
    }
}

impl std::error::Error for ApiError {}
