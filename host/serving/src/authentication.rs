//! Who asks: the user of a client certificate, of a proxy that is trusted to name them, or of a bearer token.

mod certificate;
mod trust;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tokio::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use crate::cache::TtlCache;
use crate::review::{TokenReviewer, TrustLookup};
use trust::Trust;

pub use trust::RequestHeaderOptions;

/// How often the files and the cluster are asked for the authorities to trust.
const REFRESH: Duration = Duration::from_secs(60);
/// How often they are asked while an answer is missing.
const RETRY: Duration = Duration::from_secs(10);

/// A caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique id, where the authenticator knows one.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// How callers are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// The authorities of client certificates; else those that the cluster names.
    pub client_ca_file: Option<std::path::PathBuf>,
    /// The proxies that name users in headers; else those that the cluster names.
    pub request_header: RequestHeaderOptions,
    /// For how long the answer for a token is kept.
    pub token_ttl: Duration,
}

/// Tells callers apart. Without a reviewer and authorities everyone is anonymous.
pub struct Authentication {
    options: AuthenticationOptions,
    tokens: Option<Arc<dyn TokenReviewer>>,
    lookup: Option<Arc<dyn TrustLookup>>,
    trust: RwLock<Arc<Trust>>,
    /// By the token's hash, so that no token is kept.
    users: TtlCache<[u8; 32], Option<User>>,
}

/// The caller gave credentials, and none of them holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unauthorized;

impl Authentication {
    /// Reads no file and asks nobody yet: [`run`](Self::run) does.
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
        }
    }

    /// Keeps the trusted authorities up to date until `shutdown`. Until it knows them, client certificates count for
    /// nothing.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut complete = true;
        loop {
            let was_complete = std::mem::replace(&mut complete, self.refresh().await);
            if was_complete && !complete {
                tracing::warn!(
                    "client certificates may be refused until the authorities to trust can be read"
                );
            }
            let pause = if complete { REFRESH } else { RETRY };
            if shutdown
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// Whether everything that is to be trusted could be read. What can't be read stays as it was.
    pub(crate) async fn refresh(&self) -> bool {
        let old = self.trust.read().clone();
        let (trust, complete) = Trust::read(&self.options, self.lookup.as_deref(), &old).await;
        *self.trust.write() = Arc::new(trust);
        complete
    }

    /// The caller who sent these headers over a connection with these certificates.
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
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a caller's token can't be reviewed"
                );
                None
            }
        }
    }
}

impl User {
    fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    fn authenticated(mut self) -> Self {
        let group = "system:authenticated";
        if self.name != "system:anonymous" && !self.groups.iter().any(|g| g == group) {
            self.groups.push(group.to_owned());
        }
        self
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;

    use super::*;
    use crate::review::ReviewError;

    /// Knows the token `good`, has no answer for `lost`, and counts how often it is asked.
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
    async fn who_gives_no_credentials_is_anonymous() {
        let authentication = with(&Arc::default());
        assert_eq!(
            authentication.user(&[], &HeaderMap::new()).await,
            Ok(User::anonymous())
        );
    }

    #[tokio::test]
    async fn a_token_is_reviewed_once_in_its_time_whether_it_is_good_or_not() {
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
    async fn a_token_that_could_not_be_reviewed_is_refused_and_asked_again() {
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

    #[tokio::test]
    async fn without_a_reviewer_a_token_counts_for_nothing() {
        let authentication = Authentication::new(AuthenticationOptions::default(), None, None);
        assert_eq!(
            authentication.user(&[], &bearer("good")).await,
            Ok(User::anonymous())
        );
    }
}
