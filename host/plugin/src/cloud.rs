//! Calls of a cloud: the values that cross from a controller's guest through the host to a provider's guest.

use bytes::Bytes;

use crate::error::{CallError, CallFailure};

/// The export that makes a component a provider.
pub(crate) const PROVIDER: &str = "flyball:cloud/provider@0.1.0";

// The kinds of the host's own errors.
const DENIED: &str = "Denied";
const UNAVAILABLE: &str = "Unavailable";
const TIMEOUT: &str = "Timeout";
const CRASHED: &str = "Crashed";
const FULL: &str = "Full";
const FENCED: &str = "Fenced";

/// A call of a method of a cloud. The documents are a guest's, before any check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudCall {
    pub method: String,
    pub arguments: Bytes,
    /// A JSON array of Nodes; empty if the method takes none.
    pub nodes: Bytes,
}

/// Why a call of a cloud failed. `wit/cloud/types.wit` lists the kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CloudError {
    /// An open set; empty for an error of the provider without a kind.
    pub kind: String,
    pub message: String,
    /// Whether it only wraps an error of this kind.
    pub wrapped: bool,
    pub retry_after_ms: Option<u32>,
}

impl CloudError {
    /// An error of the host.
    fn of_host(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The policy does not let the plugin call a cloud.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::of_host(DENIED, message)
    }

    /// The provider does not run.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::of_host(UNAVAILABLE, message)
    }

    /// The call's documents are too large, or there are too many calls.
    pub fn full(message: impl Into<String>) -> Self {
        Self::of_host(FULL, message)
    }

    /// This process does not hold the lease.
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::of_host(FENCED, message)
    }

    /// The provider returned something that is not the world's.
    pub fn crashed(message: impl Into<String>) -> Self {
        Self::of_host(CRASHED, message)
    }

    /// The call of the provider's guest did not return.
    pub fn of_failed_call(provider: &str, error: &CallError) -> Self {
        let kind = match error.failure {
            CallFailure::CpuLimit { .. } | CallFailure::WallLimit { .. } => TIMEOUT,
            CallFailure::NoSlot { .. } | CallFailure::Removed | CallFailure::Shutdown => {
                UNAVAILABLE
            }
            _ => CRASHED,
        };
        Self::of_host(
            kind,
            format!("the cloud provider {provider} failed: {error}"),
        )
    }
}
