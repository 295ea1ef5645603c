//! The requests to the API server about users: TokenReviews, SubjectAccessReviews, and the trusted authorities.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;
use tokio::time::{Duration, timeout};

use crate::User;

/// A right that a [`KubeReviewer`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewRight {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// The namespace and the name of the only object; none if it is cluster-scoped.
    pub object: Option<(&'static str, &'static str)>,
}

/// The rights that a [`KubeReviewer`] needs.
pub const RIGHTS: [ReviewRight; 3] = [
    ReviewRight {
        verb: "create",
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        object: None,
    },
    ReviewRight {
        verb: "create",
        group: "authorization.k8s.io",
        resource: "subjectaccessreviews",
        object: None,
    },
    ReviewRight {
        verb: "get",
        group: "",
        resource: "configmaps",
        object: Some(TRUST),
    },
];

/// The namespace and the name of the ConfigMap with the trusted authorities.
const TRUST: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The timeout of a request to the API server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests. Clients without credentials cause them, and each may need a connection of its
/// own.
const MAX_REQUESTS: usize = 64;

/// Why a review failed. A retry may help.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The request failed, or was refused.
    #[error("the API server did not perform the review")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the API server did not perform the review within {} s", TIMEOUT.as_secs())]
    Timeout,
}

impl ReviewError {
    /// Returns the server's answer, if it refused the request.
    pub(crate) fn refusal(&self) -> Option<&kube::core::Status> {
        let Self::Request(source) = self else {
            return None;
        };
        match source.downcast_ref::<kube::Error>()? {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }
}

/// The result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub allowed: bool,
    /// An explanation for people; may be empty.
    pub reason: String,
}

/// Reviews bearer tokens.
pub trait TokenReviewer: Send + Sync {
    /// The token's user; `None` if the token is not valid.
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>>;
}

/// Reviews access to paths.
pub trait AccessReviewer: Send + Sync {
    /// Whether a user may request a path. `verb` is the HTTP method in lower case.
    fn access<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Access, ReviewError>>;
}

/// Looks up the authorities that the cluster trusts.
pub trait TrustLookup: Send + Sync {
    /// The data of the ConfigMap `kube-system/extension-apiserver-authentication`.
    fn trust(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, ReviewError>>;
}

/// Sends the requests to an API server.
#[derive(Clone)]
pub struct KubeReviewer {
    client: kube::Client,
    requests: Arc<Semaphore>,
}

impl KubeReviewer {
    /// The client's user needs [`RIGHTS`], which the roles `system:auth-delegator`, and
    /// `extension-apiserver-authentication-reader` in `kube-system`, contain.
    pub fn new(client: kube::Client) -> Self {
        let requests = Arc::new(Semaphore::new(MAX_REQUESTS));
        Self { client, requests }
    }
}

impl TokenReviewer for KubeReviewer {
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        Box::pin(async move {
            let review = TokenReview {
                spec: TokenReviewSpec {
                    token: token.to_owned(),
                    ..TokenReviewSpec::default()
                },
                ..TokenReview::default()
            };
            let api: Api<TokenReview> = Api::all(self.client.clone());
            let status = with_limits(&self.requests, api.create(&PostParams::default(), &review))
                .await?
                .status
                .unwrap_or_default();
            let authenticated = status.authenticated.unwrap_or_default();
            Ok(status.user.filter(|_| authenticated).map(User::from))
        })
    }
}

impl AccessReviewer for KubeReviewer {
    fn access<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Access, ReviewError>> {
        Box::pin(async move {
            let attributes = NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            };
            let review = SubjectAccessReview {
                spec: SubjectAccessReviewSpec {
                    user: Some(user.name.clone()),
                    uid: user.uid.clone(),
                    groups: Some(user.groups.clone()),
                    extra: Some(user.extra.clone()),
                    non_resource_attributes: Some(attributes),
                    ..SubjectAccessReviewSpec::default()
                },
                ..SubjectAccessReview::default()
            };
            let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let status = with_limits(&self.requests, api.create(&PostParams::default(), &review))
                .await?
                .status
                .unwrap_or_default();
            let denied = status.denied.unwrap_or_default();
            Ok(Access {
                allowed: status.allowed && !denied,
                reason: status.reason.unwrap_or_default(),
            })
        })
    }
}

impl TrustLookup for KubeReviewer {
    fn trust(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, ReviewError>> {
        Box::pin(async move {
            let (namespace, name) = TRUST;
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
            Ok(with_limits(&self.requests, api.get(name))
                .await?
                .data
                .unwrap_or_default())
        })
    }
}

impl From<UserInfo> for User {
    fn from(user: UserInfo) -> Self {
        Self {
            name: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

/// Runs a request as soon as there are not too many.
async fn with_limits<T>(
    requests: &Semaphore,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ReviewError> {
    let limited = async {
        // The semaphore is never closed.
        let _permit = requests.acquire().await.ok();
        request.await
    };
    match timeout(TIMEOUT, limited).await {
        Ok(result) => result.map_err(|error| ReviewError::Request(Box::new(error))),
        Err(_) => Err(ReviewError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_requests_are_sent_at_once_and_none_waits_for_ever() {
        let (requests, running, most) = (
            Semaphore::new(MAX_REQUESTS),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let request = |takes: Duration| {
            with_limits(&requests, {
                let (running, most) = (&running, &most);
                async move {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    tokio::time::sleep(takes).await;
                    running.fetch_sub(1, SeqCst);
                    Ok(())
                }
            })
        };
        let quick = (0..10 * MAX_REQUESTS).map(|_| request(Duration::from_millis(5)));
        let done = futures::future::join_all(quick).await;
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(most.load(SeqCst), MAX_REQUESTS);
        let slow = (0..2 * MAX_REQUESTS).map(|_| request(2 * TIMEOUT));
        let done = futures::future::join_all(slow).await;
        assert!(
            done.iter()
                .all(|result| matches!(result, Err(ReviewError::Timeout)))
        );
    }
}
