//! serviceaccount-token-controller: the tokens in Secrets of service accounts.
//!
//! A Secret of the type `kubernetes.io/service-account-token` names an account. The controller adds
//! a token, which is valid as long as the Secret exists, the CA bundle of the API server (the
//! operator's value [`ROOT_CA`]) and its namespace. It deletes the Secret when its account is
//! deleted. When the Secret is deleted, the controller removes it from the account's `secrets`.
//!
//! [`keys`] defines the keys of the two queues, [`fill`] the contents of a Secret.
//!
//! Upstream: pkg/controller/serviceaccount/tokens_controller.go: NewTokensController, syncServiceAccount, syncSecret,
//! deleteTokens, deleteToken, removeSecretReference, getServiceAccount, getSecret, listTokenSecrets.

pub mod fill;
pub mod keys;

use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, Effect, RoutedKey, StringMap, debug, warning};

use fill::{SECRET_TYPE, Secret};
use keys::{AccountKey, SecretKey};

/// The configuration key of the CA bundle in PEM. Without a value, the Secrets' bundles are left
/// alone.
pub const ROOT_CA: &str = "root-ca";
/// The name of the host's key that signs the tokens.
pub const SIGNING_KEY: &str = "service-account";

/// The queue of deleted accounts.
pub const ACCOUNTS: &str = "serviceaccount_tokens_service";
/// The queue of Secrets that were created, updated or deleted.
pub const SECRETS: &str = "serviceaccount_tokens_secret";
/// Number of retries of a key.
const RETRIES: u32 = 10;
/// The index of Secrets by the name of their account.
const BY_ACCOUNT: &str = "account";

/// An account. Only its existence matters.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
pub struct Account {
    #[view(path = "metadata", fields("name"))]
    pub meta: Meta,
}

/// An account with its references to Secrets.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
struct AccountWithSecrets {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    /// Complete references. All of their fields are strings.
    #[view(path = "secrets")]
    secrets: Vec<StringMap>,
}

pub struct Tokens;

export!(Tokens);

impl Controller for Tokens {
    /// `Change::Generation` ignores modifications: ServiceAccounts have no generation.
    fn describe() -> Description {
        let retried = |name| Queue {
            max_retries: Some(RETRIES),
            ..queue(name)
        };
        describe("serviceaccount-token-controller", env!("CARGO_PKG_VERSION"))
            .watch(
                watch::<Account>()
                    .when(Change::Generation)
                    .enqueue(Mapping::route()),
            )
            .watch(
                watch::<Secret>()
                    .field_selector(&format!("type={SECRET_TYPE}"))
                    .enqueue(Mapping::route()),
            )
            .index(
                BY_ACCOUNT,
                Secret::KIND,
                "metadata.annotations['kubernetes.io/service-account.name']",
            )
            .queue_with(retried(ACCOUNTS))
            .queue_with(retried(SECRETS))
            .permission(Secret::KIND, ["get", "update", "delete"])
            .permission(Account::KIND, ["get", "update"])
            .import("signer")
            .config(ROOT_CA, None, "The CA bundle of the API server, in PEM.")
            .concurrency(5)
    }

    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            if delta.watch == Account::KIND {
                let deleted = delta
                    .before::<Account>()?
                    .filter(|_| delta.delta_type == DeltaType::Deleted);
                routed.extend(deleted.map(|account| to(ACCOUNTS, AccountKey::of(&account).into())));
            } else {
                // A deleted Secret is identified by its last version.
                let secret = delta.after::<Secret>()?.or(delta.before()?);
                let of_account = secret.filter(|secret| !secret.account().0.is_empty());
                routed.extend(of_account.map(|secret| to(SECRETS, SecretKey::of(&secret).into())));
            }
        }
        Ok(routed)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == SECRETS {
            sync_secret(host, &SecretKey::parse(&request.key)?)?;
        } else {
            sync_account(host, &AccountKey::parse(&request.key)?)?;
        }
        Ok(Outcome::Done)
    }
}

fn to(queue: &str, key: Key) -> RoutedKey {
    RoutedKey {
        queue: queue.into(),
        ..RoutedKey::now(key)
    }
}

/// Deletes the Secrets of an account that was deleted, possibly replaced by one of the same name.
fn sync_account(host: &Host, key: &AccountKey) -> Result<(), Error> {
    let AccountKey {
        namespace,
        name,
        uid,
    } = key;
    if cached_account(host, namespace, name, uid)?.is_some() {
        return Ok(());
    }
    let mut secrets = host
        .list::<Secret>()
        .namespace(namespace)
        .index(BY_ACCOUNT, name)
        .all()?;
    secrets.retain(|secret| secret.may_be_of(uid));
    delete(host, &secrets)
}

/// Completes a Secret, deletes it if its account does not exist, or removes a deleted Secret from
/// its account.
fn sync_secret(host: &Host, key: &SecretKey) -> Result<(), Error> {
    let secret = host
        .get::<Secret>(&key.namespace, &key.name)?
        .filter(|secret| secret.meta.uid == key.uid);
    let Some(secret) = secret else {
        return remove_reference(host, key);
    };
    // The current annotations. The key may contain an account that the Secret named earlier.
    let (name, uid) = secret.account();
    match find_account(host, &key.namespace, name, uid)? {
        Some(account) => fill(host, &secret, &account),
        None => delete(host, std::slice::from_ref(&secret)),
    }
}

/// Returns the account with this name and, unless `uid` is empty, this UID. Falls back to a live
/// read if the cache does not have it.
fn find_account(
    host: &Host,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Account>, Error> {
    if let Some(account) = cached_account(host, namespace, name, uid)? {
        return Ok(Some(account));
    }
    let found = host.live().get::<Account>(namespace, name)?;
    Ok(found.filter(|account| has_uid(&account.meta, uid)))
}

fn cached_account(
    host: &Host,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Account>, Error> {
    let found = host.get::<Account>(namespace, name)?;
    Ok(found.filter(|account| has_uid(&account.meta, uid)))
}

/// Whether an object has this UID; true if `uid` is empty.
fn has_uid(meta: &Meta, uid: &str) -> bool {
    uid.is_empty() || meta.uid == uid
}

/// Completes a Secret. If it was updated or deleted in the meantime, that change enqueues it again.
fn fill(host: &Host, secret: &Secret, account: &Account) -> Result<(), Error> {
    let bundle = host.config(ROOT_CA).unwrap_or_default();
    let Some(mut missing) = fill::missing(secret, &bundle) else {
        return Ok(());
    };
    if missing.token {
        let token = host.sign_jwt(SIGNING_KEY, &fill::claims(secret, account));
        let token = token.map_err(|error| Error::terminal(format!("signing a token: {error}")))?;
        missing.put_token(&token);
    }
    match host.update(Secret::KIND, &secret.meta, &missing.change(account)) {
        Err(error) if error.is_conflict() || error.is_not_found() => {
            debug!(host, "the secret was updated or deleted: {error}");
            Ok(())
        }
        result => Ok(result.map(drop)?),
    }
}

/// Deletes these Secrets with their UIDs as preconditions. A Secret that is already deleted or
/// replaced is not an error.
fn delete(host: &Host, secrets: &[Secret]) -> Result<(), Error> {
    let writes = secrets
        .iter()
        .map(|secret| (secret, Write::delete_exactly(Secret::KIND, &secret.meta)));
    let results = host.tagged_batch().extend(writes).run().into_iter();
    let failures = results.filter_map(|(secret, result)| match result {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Some(
            Err::<(), _>(error)
                .doing(|| format!("deleting the secret {}", secret.meta.key()))
                .unwrap_err(),
        ),
        _ => None,
    });
    Error::join(failures).map_or(Ok(()), Err)
}

/// Removes a deleted Secret from the `secrets` of its account, if the account exists. A conflict is
/// retried, and another refusal is only logged.
fn remove_reference(host: &Host, key: &SecretKey) -> Result<(), Error> {
    let (namespace, account, uid) = (&key.namespace, &key.account, &key.account_uid);
    if cached_account(host, namespace, account, uid)?.is_none() {
        return Ok(());
    }
    // A live read, because a reference that is missed here would never be removed.
    let found = host.live().get::<AccountWithSecrets>(namespace, account)?;
    let Some(found) = found.filter(|account| has_uid(&account.meta, uid)) else {
        return Ok(());
    };
    let is_other = |reference: &&StringMap| reference.get("name") != Some(&key.name);
    let others: Vec<&StringMap> = found.secrets.iter().filter(is_other).collect();
    if others.len() == found.secrets.len() {
        return Ok(());
    }
    let updated = host.update(Account::KIND, &found.meta, &json!({"secrets": others}));
    match updated.found() {
        // A retry would be refused again. kube-controller-manager does not retry either.
        Err(error) if error.effect == Effect::Refused && !error.is_conflict() => {
            let secret = &key.name;
            warning!(
                host,
                "the reference to the secret {secret} was not removed: {error}"
            );
            Ok(())
        }
        result => Ok(result.map(drop)?),
    }
}
