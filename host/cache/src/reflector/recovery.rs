//! Failures and recovery.

use std::time::Duration;

use flyball_types::error_chain;
use tracing::{info, warn};

use super::{Phase, Reflector};
use crate::core::Problem;
use crate::{DecodeError, SourceError};

/// The state after a check that found the server's versions in order.
#[derive(Clone, Copy)]
pub(super) enum AfterVerify {
    List,
    Connect,
}

impl Reflector {
    /// Compares the position with that of a consistent read.
    pub(super) async fn verify(&mut self, then: AfterVerify) -> Phase {
        let position = self.core.position();
        if position == 0 {
            return Phase::list();
        }
        match self.requests.fresh_position().await {
            Ok(fresh) if fresh < position => {
                warn!(
                    kind = %self.core.resource.kind, position, server_position = fresh,
                    "THE SERVER'S RESOURCE VERSIONS WENT BACK, as after a restore from a backup: listing again"
                );
                Phase::List {
                    reset: true,
                    one_page: false,
                }
            }
            Ok(_) => match then {
                AfterVerify::List => Phase::Wait(self.backoff.next(), Box::new(Phase::list())),
                AfterVerify::Connect => Phase::connect(),
            },
            Err(error) => self.failed(&error, Phase::Verify(then)),
        }
    }

    /// Handles the error that the server no longer has the versions after the position.
    pub(super) fn expired(&mut self) -> Phase {
        info!(kind = %self.core.resource.kind, position = self.core.position(), "the watch is too far behind; listing again");
        Phase::list()
    }

    /// Records that a list or watch succeeded.
    pub(super) fn succeeded(&mut self) {
        self.reachability.restored();
        if self.core.set_problem(None) {
            info!(kind = %self.core.resource.kind, "can list and watch again");
        }
    }

    /// Handles a response that can't be decoded. If it is protobuf, JSON is requested from now on.
    pub(super) fn undecodable(&mut self, error: &DecodeError, next: Phase) -> Phase {
        if matches!(error, DecodeError::Protobuf(_)) && self.core.read_json_only() {
            info!(kind = %self.core.resource.kind, %error, "can't decode the server's protobuf; requesting JSON from now on");
            return next;
        }
        self.failed(&SourceError::Invalid(error.to_string()), next)
    }

    /// Records a failure, and waits before the next state.
    pub(super) fn failed(&mut self, error: &SourceError, next: Phase) -> Phase {
        let mut delay = self.backoff.next();
        if let SourceError::Refused {
            retry_after: Some(seconds),
            ..
        } = error
        {
            delay = delay.max(Duration::from_secs(u64::from(*seconds).min(120)));
        }
        let is_new = self.core.set_problem(Some(Problem {
            text: error_chain(error),
            is_kind_missing: error.is_not_found(),
        }));
        if error.is_unreachable() {
            self.reachability.lost(error);
        } else {
            self.reachability.restored();
            if is_new {
                warn!(kind = %self.core.resource.kind, error = %error_chain(error), "can't list or watch; retrying");
            }
        }
        Phase::Wait(delay, Box::new(next))
    }
}

pub(super) fn ended_early() -> SourceError {
    SourceError::Unreachable("the server ended the watch early".into())
}
