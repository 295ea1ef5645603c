//! Under whose name a plugin talks to the API server: the host's own, or a service account's by a token that is asked for
//! again well before it expires.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_types::ApiError;
use http::HeaderValue;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::client::{ApiClient, Call};
use crate::lock;

/// For how long tokens are asked for, as kube-controller-manager does.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Which share of its lifetime a token is used for.
const USED: f64 = 0.8;

/// Who a client says that it is.
#[derive(Clone)]
pub(crate) enum Identity {
    /// The credentials of the host's own configuration.
    Host,
    /// A service account.
    ServiceAccount(Arc<ServiceAccount>),
}

/// A service account and its current token.
pub(crate) struct ServiceAccount {
    namespace: String,
    name: String,
    /// Asks for tokens, as the host.
    host: ApiClient,
    /// Held while a token is asked for, so that it is asked for once.
    asking: Mutex<()>,
    token: std::sync::Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    bearer: HeaderValue,
    renew_at: Instant,
}

impl Identity {
    /// The identity of a service account, which is made if it does not exist.
    pub(crate) fn service_account(host: ApiClient, namespace: &str, name: &str) -> Self {
        Self::ServiceAccount(Arc::new(ServiceAccount {
            namespace: namespace.into(),
            name: name.into(),
            host,
            asking: Mutex::default(),
            token: std::sync::Mutex::default(),
        }))
    }

    /// The value of the `Authorization` header, if the identity needs one beyond the connection's own credentials.
    pub(crate) async fn bearer(&self) -> Result<Option<HeaderValue>, ApiError> {
        match self {
            Self::Host => Ok(None),
            Self::ServiceAccount(account) => account.bearer().await.map(Some),
        }
    }

    /// The server did not accept the credentials: the next call asks for new ones.
    pub(crate) fn refused(&self) {
        if let Self::ServiceAccount(account) = self {
            *lock(&account.token) = None;
        }
    }
}

impl ServiceAccount {
    fn current(&self) -> Option<HeaderValue> {
        let token = lock(&self.token);
        token
            .as_ref()
            .filter(|token| Instant::now() < token.renew_at)
            .map(|token| token.bearer.clone())
    }

    async fn bearer(&self) -> Result<HeaderValue, ApiError> {
        if let Some(bearer) = self.current() {
            return Ok(bearer);
        }
        let _asking = self.asking.lock().await;
        if let Some(bearer) = self.current() {
            return Ok(bearer);
        }
        let token = match self.ask().await {
            Err(error) if error.is_not_found() => {
                self.make().await?;
                self.ask().await?
            }
            result => result?,
        };
        let bearer = token.bearer.clone();
        *lock(&self.token) = Some(token);
        Ok(bearer)
    }

    async fn ask(&self) -> Result<Token, ApiError> {
        let (namespace, name) = (&self.namespace, &self.name);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = Box::pin(
            self.host
                .call(Call::post(path, Bytes::from(body.to_string()))),
        )
        .await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let granted = answer["spec"]["expirationSeconds"]
            .as_u64()
            .map_or(LIFETIME, Duration::from_secs);
        let bearer = answer["status"]["token"].as_str().and_then(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let bearer = bearer.ok_or_else(|| {
            ApiError::new(
                500,
                "InternalError",
                format!("the server gave no token for the service account {namespace}/{name}"),
            )
        })?;
        Ok(Token {
            bearer,
            renew_at: Instant::now() + granted.mul_f64(USED),
        })
    }

    async fn make(&self) -> Result<(), ApiError> {
        let (namespace, name) = (&self.namespace, &self.name);
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        match Box::pin(
            self.host
                .call(Call::post(path, Bytes::from(body.to_string()))),
        )
        .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
