//! serviceaccount-token-controller: the tokens in Secrets of service accounts.
//!
//! A Secret of the type `kubernetes.io/service-account-token` names an account. The controller
//! fills it: with a token, which lasts as long as the Secret does, with the CA bundle of the API
//! server (the operator's value [`ROOT_CA`]) and with its namespace. It goes when its account is
//! gone. When it is deleted itself, its account no longer names it.
//!
//! [`keys`] says what the two queues hold, [`fill`] what belongs into a Secret.

pub mod fill;
pub mod keys;

use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey, StringMap, debug};

use fill::{SECRET_TYPE, Secret};
use keys::{AccountKey, SecretKey};

/// The key of the configuration that holds the bundle, in PEM. Without one, that part of the
/// Secrets is left alone.
pub const ROOT_CA: &str = "root-ca";
/// The host's key that signs the tokens.
pub const SIGNING_KEY: &str = "service-account";

/// The queue of accounts that are gone.
pub const ACCOUNTS: &str = "serviceaccount_tokens_service";
/// The queue of Secrets that were made, changed or deleted.
pub const SECRETS: &str = "serviceaccount_tokens_secret";
/// How often a key is retried before it waits for a change.
const RETRIES: u32 = 10;
/// The index of Secrets by the name of their account.
const BY_ACCOUNT: &str = "account";

/// An account, of which only its being there matters.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
pub struct Account {
    #[view(path = "metadata", fields("name"))]
    pub meta: Meta,
}

/// An account with what it refers to.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ServiceAccount")]
struct Referring {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    /// Whole references: all their fields are text.
    #[view(path = "secrets")]
    secrets: Vec<StringMap>,
}

/// Fills and deletes the Secrets.
pub struct Tokens;

export!(Tokens);

impl Controller for Tokens {
    /// Accounts have no generation: no modification of one counts.
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
            .allow(Secret::KIND, ["get", "update", "delete"])
            .allow(Account::KIND, ["get", "update"])
            .import("signer")
            .config(ROOT_CA, None, "The CA bundle of the API server, in PEM.")
            .concurrency(5)
    }

    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            if delta.watch == Account::KIND {
                let gone = delta
                    .before::<Account>()?
                    .filter(|_| delta.delta_type == DeltaType::Deleted);
                routed.extend(gone.map(|account| to(ACCOUNTS, AccountKey::of(&account).into())));
            } else {
                // One that is gone is known by what it was.
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

/// Deletes the Secrets of an account that is gone, or that has another's name now.
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

/// Fills a Secret, deletes it if its account is not there, or takes a deleted one out of its
/// account.
fn sync_secret(host: &Host, key: &SecretKey) -> Result<(), Error> {
    let secret = host
        .get::<Secret>(&key.namespace, &key.name)?
        .filter(|secret| secret.meta.uid == key.uid);
    let Some(secret) = secret else {
        return remove_reference(host, key);
    };
    // As it is now: the key may tell of an account that it named before.
    let (name, uid) = secret.account();
    match find_account(host, &key.namespace, name, uid)? {
        Some(account) => fill(host, &secret, &account),
        None => delete(host, std::slice::from_ref(&secret)),
    }
}

/// An account by its name and, if one is told, its UID; by the server's word if the cache has none
/// such.
fn find_account(
    host: &Host,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Account>, Error> {
    if let Some(account) = cached_account(host, namespace, name, uid)? {
        return Ok(Some(account));
    }
    let found = host.reader().get::<Account>(namespace, name)?;
    Ok(found.filter(|account| is_it(&account.meta, uid)))
}

fn cached_account(
    host: &Host,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Account>, Error> {
    let found = host.get::<Account>(namespace, name)?;
    Ok(found.filter(|account| is_it(&account.meta, uid)))
}

/// Whether an object has this UID, or none is told.
fn is_it(meta: &Meta, uid: &str) -> bool {
    uid.is_empty() || meta.uid == uid
}

/// Fills a Secret, unless it has changed or gone meanwhile: then that comes as a change of its own.
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
            debug!(host, "the secret has changed or gone: {error}");
            Ok(())
        }
        answer => Ok(answer.map(drop)?),
    }
}

/// Deletes these very Secrets. One that is gone, or whose name another has taken, is no failure.
fn delete(host: &Host, secrets: &[Secret]) -> Result<(), Error> {
    let writes = secrets
        .iter()
        .map(|secret| Write::delete_exactly(Secret::KIND, &secret.meta));
    let results = host.batch().extend(writes).run();
    let failures = secrets
        .iter()
        .zip(results)
        .filter_map(|(secret, result)| match result {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Some(
                Err::<(), _>(error)
                    .doing(|| format!("deleting the secret {}", secret.meta.key()))
                    .unwrap_err(),
            ),
            _ => None,
        });
    Error::join(failures).map_or(Ok(()), Err)
}

/// Takes a deleted Secret out of what its account refers to, if the account is there. A conflict is
/// retried.
fn remove_reference(host: &Host, key: &SecretKey) -> Result<(), Error> {
    let (namespace, account, uid) = (&key.namespace, &key.account, &key.account_uid);
    if cached_account(host, namespace, account, uid)?.is_none() {
        return Ok(());
    }
    // By the server's word: what is not taken out now would stay.
    let found = host.reader().get::<Referring>(namespace, account)?;
    let Some(found) = found.filter(|account| is_it(&account.meta, uid)) else {
        return Ok(());
    };
    let is_other = |reference: &&StringMap| reference.get("name") != Some(&key.name);
    let others: Vec<&StringMap> = found.secrets.iter().filter(is_other).collect();
    if others.len() == found.secrets.len() {
        return Ok(());
    }
    host.update(Account::KIND, &found.meta, &json!({"secrets": others}))
        .found()?;
    Ok(())
}
