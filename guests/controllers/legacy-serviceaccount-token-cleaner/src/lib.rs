//! legacy-serviceaccount-token-cleaner-controller: deletes token Secrets of service accounts that
//! are no longer used (KEP-2799).
//!
//! The API server records on such a Secret when its token was last used. Once a day
//! [`LegacyTokens`] checks all Secrets that the control plane created for an account automatically,
//! that are older than the clean-up period, that were not used for that period and that no pod
//! references. It first labels such a Secret as invalid: from then on the API server rejects the
//! token. After another period it deletes the Secret. Until then a user can restore the token by
//! removing the label.
//!
//! [`token`] chooses the next step for a Secret, and [`pods`] lists the Secrets that pods reference.
//!
//! Upstream: pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go: NewLegacySATokenCleaner,
//! evaluateSATokens, latestPossibleTrackedSinceTime, hasSecretReference.

pub mod pods;
pub mod token;

use std::time::Duration;

use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::{duration, info, prelude::*, warning};
use serde::Deserialize;

use pods::Referenced;
use token::{SECRET_TYPE, Secret, Step};

/// The configuration key of the clean-up period.
pub const CLEAN_UP_PERIOD: &str = "clean-up-period";

/// The period of the checks.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The only key.
const KEY: &str = "all";
/// The ConfigMap, in [`TRACKING_NAMESPACE`], in which the API server records since when it tracks
/// the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const TRACKING_NAMESPACE: &str = "kube-system";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct Tracking {
    #[view(path = "data.since")]
    since: Option<String>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
struct ServiceAccount {
    #[view(path = "metadata", fields("uid"))]
    meta: Meta,
    #[view(path = "secrets", fields("[*].name"))]
    secrets: Vec<SecretReference>,
}

/// A reference by name only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SecretReference {
    name: String,
}

pub struct LegacyTokens;

export!(LegacyTokens);

impl Controller for LegacyTokens {
    fn describe() -> Description {
        describe("legacy-serviceaccount-token-cleaner-controller", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Secret>().field_selector(&format!("type={SECRET_TYPE}")))
            .watch(watch::<ServiceAccount>())
            .watch(watch::<pods::Pod>())
            // A failure is repeated by the next tick.
            .queue_with(Queue {
                max_retries: Some(0),
                ..queue("legacy_serviceaccount_token_cleaner")
            })
            .ticker(KEY, INTERVAL)
            .permission(Tracking::KIND, ["get"])
            .permission(Secret::KIND, ["patch", "delete"])
            .config(
                CLEAN_UP_PERIOD,
                Some("8760h0m0s"),
                "How long a token must be unused before it is marked invalid, and then before it is deleted.",
            )
            .concurrency(1)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let (now, period) = (host.now(), period(host)?);
        if now < tracked_since(host)? + period {
            return Ok(Outcome::Done);
        }
        let unused_since = now - period;
        let mut referenced = Referenced::new(host);
        let mut steps = Vec::new();
        host.list::<Secret>().each(|secret| {
            if is_unused(host, &secret, unused_since)
                && is_of_account(host, &secret)?
                && !referenced.has(&secret.meta.namespace, &secret.meta.name)?
                && let Some(step) = token::step(&secret, now, unused_since)
            {
                steps.push((secret, step));
            }
            Ok(())
        })?;
        run(host, &steps)
    }
}

/// Reads the clean-up period.
fn period(host: &Host) -> Result<Duration, Error> {
    let text = host.config(CLEAN_UP_PERIOD).unwrap_or_default();
    let period = duration::parse(&text)
        .ok()
        .filter(|period| !period.is_zero());
    period.ok_or_else(|| {
        Error::terminal(format!(
            "invalid clean-up period `{text}`: must be a positive duration"
        ))
    })
}

/// Returns the time since when every use is recorded: the day after the day on which tracking
/// began.
fn tracked_since(host: &Host) -> Result<Time, Error> {
    let tracking = host.live().get::<Tracking>(TRACKING_NAMESPACE, TRACKING)?;
    let Some(Tracking { since }) = tracking else {
        return Err(Error::failed(format!(
            "the ConfigMap {TRACKING} does not exist: the API server has not created it yet"
        )));
    };
    let since = since.unwrap_or_default();
    let day = Time::of_date(&since);
    let day = day.ok_or_else(|| {
        Error::failed(format!(
            "the ConfigMap {TRACKING} has no date: `since` is {since:?}"
        ))
    })?;
    Ok(day + INTERVAL)
}

/// Whether a token is old and was not used recently. A token whose last use can't be parsed counts
/// as used.
fn is_unused(host: &Host, secret: &Secret, since: Time) -> bool {
    token::is_unused(secret, since).unwrap_or_else(|label| {
        warning!(
            host,
            "the last use of secret {} is not a date: {label:?}",
            secret.meta.key()
        );
        false
    })
}

/// Whether the control plane created the Secret for its account; if so, the account's `secrets`
/// lists it. Secrets created by users are not deleted.
fn is_of_account(host: &Host, secret: &Secret) -> Result<bool, Error> {
    let (name, uid) = secret.account();
    if name.is_empty() {
        return Ok(false);
    }
    let account: Option<ServiceAccount> = host.get(&secret.meta.namespace, name)?;
    Ok(account.is_some_and(|account| {
        (uid.is_empty() || account.meta.uid == uid)
            && account
                .secrets
                .iter()
                .any(|reference| reference.name == secret.meta.name)
    }))
}

/// Carries out the steps. A Secret that was updated or deleted in the meantime is checked again the
/// next day.
fn run(host: &Host, steps: &[(Secret, Step)]) -> Result<Outcome, Error> {
    for (secret, step) in steps {
        info!(
            host,
            "{step} legacy service account token {}",
            secret.meta.key()
        );
    }
    let writes = steps
        .iter()
        .map(|(secret, step)| ((secret, step), step.write(secret)));
    let results = host.tagged_batch().extend(writes).run().into_iter();
    let failures = results.filter_map(|((secret, step), result)| {
        let failure = result
            .err()
            .filter(|error| !error.is_conflict() && !error.is_not_found())?;
        Err::<(), _>(failure)
            .doing(|| format!("{step} secret {}", secret.meta.key()))
            .err()
    });
    Error::join(failures).map_or(Ok(Outcome::Done), Err)
}
