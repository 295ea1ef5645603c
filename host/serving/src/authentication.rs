//! Authentication: determines the user of a request by a client certificate, the headers of a trusted proxy, or a
//! bearer token.

mod certificate;
mod trust;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tokio::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use crate::User;
use crate::cache::TtlCache;
use crate::review::{TokenReviewer, TrustLookup};
use crate::seldom::Seldom;
use trust::Trust;

pub use trust::RequestHeaderOptions;

/// The interval at which the trusted authorities are read from the files and the cluster.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// The same while some of them can't be read.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// The file of the authorities of client certificates. `None` for the authorities that the cluster configures.
    pub client_ca_file: Option<std::path::PathBuf>,
    /// The proxies that set users in headers. Without a CA file, the proxies that the cluster configures.
    pub request_header: RequestHeaderOptions,
    /// How long the review of a token is cached.
    pub token_ttl: Duration,
}

/// Authenticates requests. Without a reviewer and authorities, every user is anonymous.
pub struct Authentication {
    options: AuthenticationOptions,
    tokens: Option<Arc<dyn TokenReviewer>>,
    lookup: Option<Arc<dyn TrustLookup>>,
    trust: RwLock<Arc<Trust>>,
    /// By the hash of the token, so that no token is stored.
    users: TtlCache<[u8; 32], Option<User>>,
    /// Lets lines about failed reviews pass.
    failures: Seldom,
}

/// A request has credentials, but all of them are invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unauthorized;

impl Authentication {
    /// Reads no files and sends no requests; [`run`](Self::run) does both.
    pub fn new(
        options: AuthenticationOptions,
        tokens: Option<Arc<dyn TokenReviewer>>,
        lookup: Option<Arc<dyn TrustLookup>>,
    ) -> Self {
        Self {
            options,
            tokens,
            lookup,
            trust: RwLock::default(),
            users: TtlCache::new(),
            failures: Seldom::default(),
        }
    }

    /// Whether bearer tokens are reviewed. Otherwise they are ignored.
    pub(crate) fn reviews_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Reads the authentication configuration of the cluster once, to find out at the start whether the API server
    /// refuses it. A server that does not answer, or is unavailable, is not an error, unlike in kube-controller-manager:
    /// [`run`](Self::run) tries again, and nobody is trusted until then. An exit would add the pauses between restarts to
    /// an outage.
    ///
    /// # Errors
    /// The server refuses the request. A missing ConfigMap is not an error. The error is a sentence.
    pub async fn check_lookup(&self) -> Result<(), String> {
        let is_needed = self.options.request_header.client_ca_file.is_none();
        let lookup = self.lookup.as_ref().filter(|_| is_needed);
        let Some(lookup) = lookup else { return Ok(()) };
        match lookup.trust().await {
            Err(error) => match error.refusal() {
                Some(refusal) if !matches!(refusal.code, 404 | 429 | 500..) => Err(format!(
                    "unable to load configmap based request-header-client-ca-file: {}",
                    refusal.message
                )),
                _ => Ok(()),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Reads the files of trusted authorities once, to find out at the start whether they are there, as
    /// kube-controller-manager does.
    ///
    /// # Errors
    /// A file can't be read, or holds no certificates. The error is a sentence that names the flag.
    pub async fn check_files(&self) -> Result<(), String> {
        let files = [
            ("client-ca-file", &self.options.client_ca_file),
            (
                "requestheader-client-ca-file",
                &self.options.request_header.client_ca_file,
            ),
        ];
        for (flag, file) in files {
            if let Some(file) = file {
                let checked = trust::check_file(file).await;
                checked.map_err(|reason| format!("--{flag}={}: {reason}", file.display()))?;
            }
        }
        Ok(())
    }

    /// Keeps the trusted authorities up to date until `shutdown`. Client certificates are ignored until they are known.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut complete = true;
        loop {
            let was_complete = std::mem::replace(&mut complete, self.refresh().await);
            if was_complete && !complete {
                tracing::warn!(
                    "can't read all trusted authorities; client certificates may be refused until they can be read"
                );
            }
            let pause = if complete {
                REFRESH_INTERVAL
            } else {
                RETRY_INTERVAL
            };
            if shutdown
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// Reads the trusted authorities, and returns whether all could be read. An authority that can't be read stays as
    /// it was.
    pub(crate) async fn refresh(&self) -> bool {
        let old = self.trust.read().clone();
        let (trust, complete) = Trust::read(&self.options, self.lookup.as_deref(), &old).await;
        *self.trust.write() = Arc::new(trust);
        complete
    }

    /// The user of a request with these headers, over a connection with these client certificates.
    pub(crate) async fn user(
        &self,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, Unauthorized> {
        let trust = self.trust.read().clone();
        let mut refused = false;
        for user in [
            trust.proxied_user(certificates, headers),
            trust.certificate_user(certificates),
        ] {
            match user {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(Unauthorized) => refused = true,
            }
        }
        if let (Some(reviewer), Some(token)) = (&self.tokens, bearer_token(headers)) {
            if let Some(user) = self.token_user(reviewer.as_ref(), token).await {
                return Ok(user.authenticated());
            }
            refused = true;
        }
        if refused {
            Err(Unauthorized)
        } else {
            Ok(User::anonymous())
        }
    }

    async fn token_user(&self, reviewer: &dyn TokenReviewer, token: &str) -> Option<User> {
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(user) = self.users.get(&key) {
            return user;
        }
        match reviewer.token(token).await {
            Ok(user) => {
                self.users.put(key, user.clone(), self.options.token_ttl);
                user
            }
            Err(error) => {
                if self.failures.pass() {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "can't review a bearer token"
                    );
                }
                None
            }
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;

    use super::*;
    use crate::review::ReviewError;

    /// Knows the token `good`, fails for `lost`, and counts the reviews.
    #[derive(Default)]
    struct Tokens(AtomicUsize);

    impl TokenReviewer for Tokens {
        fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match token {
                    "good" => Ok(Some(User {
                        name: "scraper".to_owned(),
                        ..User::default()
                    })),
                    "lost" => Err(ReviewError::Timeout),
                    _ => Ok(None),
                }
            })
        }
    }

    fn with(reviewer: &Arc<Tokens>) -> Authentication {
        let options = AuthenticationOptions {
            token_ttl: Duration::from_secs(10),
            ..Default::default()
        };
        Authentication::new(options, Some(reviewer.clone()), None)
    }

    fn bearer(token: &str) -> HeaderMap {
        [(
            AUTHORIZATION,
            format!("Bearer {token}").parse().expect("a header"),
        )]
        .into_iter()
        .collect()
    }

    #[tokio::test]
    async fn a_request_without_credentials_is_anonymous() {
        let authentication = with(&Arc::default());
        assert_eq!(
            authentication.user(&[], &HeaderMap::new()).await,
            Ok(User::anonymous())
        );
    }

    #[tokio::test]
    async fn the_review_of_a_token_is_cached_whether_it_is_valid_or_not() {
        let reviewer = Arc::new(Tokens::default());
        let authentication = with(&reviewer);
        for _ in 0..3 {
            let user = authentication
                .user(&[], &bearer("good"))
                .await
                .expect("a user");
            assert_eq!(
                (user.name.as_str(), user.groups),
                ("scraper", vec!["system:authenticated".to_owned()])
            );
            assert_eq!(
                authentication.user(&[], &bearer("bad")).await,
                Err(Unauthorized)
            );
        }
        assert_eq!(reviewer.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_token_whose_review_failed_is_refused_and_reviewed_again() {
        let reviewer = Arc::new(Tokens::default());
        let authentication = with(&reviewer);
        for _ in 0..2 {
            assert_eq!(
                authentication.user(&[], &bearer("lost")).await,
                Err(Unauthorized)
            );
        }
        assert_eq!(reviewer.0.load(Ordering::Relaxed), 2);
    }

    /// Fails with a status, or because the server does not answer.
    struct Failing(Option<u16>);

    impl TrustLookup for Failing {
        fn trust(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, ReviewError>> {
            let refusal = |code| {
                let status = kube::core::Status {
                    code,
                    message: "no rights".to_owned(),
                    ..Default::default()
                };
                ReviewError::Request(Box::new(kube::Error::Api(Box::new(status))))
            };
            let error = self.0.map_or(ReviewError::Timeout, refusal);
            Box::pin(async { Err(error) })
        }
    }

    #[tokio::test]
    async fn only_a_refused_lookup_is_an_error_at_the_start() {
        let check = async |code, options: AuthenticationOptions| {
            Authentication::new(options, None, Some(Arc::new(Failing(code))))
                .check_lookup()
                .await
        };
        let refused = check(Some(403), AuthenticationOptions::default()).await;
        let error = refused.unwrap_err();
        assert!(error.contains("unable to load configmap based") && error.contains("no rights"));
        for missing_or_unavailable in [Some(404), Some(429), Some(503), None] {
            let checked = check(missing_or_unavailable, AuthenticationOptions::default()).await;
            assert_eq!(checked, Ok(()), "{missing_or_unavailable:?}");
        }
        let mut options = AuthenticationOptions::default();
        options.request_header.client_ca_file = Some("/a".into());
        assert_eq!(check(Some(403), options).await, Ok(()));
    }

    #[tokio::test]
    async fn without_a_reviewer_tokens_are_ignored() {
        let authentication = Authentication::new(AuthenticationOptions::default(), None, None);
        assert_eq!(
            authentication.user(&[], &bearer("good")).await,
            Ok(User::anonymous())
        );
    }
}
