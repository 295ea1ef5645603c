//! legacy-serviceaccount-token-cleaner-controller: no token Secret of a service account that nobody
//! uses.
//!
//! The API server notes on such a Secret when its token was last used. Once a day [`LegacyTokens`]
//! looks at all of them: those that the control plane once made for an account by itself, that are
//! older than the clean-up period, that were not used for as long and that no pod names. Such a one
//! is first marked as invalid, and the API server refuses its token from then on; after another
//! period it is deleted. Whoever misses it until then takes the mark away.
//!
//! [`token`] says what becomes of a Secret, [`pods`] which ones pods name.

pub mod pods;
pub mod token;

use std::time::Duration;

use flyball_sdk::{duration, info, prelude::*, warning};
use serde::Deserialize;

use pods::Mounted;
use token::{SECRET_TYPE, Secret, Step};

/// The key of the configuration that holds the clean-up period.
pub const CLEAN_UP_PERIOD: &str = "clean-up-period";

/// How often the Secrets are looked at.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The one key.
const KEY: &str = "all";
/// The ConfigMap, of [`TRACKING_NAMESPACE`], in which the API server notes since when it notes
/// uses.
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
    secrets: Vec<Named>,
}

/// What is named by its name alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

/// Marks and deletes what is not used. It has one key.
pub struct LegacyTokens;

export!(LegacyTokens);

impl Controller for LegacyTokens {
    fn describe() -> Description {
        describe("legacy-serviceaccount-token-cleaner-controller", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Secret>().field_selector(&format!("type={SECRET_TYPE}")))
            .watch(watch::<ServiceAccount>())
            .watch(watch::<pods::Pod>())
            .queue("legacy_serviceaccount_token_cleaner")
            .ticker(KEY, INTERVAL)
            .allow(Tracking::KIND, ["get"])
            .allow(Secret::KIND, ["patch", "delete"])
            .config(
                CLEAN_UP_PERIOD,
                Some("8760h0m0s"),
                "For how long a token must not have been used to be marked invalid, and then to be deleted.",
            )
            .concurrency(1)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let (now, period) = (host.now(), period(host)?);
        if now < tracked_since(host)? + period {
            return Ok(Outcome::Done);
        }
        let unused_since = now - period;
        let mut mounted = Mounted::new(host);
        let mut steps = Vec::new();
        host.list::<Secret>().each(|secret| {
            if is_unused(host, &secret, unused_since)
                && is_of_account(host, &secret)?
                && !mounted.has(&secret.meta.namespace, &secret.meta.name)?
                && let Some(step) = token::step(&secret, now, unused_since)
            {
                steps.push((secret, step));
            }
            Ok(())
        })?;
        run(host, &steps)
    }
}

/// The clean-up period.
fn period(host: &Host) -> Result<Duration, Error> {
    let text = host.config(CLEAN_UP_PERIOD).unwrap_or_default();
    let period = duration::parse(&text)
        .ok()
        .filter(|period| !period.is_zero());
    period.ok_or_else(|| {
        Error::terminal(format!(
            "the clean-up period `{text}` is not a duration above zero"
        ))
    })
}

/// Since when each use is surely noted: the day after the one on which the API server began to.
fn tracked_since(host: &Host) -> Result<Time, Error> {
    let tracking = host
        .reader()
        .get::<Tracking>(TRACKING_NAMESPACE, TRACKING)?;
    let Some(Tracking { since }) = tracking else {
        return Err(Error::failed(format!(
            "the ConfigMap {TRACKING} is not there: the API server has not made it"
        )));
    };
    let since = since.unwrap_or_default();
    let day = Time::of_date(&since);
    let day = day.ok_or_else(|| {
        Error::failed(format!(
            "the ConfigMap {TRACKING} has no date: its `since` is {since:?}"
        ))
    })?;
    Ok(day + INTERVAL)
}

/// Whether a token is old and was not used lately. One whose last use can't be read is left alone.
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

/// Whether the Secret was made for its account by the control plane: the account then names it. One
/// that a person made is not ours to delete.
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
                .any(|named| named.name == secret.meta.name)
    }))
}

/// Runs the steps. A Secret that has changed or gone meanwhile waits for the next day.
fn run(host: &Host, steps: &[(Secret, Step)]) -> Result<Outcome, Error> {
    for (secret, step) in steps {
        info!(
            host,
            "{step} legacy service account token {}",
            secret.meta.key()
        );
    }
    let answers = host
        .batch()
        .extend(steps.iter().map(|(secret, step)| step.write(secret)))
        .run();
    let refusals = steps
        .iter()
        .zip(answers)
        .filter_map(|((secret, step), answer)| {
            let refusal = answer
                .err()
                .filter(|error| !error.is_conflict() && !error.is_not_found())?;
            Err::<(), _>(refusal)
                .doing(|| format!("{step} secret {}", secret.meta.key()))
                .err()
        });
    Error::join(refusals).map_or(Ok(Outcome::Done), Err)
}
