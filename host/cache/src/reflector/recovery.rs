//! Failures and recovery.

use std::time::Duration;

use flyball_types::error_chain;
use tracing::{info, warn};

use super::{Phase, Reflector};
use crate::core::Problem;
use crate::{DecodeError, SourceError};

/// How many responses in a row may say that the server is busy before it is a warning: for the first few seconds of a
/// custom resource, it is usual.
const BUSY: u32 = 4;

/// Counts the responses in a row that say that the server is busy.
#[derive(Default)]
pub(super) struct BusyResponses(u32);

/// The line of the log about a failure.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    None,
    /// Nobody has to do anything.
    Waiting,
    Warning,
}

impl BusyResponses {
    /// Returns the line about a failure. `is_new` is whether the failure before was another one.
    fn line(&mut self, error: &SourceError, is_new: bool) -> Line {
        if !error.is_busy() {
            self.0 = 0;
            return if is_new { Line::Warning } else { Line::None };
        }
        self.0 = self.0.saturating_add(1);
        match self.0 {
            1 => Line::Waiting,
            BUSY => Line::Warning,
            _ => Line::None,
        }
    }
}

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
        self.busy = BusyResponses::default();
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
            let (kind, line) = (&self.core.resource.kind, self.busy.line(error, is_new));
            match line {
                Line::None => {}
                Line::Waiting => {
                    info!(%kind, error = %error_chain(error), "the API server can't list or watch yet; trying again in {delay:.1?}");
                }
                Line::Warning => {
                    warn!(%kind, error = %error_chain(error), "can't list or watch; retrying");
                }
            }
        }
        Phase::Wait(delay, Box::new(next))
    }
}

pub(super) fn ended_early() -> SourceError {
    SourceError::Unreachable("the server ended the watch early".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> SourceError {
        SourceError::from_status(code, b"storage is (re)initializing", Some(1))
    }

    #[test]
    fn a_busy_server_is_a_warning_only_if_it_stays_busy() {
        let mut busy = BusyResponses::default();
        let lines: Vec<Line> = (1..=6).map(|n| busy.line(&refused(429), n == 1)).collect();
        let expected = [
            Line::Waiting,
            Line::None,
            Line::None,
            Line::Warning,
            Line::None,
            Line::None,
        ];
        assert_eq!(lines, expected);
        assert_eq!(busy.line(&refused(403), true), Line::Warning);
        assert_eq!(busy.line(&refused(403), false), Line::None);
        assert_eq!(busy.line(&refused(429), true), Line::Waiting);
    }
}
