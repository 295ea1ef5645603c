//! The status of a StorageVersion.
//!
//! Upstream: pkg/controller/storageversiongc/gc_controller.go: updateOrDeleteStorageVersion.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

const EQUAL: &str = "AllEncodingVersionsEqual";

/// The status of a StorageVersion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub storage_versions: Vec<ServerVersions>,
    /// The version in which all API servers store the resource, if it is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_encoding_version: Option<String>,
    pub conditions: Vec<Condition>,
}

/// An API server, and the versions that it handles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerVersions {
    /// The name of the API server's Lease.
    #[serde(rename = "apiServerID")]
    pub server: String,
    pub encoding_version: String,
    pub decodable_versions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served_versions: Vec<String>,
}

/// Returns the status that replaces `old`, with these entries.
pub fn of(old: &Status, entries: Vec<ServerVersions>, generation: i64, now: Time) -> Status {
    let first = entries.first().map(|entry| entry.encoding_version.clone());
    let common = first.filter(|first| entries.iter().all(|entry| entry.encoding_version == *first));
    let (status, reason, message) = match common {
        Some(_) => (
            "True",
            "CommonEncodingVersionSet",
            "Common encoding version set",
        ),
        None => (
            "False",
            "CommonEncodingVersionUnset",
            "Common encoding version unset",
        ),
    };
    let mut conditions = old.conditions.clone();
    // Another common version is a transition, too.
    let has_moved = old.common_encoding_version.is_some()
        && common.is_some()
        && old.common_encoding_version != common;
    if has_moved
        && let Some(equal) = conditions
            .iter_mut()
            .find(|one| one.condition_type == EQUAL)
    {
        equal.last_transition_time = Some(now.to_second());
    }
    let equal = Condition {
        observed_generation: Some(generation).filter(|generation| *generation != 0),
        ..Condition::new(EQUAL, status, reason, message)
    };
    condition::set(&mut conditions, equal, now);
    Status {
        storage_versions: entries,
        common_encoding_version: common,
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, version: &str) -> ServerVersions {
        ServerVersions {
            server: server.into(),
            encoding_version: version.into(),
            decodable_versions: vec!["v1".into()],
            served_versions: Vec::new(),
        }
    }

    fn time(seconds: i64) -> Time {
        Time::of_seconds(seconds)
    }

    #[test]
    fn a_common_version_is_set_if_all_servers_have_it() {
        let status = of(
            &Status::default(),
            vec![entry("a", "v1"), entry("b", "v1")],
            3,
            time(1),
        );
        assert_eq!(status.common_encoding_version.as_deref(), Some("v1"));
        let equal = &status.conditions[0];
        assert_eq!(
            (&*equal.status, &*equal.reason),
            ("True", "CommonEncodingVersionSet")
        );
        assert_eq!(
            (equal.observed_generation, equal.last_transition_time),
            (Some(3), Some(time(1)))
        );

        let mixed = of(
            &status,
            vec![entry("a", "v1"), entry("b", "v2")],
            3,
            time(2),
        );
        assert_eq!(mixed.common_encoding_version, None);
        let equal = &mixed.conditions[0];
        assert_eq!(
            (&*equal.status, &*equal.reason),
            ("False", "CommonEncodingVersionUnset")
        );
        assert_eq!(
            (mixed.conditions.len(), equal.last_transition_time),
            (1, Some(time(2)))
        );
    }

    #[test]
    fn the_transition_time_changes_with_the_status_or_the_common_version() {
        let transition = |old: &Status, entries| {
            of(old, entries, 0, time(9)).conditions[0]
                .last_transition_time
                .unwrap()
        };
        let old = of(&Status::default(), vec![entry("a", "v1")], 0, time(1));
        assert_eq!(old.conditions[0].observed_generation, None);
        assert_eq!(transition(&old, vec![entry("b", "v1")]), time(1));
        assert_eq!(transition(&old, vec![entry("b", "v2")]), time(9));
        assert_eq!(
            transition(&old, vec![entry("a", "v1"), entry("b", "v2")]),
            time(9)
        );
    }
}
