//! What is reported about a pod, and when the report is written.
//!
//! Upstream: pkg/controller/imperativeevictionresponder/imperative_eviction_responder_controller.go: sync.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::views::{Pod, PodReference, Report};

/// The longest time between two reports.
pub const HEARTBEAT: Duration = Duration::from_secs(3 * 60);
/// How much earlier than due a heartbeat may be.
const TOLERANCE: Duration = Duration::from_secs(1);
/// The maximum length of a message in bytes, by the API.
const MAX_MESSAGE: usize = 4000;

/// What is known about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding<'a> {
    /// The pod is gone or has ended.
    Evicted(String),
    /// The pod ends gracefully, by this time.
    Ending(String, Time),
    /// The pod has to be evicted.
    Running(&'a Pod),
}

/// Finds the state of a pod, given the pod of that name and the message of the present report.
pub fn find<'a>(target: &PodReference, pod: Option<&'a Pod>, last_message: &str) -> Finding<'a> {
    let Some(pod) = pod.filter(|pod| pod.meta.uid == target.uid) else {
        let message = format!(
            "\"{}\" pod has been deleted and fully terminated",
            target.name
        );
        return Finding::Evicted(message);
    };
    let (name, phase) = (&pod.meta.name, &pod.phase);
    match (pod.meta.deletion_timestamp, pod.is_terminal()) {
        (Some(_), true) => Finding::Evicted(format!(
            "\"{name}\" pod has been deleted and fully terminated (pod phase=\"{phase}\")"
        )),
        (None, true) => Finding::Evicted(format!(
            "\"{name}\" pod has been fully terminated (pod phase=\"{phase}\")"
        )),
        (Some(at), false) => {
            let was_evicted = last_message
                .contains("pod has been marked for deletion via the /eviction subresource");
            let how = match was_evicted {
                true => " via the /eviction subresource",
                false => "",
            };
            let message = format!(
                "\"{name}\" pod has been marked for deletion{how} and is being terminated gracefully"
            );
            Finding::Ending(message, at)
        }
        (None, false) => Finding::Running(pod),
    }
}

/// Returns the report to write; `None` if the present one is recent and says the same. `finished` is the time at which the pod
/// is expected to be gone, and whether it is.
pub fn next(
    present: &Report,
    message: &str,
    finished: Option<(Time, bool)>,
    now: Time,
) -> Option<Report> {
    let message = &message[..message.floor_char_boundary(MAX_MESSAGE)];
    let is_evicted = matches!(finished, Some((_, true)));
    // The API server refuses times that have passed.
    let expected = finished.map(|(at, _)| at.max(now));
    let is_silent =
        { present.heartbeat_time }.is_none_or(|last| last < now - HEARTBEAT + TOLERANCE);
    let has_changed = present.message.as_deref().unwrap_or_default() != message
        || is_evicted
        || expected.is_some() && expected != present.expected_completion_time;
    (is_silent || has_changed).then(|| Report {
        message: Some(message.into()),
        heartbeat_time: Some(now),
        expected_completion_time: expected.or(present.expected_completion_time),
        completion_time: Some(now).filter(|_| is_evicted),
        ..present.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time {
        seconds: 10_000,
        nanoseconds: 0,
    };

    fn at(seconds: i64) -> Time {
        Time::of_seconds(seconds)
    }

    fn target() -> PodReference {
        PodReference {
            name: "web".into(),
            uid: "u".into(),
        }
    }

    fn pod(uid: &str, phase: &str, deleted: Option<i64>) -> Pod {
        Pod {
            meta: Meta {
                name: "web".into(),
                uid: uid.into(),
                deletion_timestamp: deleted.map(at),
                ..Meta::default()
            },
            phase: phase.into(),
        }
    }

    fn reported(message: &str, heartbeat: i64) -> Report {
        Report {
            name: "a.io/a".into(),
            start_time: Some(at(1)),
            heartbeat_time: Some(at(heartbeat)),
            message: Some(message.into()),
            ..Report::default()
        }
    }

    #[test]
    fn a_pod_is_evicted_once_it_is_gone_or_has_ended() {
        fn of(pod: Option<&Pod>) -> Finding<'_> {
            find(&target(), pod, "")
        }
        let evicted = |text: &str| Finding::Evicted(format!("\"web\" pod has been {text}"));
        let gone = evicted("deleted and fully terminated");
        assert_eq!(of(None), gone);
        assert_eq!(of(Some(&pod("other", "Running", None))), gone);
        let ended = evicted("fully terminated (pod phase=\"Failed\")");
        assert_eq!(of(Some(&pod("u", "Failed", None))), ended);
        let both = evicted("deleted and fully terminated (pod phase=\"Succeeded\")");
        assert_eq!(of(Some(&pod("u", "Succeeded", Some(1)))), both);
        let running = pod("u", "Running", None);
        assert_eq!(of(Some(&running)), Finding::Running(&running));
    }

    #[test]
    fn the_message_remembers_that_the_pod_was_evicted() {
        let pod = pod("u", "Running", Some(7));
        let find = |last: &str| match find(&target(), Some(&pod), last) {
            Finding::Ending(message, at) => (message, at.seconds),
            other => panic!("{other:?}"),
        };
        let plain = "\"web\" pod has been marked for deletion and is being terminated gracefully";
        assert_eq!(find(""), (plain.into(), 7));
        let by = "\"web\" pod has been marked for deletion via the /eviction subresource and is being terminated gracefully";
        let first = "\"web\" pod has been marked for deletion via the /eviction subresource and will be terminated gracefully";
        assert_eq!((find(first), find(by)), ((by.into(), 7), (by.into(), 7)));
    }

    #[test]
    fn a_report_is_written_if_it_says_something_new_or_the_last_one_is_old() {
        let recent = reported("a", 9_900);
        assert_eq!(next(&recent, "a", None, NOW), None);
        let new = next(&recent, "b", None, NOW).unwrap();
        assert_eq!(
            (new.heartbeat_time, new.message.as_deref()),
            (Some(NOW), Some("b"))
        );
        assert_eq!(
            (&new.name, new.start_time),
            (&recent.name, recent.start_time)
        );
        for (heartbeat, is_written) in [(9_821, false), (9_820, true)] {
            let last = reported("a", heartbeat);
            assert_eq!(next(&last, "a", None, NOW).is_some(), is_written);
        }
        assert!(next(&Report::default(), "", None, NOW).is_some());
    }

    #[test]
    fn an_expected_end_is_never_in_the_past() {
        let ending = next(&reported("a", 9_900), "a", Some((at(10_030), false)), NOW).unwrap();
        assert_eq!(ending.expected_completion_time, Some(at(10_030)));
        assert_eq!(ending.completion_time, None);
        assert_eq!(next(&ending, "a", Some((at(10_030), false)), NOW), None);
        let late = next(&ending, "a", Some((at(9), false)), NOW).unwrap();
        assert_eq!(late.expected_completion_time, Some(NOW));
        let done = next(&ending, "a", Some((NOW, true)), NOW).unwrap();
        assert_eq!(
            (done.expected_completion_time, done.completion_time),
            (Some(NOW), Some(NOW))
        );
    }

    #[test]
    fn a_long_message_is_cut() {
        let long = "é".repeat(3000);
        let report = next(&Report::default(), &long, None, NOW).unwrap();
        assert_eq!(report.message.unwrap().len(), 4000);
    }
}
