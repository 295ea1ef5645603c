//! Chooses the next step for a token Secret. Its labels contain dates such as `2026-01-31`.
//!
//! Upstream: pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go: evaluateSATokens.

use std::fmt;

use flyball_sdk::prelude::*;

/// The type of Secrets that hold a service account's token.
pub const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
/// The label in which the API server records the day of the last use.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label that makes a token invalid; its value is the day on which it was set.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// A Secret, without its data.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Secret")]
pub struct Secret {
    #[view(
        path = "metadata",
        fields(
            "creationTimestamp",
            "deletionTimestamp",
            "labels['kubernetes.io/legacy-token-last-used']",
            "labels['kubernetes.io/legacy-token-invalid-since']",
            "annotations['kubernetes.io/service-account.name']",
            "annotations['kubernetes.io/service-account.uid']",
        )
    )]
    pub meta: Meta,
}

impl Secret {
    /// Returns the name and UID of the Secret's account; empty strings for absent annotations.
    pub fn account(&self) -> (&str, &str) {
        let annotation = |key| self.meta.annotation(key).unwrap_or_default();
        (
            annotation("kubernetes.io/service-account.name"),
            annotation("kubernetes.io/service-account.uid"),
        )
    }
}

/// Whether the Secret was created, and its token last used, before this time. A token without the
/// label was never used.
///
/// # Errors
/// The label's value, if it is not a date.
pub fn is_unused(secret: &Secret, since: Time) -> Result<bool, &str> {
    // A Secret without a creation time counts as infinitely old.
    let created = secret
        .meta
        .creation_timestamp
        .unwrap_or(Time::of_seconds(i64::MIN));
    if secret.meta.is_deleting() || created >= since {
        return Ok(false);
    }
    match secret.meta.label(LAST_USED) {
        None => Ok(true),
        Some(day) if Time::of_date(day).is_none() => Err(day),
        Some(day) => Ok(*day < *since.date()),
    }
}

/// The next step for an unused Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Label the token as invalid since this day.
    Mark(String),
    /// Delete the Secret.
    Delete,
}

/// Returns the next step: labels a Secret that has no valid date in its label, and deletes one that
/// was labelled before `marked_before`.
pub fn step(secret: &Secret, now: Time, marked_before: Time) -> Option<Step> {
    match secret
        .meta
        .label(INVALID_SINCE)
        .filter(|day| Time::of_date(day).is_some())
    {
        None => Some(Step::Mark(now.date())),
        Some(day) => (*day < *marked_before.date()).then_some(Step::Delete),
    }
}

impl Step {
    /// Returns the write, with the Secret's UID as a precondition. A delete also requires that the
    /// Secret is unchanged, so that a recorded use prevents it.
    pub fn write(&self, secret: &Secret) -> Write {
        let meta = &secret.meta;
        match self {
            Self::Mark(day) => {
                let patch = json!({"metadata": {"uid": meta.uid, "labels": {INVALID_SINCE: day}}});
                Write::patch(
                    Secret::KIND,
                    &meta.namespace,
                    &meta.name,
                    PatchType::Merge,
                    &patch,
                )
            }
            Self::Delete => {
                Write::delete_exactly(Secret::KIND, meta).resource_version(&meta.resource_version)
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mark(_) => "marking as invalid",
            Self::Delete => "deleting",
        })
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    /// The start of the clean-up period, in the middle of a day.
    const SINCE: &str = "2025-06-15T12:00:00Z";
    const NOW: &str = "2026-06-15T12:00:00Z";

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn secret(created: &str, labels: Value) -> Secret {
        view(
            json!({"metadata": {"name": "t", "namespace": "n", "uid": "u", "resourceVersion": "7",
                                 "creationTimestamp": created, "labels": labels}}),
        )
    }

    fn old(labels: Value) -> Secret {
        secret("2020-01-01T00:00:00Z", labels)
    }

    #[test]
    fn a_token_is_unused_if_it_was_created_and_last_used_before_the_period() {
        let never = json!({});
        assert_eq!(
            is_unused(&secret("2025-06-15T11:59:59Z", never.clone()), time(SINCE)),
            Ok(true)
        );
        assert_eq!(is_unused(&secret(SINCE, never), time(SINCE)), Ok(false));
        for (day, expected) in [
            ("2025-06-14", true),
            ("2025-06-15", false),
            ("2025-06-16", false),
            ("2024-12-31", true),
        ] {
            assert_eq!(
                is_unused(&old(json!({LAST_USED: day})), time(SINCE)),
                Ok(expected),
                "{day}"
            );
        }
        assert_eq!(
            is_unused(&view(json!({"metadata": {"name": "t"}})), time(SINCE)),
            Ok(true)
        );
    }

    #[test]
    fn a_last_use_that_is_not_a_date_is_an_error() {
        for day in ["", "yesterday", "2020-1-1", "2020-02-30"] {
            assert_eq!(
                is_unused(&old(json!({LAST_USED: day})), time(SINCE)),
                Err(day)
            );
        }
    }

    #[test]
    fn a_secret_being_deleted_is_left_alone() {
        let mut going = old(json!({}));
        going.meta.deletion_timestamp = Some(time(NOW));
        assert_eq!(is_unused(&going, time(SINCE)), Ok(false));
    }

    #[test]
    fn a_secret_is_marked_first_and_deleted_a_period_later() {
        let step = |labels| step(&old(labels), time(NOW), time(SINCE));
        let mark = Some(Step::Mark("2026-06-15".into()));
        assert_eq!(step(json!({})), mark);
        assert_eq!(step(json!({INVALID_SINCE: "not a date"})), mark);
        assert_eq!(step(json!({INVALID_SINCE: "2026-06-14"})), None);
        assert_eq!(step(json!({INVALID_SINCE: "2025-06-15"})), None);
        assert_eq!(
            step(json!({INVALID_SINCE: "2025-06-14"})),
            Some(Step::Delete)
        );
    }

    #[test]
    fn the_writes_have_preconditions() {
        let secret = old(json!({}));
        let mark = Step::Mark("2026-06-15".into()).write(&secret);
        let body = json!({"metadata": {"uid": "u", "labels": {INVALID_SINCE: "2026-06-15"}}});
        assert_eq!(
            mark,
            Write::patch("v1/Secret", "n", "t", PatchType::Merge, &body)
        );
        let delete = Step::Delete.write(&secret);
        assert_eq!(
            delete.options["preconditions"],
            json!({"uid": "u", "resourceVersion": "7"})
        );
    }
}
