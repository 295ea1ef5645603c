//! The credentials of a plugin that acts as a service account: a token from the TokenRequest API, renewed well before
//! it expires.

use std::time::Duration;

use bytes::Bytes;
use flyball_types::{ApiError, Effect};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderValue;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{ApiClient, ApiRequest};
use crate::credentials::Credentials;
use crate::rights::{HostRight, HostScope, HostVerb};

const TOKEN: HostRight = HostRight {
    verb: HostVerb::Create,
    group: "",
    resource: "serviceaccounts/token",
    scope: HostScope::Accounts,
};
const CREATE: HostRight = HostRight {
    resource: "serviceaccounts",
    scope: HostScope::AccountNamespaces,
    ..TOKEN
};
pub(super) const RIGHTS: [HostRight; 2] = [TOKEN, CREATE];

/// The lifetime that the host requests, as kube-controller-manager does.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The share of a token's lifetime after which it is renewed.
const USED: f64 = 0.8;

/// A service account and its current token.
pub struct ServiceAccount {
    namespace: String,
    name: String,
    /// Requests tokens with the host's own credentials.
    host: ApiClient,
    /// Held during a token request, so that concurrent callers share one. No guest runs under it.
    requesting: Mutex<()>,
    token: parking_lot::Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    bearer: HeaderValue,
    renew_at: Instant,
}

impl ServiceAccount {
    /// Credentials of a service account. The account is created if it does not exist.
    pub fn new(host: ApiClient, namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            host,
            requesting: Mutex::default(),
            token: parking_lot::Mutex::default(),
        }
    }

    fn current(&self) -> Option<HeaderValue> {
        let token = self.token.lock();
        token
            .as_ref()
            .filter(|token| Instant::now() < token.renew_at)
            .map(|token| token.bearer.clone())
    }

    async fn current_or_new(&self) -> Result<HeaderValue, ApiError> {
        if let Some(bearer) = self.current() {
            return Ok(bearer);
        }
        let _requesting = self.requesting.lock().await;
        if let Some(bearer) = self.current() {
            return Ok(bearer);
        }
        let token = match self.request().await {
            Err(error) if error.is_not_found() => {
                self.create().await?;
                self.request().await?
            }
            result => result?,
        };
        let bearer = token.bearer.clone();
        *self.token.lock() = Some(token);
        Ok(bearer)
    }

    async fn request(&self) -> Result<Token, ApiError> {
        let (namespace, name) = (&self.namespace, &self.name);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = Box::pin(self.host.send(ApiRequest::own(
            TOKEN,
            path,
            Bytes::from(body.to_string()),
        )))
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
            let message =
                format!("the server gave no token for the service account {namespace}/{name}");
            ApiError::internal(Effect::None, message)
        })?;
        Ok(Token {
            bearer,
            renew_at: Instant::now() + granted.mul_f64(USED),
        })
    }

    async fn create(&self) -> Result<(), ApiError> {
        let (namespace, name) = (&self.namespace, &self.name);
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        match Box::pin(
            self.host
                .send(ApiRequest::own(CREATE, path, Bytes::from(body.to_string()))),
        )
        .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Credentials for ServiceAccount {
    fn bearer(&self) -> BoxFuture<'_, Result<HeaderValue, ApiError>> {
        self.current_or_new().boxed()
    }

    fn refused(&self) {
        *self.token.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::fence::Fence;
    use flyball_fakes::server::{Log, Received, Reply, serve};

    const TOKEN: &str = "POST /api/v1/namespaces/team/serviceaccounts/builder/token";

    /// Credentials of the account `builder`, from a server that gives this response to all requests except token
    /// requests. Tokens are `1`, `2` …
    fn credentials(
        exists: bool,
        respond: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> (ApiClient, Log) {
        let (tokens, exists) = (AtomicU32::new(0), AtomicU32::new(exists.into()));
        let (connection, log) = serve(move |request| {
            if request.path.ends_with("/serviceaccounts") {
                exists.store(1, Relaxed);
                return Reply::Json(201, json!({}));
            }
            if !request.path.ends_with("/token") {
                return respond(request);
            }
            if exists.load(Relaxed) == 0 {
                return Reply::refusal(404, "NotFound");
            }
            let token = tokens.fetch_add(1, Relaxed) + 1;
            let answer = json!({"spec": {"expirationSeconds": 1000}, "status": {"token": token.to_string()}});
            Reply::Json(201, answer)
        });
        let fence = Arc::new(Fence::open());
        let host = ApiClient::new(connection.clone(), None, "host", fence.clone());
        let account = Arc::new(ServiceAccount::new(host, "team", "builder"));
        (
            ApiClient::new(connection, Some(account), "plugin", fence),
            log,
        )
    }

    fn read() -> ApiRequest {
        ApiRequest::get("/api")
    }

    /// The tokens of the reads that were sent.
    fn tokens(log: &Log) -> Vec<String> {
        let reads = log.take_requests().into_iter().filter(|r| r.path == "/api");
        reads.map(|read| read.authorization).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_one_token_until_four_fifths_of_its_lifetime() {
        let (client, log) = credentials(true, |_| Reply::Json(200, json!({})));
        let (first, second) = futures::join!(client.send(read()), client.send(read()));
        first.and(second).unwrap();
        let sent = log.take();
        assert_eq!(sent, [TOKEN, "GET /api", "GET /api"]);
        tokio::time::advance(Duration::from_secs(799)).await;
        client.send(read()).await.unwrap();
        assert_eq!(tokens(&log), ["Bearer 1"]);
        tokio::time::advance(Duration::from_secs(2)).await;
        client.send(read()).await.unwrap();
        assert_eq!(tokens(&log), ["Bearer 2"]);
    }

    #[tokio::test]
    async fn an_account_that_does_not_exist_is_created() {
        let (client, log) = credentials(false, |_| Reply::Json(200, json!({})));
        client.send(read()).await.unwrap();
        let create = "POST /api/v1/namespaces/team/serviceaccounts";
        assert_eq!(log.take(), [TOKEN, create, TOKEN, "GET /api"]);
    }

    #[tokio::test]
    async fn a_token_that_the_server_refuses_is_not_used_again() {
        let (client, log) = credentials(true, |request| match &*request.authorization {
            "Bearer 1" => Reply::refusal(401, "Unauthorized"),
            _ => Reply::Json(200, json!({})),
        });
        assert_eq!(client.send(read()).await.unwrap_err().status, 401);
        client.send(read()).await.unwrap();
        assert_eq!(tokens(&log), ["Bearer 1", "Bearer 2"]);
    }

    #[tokio::test]
    async fn an_answer_without_a_token_is_an_error_that_names_the_account() {
        let (connection, _) = serve(|_| Reply::Json(201, json!({"status": {}})));
        let host = ApiClient::new(connection, None, "host", Arc::new(Fence::open()));
        let account = ServiceAccount::new(host, "team", "builder");
        let error = account.bearer().await.unwrap_err();
        assert!(error.message.contains("team/builder"), "{error}");
    }
}
