//! What becomes of a token's Secret: by the dates on its labels, each as in `2026-01-31`.

use std::fmt;

use flyball_sdk::prelude::*;

/// The type of Secrets that hold the token of a service account.
pub const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
/// The label on which the API server notes the day of the last use.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label that makes a token invalid, since the day that it tells.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// A Secret, of which no data is read.
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
    /// The name and the UID of the account whose token it holds; empty where they are not told.
    pub fn account(&self) -> (&str, &str) {
        let annotation = |key| self.meta.annotation(key).unwrap_or_default();
        (
            annotation("kubernetes.io/service-account.name"),
            annotation("kubernetes.io/service-account.uid"),
        )
    }
}

/// Whether it was made, and its token last used, before this time. A token without a note was never
/// used.
///
/// # Errors
/// The note, if it is not a date.
pub fn is_unused(secret: &Secret, since: Time) -> Result<bool, &str> {
    // One without a creation time is as old as can be.
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

/// What is done to a Secret that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its token is refused from now on, since this day.
    Mark(String),
    /// It goes.
    Delete,
}

/// The next step: the mark, if it has none that can be read; the end, if it was marked before
/// `marked_before`.
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
    /// The write that takes the step, on this very Secret; the last one only if nothing of it has
    /// changed, such as its use.
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
            Self::Mark(_) => "marking as invalid the",
            Self::Delete => "deleting the",
        })
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    /// The start of the period, within a day.
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
    fn a_token_is_unused_if_it_was_made_and_last_used_before_the_period() {
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
    fn a_last_use_that_is_no_date_is_an_error() {
        for day in ["", "yesterday", "2020-1-1", "2020-02-30"] {
            assert_eq!(
                is_unused(&old(json!({LAST_USED: day})), time(SINCE)),
                Err(day)
            );
        }
    }

    #[test]
    fn what_is_being_deleted_is_left_alone() {
        let mut going = old(json!({}));
        going.meta.deletion_timestamp = Some(time(NOW));
        assert_eq!(is_unused(&going, time(SINCE)), Ok(false));
    }

    #[test]
    fn it_is_marked_first_and_deleted_a_period_later() {
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
    fn the_writes_are_about_this_very_secret() {
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
