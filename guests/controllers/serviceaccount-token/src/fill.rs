//! Determines which data a token Secret is missing, and the update that adds it.
//!
//! Upstream: pkg/controller/serviceaccount/tokens_controller.go: secretUpdateNeeded, generateTokenIfNeeded.
//! Upstream: pkg/serviceaccount/legacy.go: LegacyClaims.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use flyball_sdk::{StringMap, base64};

use crate::Account;

/// The type of Secrets that hold a service account's token.
pub const SECRET_TYPE: &str = "kubernetes.io/service-account-token";

/// The annotations with the service account's name and UID.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

const CA: &str = "ca.crt";
const NAMESPACE: &str = "namespace";
const TOKEN: &str = "token";

/// A token Secret.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Secret")]
pub struct Secret {
    #[view(
        path = "metadata",
        fields(
            "annotations['kubernetes.io/service-account.name']",
            "annotations['kubernetes.io/service-account.uid']",
        )
    )]
    pub meta: Meta,
    /// The Secret's data, in base64.
    #[view(path = "data", fields("['ca.crt']", "namespace", "token"))]
    pub data: StringMap,
}

impl Secret {
    /// Returns the name and UID of the Secret's account; empty strings for absent annotations.
    pub fn account(&self) -> (&str, &str) {
        let annotation = |key| self.meta.annotation(key).unwrap_or_default();
        (annotation(ACCOUNT_NAME), annotation(ACCOUNT_UID))
    }

    /// Whether the Secret's UID annotation is absent or equals this UID. The caller compares the
    /// name.
    pub fn may_be_of(&self, uid: &str) -> bool {
        let (_, own) = self.account();
        own.is_empty() || own == uid
    }

    fn lacks(&self, key: &str) -> bool {
        self.data.get(key).is_none_or(String::is_empty)
    }
}

/// The data that a Secret is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The missing data except the token, in base64.
    data: Map<String, Value>,
    /// Whether the token is missing.
    pub token: bool,
}

/// Returns the missing data of a Secret, or `None` if it is complete. An existing token or namespace is kept in any
/// case. The CA bundle is replaced if it differs from `bundle`, unless `bundle` is empty.
pub fn missing(secret: &Secret, bundle: &str) -> Option<Missing> {
    let mut data = Map::new();
    let encoded = base64::encode(bundle.as_bytes());
    if !bundle.is_empty() && secret.data.get(CA) != Some(&encoded) {
        data.insert(CA.into(), encoded.into());
    }
    if secret.lacks(NAMESPACE) {
        data.insert(
            NAMESPACE.into(),
            base64::encode(secret.meta.namespace.as_bytes()).into(),
        );
    }
    let token = secret.lacks(TOKEN);
    (token || !data.is_empty()).then_some(Missing { data, token })
}

impl Missing {
    pub fn put_token(&mut self, token: &str) {
        self.data
            .insert(TOKEN.into(), base64::encode(token.as_bytes()).into());
    }

    /// Returns the merge patch that adds the data and sets the account's annotations.
    pub fn change(self, account: &Account) -> Value {
        let annotations = json!({ACCOUNT_NAME: account.meta.name, ACCOUNT_UID: account.meta.uid});
        json!({"metadata": {"annotations": annotations}, "data": self.data})
    }
}

/// The token's claims, as kube-apiserver expects them in a legacy token.
pub fn claims(secret: &Secret, account: &Account) -> Value {
    let (namespace, name) = (&account.meta.namespace, &account.meta.name);
    json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.meta.name,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": account.meta.uid,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
    })
}
