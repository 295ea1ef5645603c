//! Authorization: whether a user may request a path, because it is open to everyone, because the user is an
//! administrator, or by a SubjectAccessReview.

use std::sync::Arc;

use tokio::time::Duration;

use crate::User;
use crate::cache::TtlCache;
use crate::review::{Access, AccessReviewer, ReviewError};
use crate::seldom::Seldom;

/// The group that the API server never refuses either.
const ADMINISTRATORS: &str = "system:masters";

/// The settings of authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// Paths that everyone may request. A `*` at the end matches any suffix.
    pub always_allow_paths: Vec<String>,
    /// How long an allowed access is cached.
    pub allowed_ttl: Duration,
    /// How long a denied access is cached.
    pub denied_ttl: Duration,
}

/// Authorizes requests.
pub struct Authorization {
    options: AuthorizationOptions,
    reviewer: Option<Arc<dyn AccessReviewer>>,
    decisions: TtlCache<(User, String, String), Access>,
    /// Lets lines about failed reviews pass.
    pub(crate) failures: Seldom,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            always_allow_paths: ["/healthz", "/readyz", "/livez"]
                .map(str::to_owned)
                .to_vec(),
            allowed_ttl: Duration::from_secs(10),
            denied_ttl: Duration::from_secs(10),
        }
    }
}

/// The reason why access is refused if no API server can review it.
const NO_REVIEWS: &str = "the server has no API server to review access: start it with --authentication-kubeconfig and \
                          --authorization-kubeconfig";

impl Authorization {
    /// Without a reviewer, only administrators may request more than the open paths.
    pub fn new(options: AuthorizationOptions, reviewer: Option<Arc<dyn AccessReviewer>>) -> Self {
        Self {
            options,
            reviewer,
            decisions: TtlCache::new(),
            failures: Seldom::default(),
        }
    }

    /// Whether a user may request a path. `verb` is the HTTP method in lower case. Fails if the review fails.
    pub async fn allows(&self, user: &User, verb: &str, path: &str) -> Result<Access, ReviewError> {
        if user.groups.iter().any(|group| group == ADMINISTRATORS) || self.is_open(path) {
            return Ok(Access {
                allowed: true,
                reason: String::new(),
            });
        }
        let Some(reviewer) = &self.reviewer else {
            return Ok(Access {
                allowed: false,
                reason: NO_REVIEWS.to_owned(),
            });
        };
        let key = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(access) = self.decisions.get(&key) {
            return Ok(access);
        }
        let access = reviewer.access(user, verb, path).await?;
        let ttl = if access.allowed {
            self.options.allowed_ttl
        } else {
            self.options.denied_ttl
        };
        self.decisions.put(key, access.clone(), ttl);
        Ok(access)
    }

    /// Whether everyone may request a path.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.options.always_allow_paths.iter().any(|open| {
            let open = open.trim_start_matches('/');
            open.strip_suffix('*')
                .map_or(open == path, |start| path.starts_with(start))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;

    use super::*;

    /// Allows only the user `scraper`, and counts the reviews.
    #[derive(Default)]
    struct Scrapers(AtomicUsize);

    impl AccessReviewer for Scrapers {
        fn access<'a>(
            &'a self,
            user: &'a User,
            _: &'a str,
            _: &'a str,
        ) -> BoxFuture<'a, Result<Access, ReviewError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                Ok(Access {
                    allowed: user.name == "scraper",
                    reason: String::new(),
                })
            })
        }
    }

    fn user(name: &str, group: &str) -> User {
        User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        }
    }

    async fn allowed(authorization: &Authorization, user: &User, path: &str) -> bool {
        authorization
            .allows(user, "get", path)
            .await
            .expect("a decision")
            .allowed
    }

    #[tokio::test]
    async fn without_a_reviewer_only_administrators_may_request_more_than_the_open_paths() {
        let authorization = Authorization::new(AuthorizationOptions::default(), None);
        let anyone = user("system:anonymous", "system:unauthenticated");
        assert!(allowed(&authorization, &anyone, "/healthz").await);
        assert!(!allowed(&authorization, &anyone, "/healthz/etcd").await);
        assert!(!allowed(&authorization, &anyone, "/metrics").await);
        assert!(allowed(&authorization, &user("admin", "system:masters"), "/metrics").await);
    }

    #[tokio::test]
    async fn a_star_matches_any_suffix() {
        let options = AuthorizationOptions {
            always_allow_paths: vec!["healthz*".to_owned()],
            ..Default::default()
        };
        let authorization = Authorization::new(options, None);
        assert!(allowed(&authorization, &user("a", "b"), "/healthz/etcd").await);
        assert!(!allowed(&authorization, &user("a", "b"), "/livez").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_is_cached_for_its_time_to_live() {
        let reviewer = Arc::new(Scrapers::default());
        let authorization =
            Authorization::new(AuthorizationOptions::default(), Some(reviewer.clone()));
        for _ in 0..3 {
            assert!(allowed(&authorization, &user("scraper", ""), "/metrics").await);
            assert!(!allowed(&authorization, &user("other", ""), "/metrics").await);
        }
        assert_eq!(reviewer.0.load(Ordering::Relaxed), 2);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(allowed(&authorization, &user("scraper", ""), "/metrics").await);
        assert_eq!(reviewer.0.load(Ordering::Relaxed), 3);
    }
}
