//! What belongs into a Secret: what it lacks, as a change of it.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use flyball_sdk::{StringMap, base64};

use crate::Account;

/// The type of Secrets that hold the token of a service account.
pub const SECRET_TYPE: &str = "kubernetes.io/service-account-token";

/// The annotations that name the account, and its UID.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

const CA: &str = "ca.crt";
const NAMESPACE: &str = "namespace";
const TOKEN: &str = "token";

/// A Secret for a token.
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
    /// What it holds, in base64.
    #[view(path = "data", fields("['ca.crt']", "namespace", "token"))]
    pub data: StringMap,
}

impl Secret {
    /// The name and the UID of the account whose token it holds; empty where they are not told.
    pub fn account(&self) -> (&str, &str) {
        let annotation = |key| self.meta.annotation(key).unwrap_or_default();
        (annotation(ACCOUNT_NAME), annotation(ACCOUNT_UID))
    }

    /// Whether it may hold the token of the account of this UID, if the names agree: it tells no
    /// UID, or this one.
    pub fn may_be_of(&self, uid: &str) -> bool {
        let (_, told) = self.account();
        told.is_empty() || told == uid
    }

    fn lacks(&self, key: &str) -> bool {
        self.data.get(key).is_none_or(String::is_empty)
    }
}

/// What a Secret lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// What is known of it, in base64.
    data: Map<String, Value>,
    /// Whether it lacks a token.
    pub token: bool,
}

/// What a Secret lacks; none if it is filled. A token and a namespace that are there stay, whatever
/// they are; the bundle, if there is one to be had, must be this one.
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
    /// Adds the token.
    pub fn put_token(&mut self, token: &str) {
        self.data
            .insert(TOKEN.into(), base64::encode(token.as_bytes()).into());
    }

    /// The change, as a merge patch, that fills the Secret and says whose it is.
    pub fn change(self, account: &Account) -> Value {
        let annotations = json!({ACCOUNT_NAME: account.meta.name, ACCOUNT_UID: account.meta.uid});
        json!({"metadata": {"annotations": annotations}, "data": self.data})
    }
}

/// What the token says, as kube-apiserver expects it of one that lies in a Secret.
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
