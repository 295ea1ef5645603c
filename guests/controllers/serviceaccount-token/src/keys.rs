//! The keys of the two queues. They contain UIDs, so that another object of the same name is left
//! alone. A Secret's key also contains its account, which can't be read once the Secret is deleted.
//!
//! Upstream: pkg/controller/serviceaccount/tokens_controller.go: makeServiceAccountKey, parseServiceAccountKey,
//! makeSecretQueueKey, parseSecretQueueKey.

use flyball_sdk::prelude::*;

use crate::Account;
use crate::fill::Secret;

/// The key of an account: `namespace/name/uid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountKey {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The key of a Secret: `namespace/name/uid/account/account-uid`. The last two come from its
/// annotations and can be any text; the account's UID may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretKey {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub account: String,
    pub account_uid: String,
}

impl AccountKey {
    pub fn of(account: &Account) -> Self {
        let meta = &account.meta;
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        }
    }

    /// Parses a key.
    ///
    /// # Errors
    /// The text is not an account's key.
    pub fn parse(key: &Key) -> Result<Self, Error> {
        let parts: Vec<&str> = key.name.split('/').collect();
        match parts[..] {
            [name, uid] => Ok(Self {
                namespace: key.namespace.clone(),
                name: name.into(),
                uid: uid.into(),
            }),
            _ => Err(Error::terminal(format!(
                "`{key}` is not the key of an account"
            ))),
        }
    }
}

impl From<AccountKey> for Key {
    fn from(key: AccountKey) -> Self {
        Self::new(&key.namespace, &format!("{}/{}", key.name, key.uid))
    }
}

impl SecretKey {
    pub fn of(secret: &Secret) -> Self {
        let (meta, (account, account_uid)) = (&secret.meta, secret.account());
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            account: account.into(),
            account_uid: account_uid.into(),
        }
    }

    /// Parses a key.
    ///
    /// # Errors
    /// The text is not a Secret's key.
    pub fn parse(key: &Key) -> Result<Self, Error> {
        let parts: Vec<&str> = key.name.split('/').collect();
        match parts[..] {
            [name, uid, account, account_uid] => Ok(Self {
                namespace: key.namespace.clone(),
                name: name.into(),
                uid: uid.into(),
                account: unescape(account),
                account_uid: unescape(account_uid),
            }),
            _ => Err(Error::terminal(format!(
                "`{key}` is not the key of a secret"
            ))),
        }
    }
}

impl From<SecretKey> for Key {
    fn from(key: SecretKey) -> Self {
        let (account, account_uid) = (escape(&key.account), escape(&key.account_uid));
        Self::new(
            &key.namespace,
            &format!("{}/{}/{account}/{account_uid}", key.name, key.uid),
        )
    }
}

/// Escapes slashes and percent signs.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

fn unescape(text: &str) -> String {
    text.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        for (account, account_uid) in [
            ("builder", "u-2"),
            ("builder", ""),
            ("a/b%2Fc", "%/d"),
            ("", ""),
        ] {
            let key = SecretKey {
                namespace: "team".into(),
                name: "token".into(),
                uid: "u-1".into(),
                account: account.into(),
                account_uid: account_uid.into(),
            };
            let text = Key::from(key.clone()).to_string();
            assert_eq!(SecretKey::parse(&Key::parse(&text)).unwrap(), key, "{text}");
        }
        let key = AccountKey {
            namespace: "team".into(),
            name: "builder".into(),
            uid: "u-2".into(),
        };
        assert_eq!(Key::from(key.clone()).to_string(), "team/builder/u-2");
        assert_eq!(
            AccountKey::parse(&Key::parse("team/builder/u-2")).unwrap(),
            key
        );
    }

    #[test]
    fn a_malformed_key_is_a_terminal_error() {
        for text in ["", "a", "team/a", "team/a/b/c"] {
            assert!(
                AccountKey::parse(&Key::parse(text))
                    .unwrap_err()
                    .is_terminal(),
                "{text}"
            );
            assert!(
                SecretKey::parse(&Key::parse(text))
                    .unwrap_err()
                    .is_terminal(),
                "{text}"
            );
        }
    }
}
