//! How calls end, in the form of recordings. A call that the host ended, because it shuts down for example, has no end: it
//! is not recorded.

use std::time::Duration;

use flyball_plugin::{CallError, CallFailure, CloudError, Outcome, RoutedKey};
use flyball_recording::{Document, Ended, Kept, StopLimit};

/// The end of a `reconcile`.
pub fn of_reconcile(result: &Result<Outcome, CallError>) -> Option<Ended> {
    match result {
        Ok(Outcome::Done) => Some(Ended::Done {}),
        Ok(Outcome::RequeueAfter(delay)) => Some(Ended::RequeueAfter { ms: millis(*delay) }),
        Ok(Outcome::Failed(message)) => Some(Ended::Failed {
            message: message.clone(),
        }),
        Ok(Outcome::Terminal(message)) => Some(Ended::Terminal {
            message: message.clone(),
        }),
        Err(error) => of_failure(error),
    }
}

/// The end of a `route`.
pub fn of_route(result: &Result<Result<Vec<RoutedKey>, String>, CallError>) -> Option<Ended> {
    let key = |key: &RoutedKey| flyball_recording::RoutedKey {
        queue: key.queue.clone(),
        key: key.key.clone(),
        delay_ms: millis(key.delay),
    };
    match result {
        Ok(Ok(keys)) => Some(Ended::Routed {
            keys: keys.iter().map(key).collect(),
        }),
        Ok(Err(message)) => Some(Ended::NotRouted {
            message: message.clone(),
        }),
        Err(error) => of_failure(error),
    }
}

/// The end of a `describe`.
pub(crate) fn of_describe(result: Result<Vec<u8>, CallError>) -> Option<Ended> {
    match result {
        Ok(description) => Some(Ended::Described {
            description: Document(description),
        }),
        Err(error) => of_failure(&error),
    }
}

/// The end of a call of a cloud's provider.
pub fn of_cloud(result: &Result<Result<Vec<u8>, CloudError>, CallError>) -> Option<Ended> {
    match result {
        Ok(Ok(document)) => Some(Ended::Answered {
            document: Document(document.clone()),
        }),
        Ok(Err(error)) => Some(Ended::Refused {
            kind: error.kind.clone(),
            message: error.message.clone(),
        }),
        Err(error) => of_failure(error),
    }
}

fn of_failure(error: &CallError) -> Option<Ended> {
    let stopped = |limit, backtrace: &Option<String>| {
        Some(Ended::Stopped {
            limit,
            message: error.failure.to_string(),
            backtrace: backtrace.clone(),
        })
    };
    match &error.failure {
        CallFailure::Trap {
            message,
            last_error,
            place: _,
            backtrace,
        } => Some(Ended::Trapped {
            message: message.clone(),
            last_error: last_error.clone(),
            backtrace: backtrace.clone(),
        }),
        CallFailure::Instantiate(message) => Some(Ended::Trapped {
            message: format!("could not instantiate the component: {message}"),
            last_error: None,
            backtrace: None,
        }),
        CallFailure::CpuLimit { backtrace, .. } => stopped(StopLimit::Cpu, backtrace),
        CallFailure::WallLimit { .. } => stopped(StopLimit::Wall, &None),
        CallFailure::MemoryLimit { backtrace, .. } if error.is_of_guest() => {
            stopped(StopLimit::Memory, backtrace)
        }
        CallFailure::MemoryLimit { .. }
        | CallFailure::NoSlot { .. }
        | CallFailure::Host(_)
        | CallFailure::Removed
        | CallFailure::Shutdown => None,
    }
}

/// The reason to keep a call that ended like this; none if it ended well.
pub(crate) fn reason(ended: &Ended) -> Option<Kept> {
    match ended {
        Ended::Done {}
        | Ended::RequeueAfter { .. }
        | Ended::Routed { .. }
        | Ended::Described { .. }
        | Ended::Answered { .. } => None,
        Ended::Failed { .. }
        | Ended::Terminal { .. }
        | Ended::NotRouted { .. }
        | Ended::Refused { .. } => Some(Kept::Failed),
        Ended::Trapped { .. } | Ended::Stopped { .. } => Some(Kept::Trapped),
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(failure: CallFailure) -> Option<Ended> {
        of_reconcile(&Err(CallError {
            call: "reconcile".into(),
            failure,
            cpu: Duration::ZERO,
        }))
    }

    #[test]
    fn calls_that_the_host_ended_are_not_recorded() {
        assert_eq!(failed(CallFailure::Removed), None);
        assert_eq!(failed(CallFailure::Host("oops".into())), None);
        let wall = CallFailure::WallLimit {
            used: Duration::ZERO,
            limit: Duration::from_secs(1),
        };
        let ended = failed(wall).unwrap();
        assert!(ended.is_by_time());
        assert_eq!(reason(&ended), Some(Kept::Trapped));
    }

    #[test]
    fn calls_that_ended_well_need_another_reason() {
        let ended = of_reconcile(&Ok(Outcome::RequeueAfter(Duration::from_secs(2)))).unwrap();
        assert_eq!(ended, Ended::RequeueAfter { ms: 2000 });
        assert_eq!(reason(&ended), None);
        let ended = of_reconcile(&Ok(Outcome::Terminal("no".into()))).unwrap();
        assert_eq!(reason(&ended), Some(Kept::Failed));
    }
}
